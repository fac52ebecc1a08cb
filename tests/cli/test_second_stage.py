"""--rerank and --also of `lexlip search` and `lexlip evaluate`, and cross-encoders as --model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.data import decode
from lexlip.encoders.image import to_pixels
from lexlip.models.one_transformer import CE
from tests.cli.test_index import error
from tests.tiny import tiny_dense, tiny_stage

Run = Callable[..., Any]
QUERY = "two dogs play with a white cat on the boat near the beach"


@pytest.fixture
def indexed(lexlip: Run, photos: Path) -> Run:
    """The command line, where .lexlip has six photos; `ce`, `be` and `dense` are models."""
    lexlip("index", "photos")
    tiny_stage("ce").save("ce")
    tiny_stage("be").save("be")
    tiny_dense().save("dense")
    lexlip("index", "photos", "--model", "dense", "--index", "vectors")
    return lexlip


def search(lexlip: Run, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(lexlip("search", QUERY, "--json", *arguments).stdout)
    return answer


def probabilities(paths: list[str]) -> np.ndarray:
    """What the cross-encoder says, one photo at a time."""
    model = CE.from_pretrained("ce")
    odds = []
    for path in paths:
        pixels = to_pixels(decode(Path(path).read_bytes(), 32), model.config.image)
        odds.append(model.score_pairs(model.embed_photos(pixels[None]), [QUERY], np.array([[0, 0]]))[0])
    return torch.sigmoid(torch.tensor(np.array(odds))).numpy()


def test_hits_are_in_the_reranker_s_order_with_both_scores(indexed: Run) -> None:
    first, again = search(indexed), search(indexed, "--rerank", "ce")
    before = {hit["id"]: hit for hit in first["hits"]}
    assert [hit["rank"] for hit in again["hits"]] == [1, 2, 3, 4, 5, 6]
    for hit in again["hits"]:
        assert {**before[hit["id"]], "rank": 0, "probability": 0} == {**hit, "rank": 0, "probability": 0}
    found = [hit["probability"] for hit in again["hits"]]
    assert found == sorted(found, reverse=True)
    np.testing.assert_allclose(found, probabilities([hit["path"] for hit in again["hits"]]), rtol=1e-3)
    assert list(again["ms"]) == ["encode", "search", "rerank"]


def test_only_the_first_k_are_reranked(indexed: Run) -> None:
    first, again = search(indexed), search(indexed, "--rerank", "ce", "--rerank-k", 2)
    ids = [[hit["id"] for hit in answer["hits"]] for answer in (first, again)]
    assert set(ids[0][:2]) == set(ids[1][:2])
    assert ids[0][2:] == ids[1][2:]
    assert [hit["probability"] is None for hit in again["hits"]] == [False] * 2 + [True] * 4
    few = search(indexed, "-k", 1, "--rerank", "ce")  # chosen among more than are shown
    assert [hit["id"] for hit in few["hits"]] == [search(indexed, "--rerank", "ce")["hits"][0]["id"]]


def test_fused_scores(indexed: Run) -> None:
    first = {hit["id"]: hit for hit in search(indexed, "--rerank", "ce")["hits"]}
    options = ("--rerank", "ce", "--rerank-fusion", "add", "--rerank-weight", 0.9)
    fused = [0.9 * hit["score"] + 0.1 * hit["probability"] for hit in first.values()]
    order = [list(first)[row] for row in np.argsort(-np.array(fused), kind="stable")]
    assert [hit["id"] for hit in search(indexed, *options)["hits"]] == order
    alone = search(indexed, "--rerank", "ce", "--rerank-fusion", "norm_add", "--rerank-weight", 1)
    assert [hit["id"] for hit in alone["hits"]] == [hit["id"] for hit in search(indexed)["hits"]]


def test_a_photo_that_is_gone_is_last_of_the_candidates(indexed: Run, photos: Path) -> None:
    best = search(indexed, "--rerank", "ce")["hits"][0]["id"]
    (photos / best).unlink()
    hits = search(indexed, "--rerank", "ce")["hits"]
    assert (hits[-1]["id"], hits[-1]["probability"]) == (best, None)
    assert len(hits) == 6
    assert "note: 1 photo could not be read" in indexed("search", QUERY, "--rerank", "ce").stderr


def test_text_and_contact_sheet_show_both_scores(indexed: Run) -> None:
    hit = search(indexed, "--rerank", "ce")["hits"][0]
    result = indexed("search", QUERY, "--rerank", "ce", "--html", "page.html")
    assert f"  1  {hit['score']:.3f}  {hit['probability']:.3f}  {hit['path']}" in result.stdout
    assert "rerank" in result.stderr
    assert f"{hit['score']:.3f} · {hit['probability']:.3f}" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", ["rrf", "weighted"])
def test_two_indexes_answer_as_one(indexed: Run, how: str) -> None:
    first, second = search(indexed), search(indexed, "--index", "vectors")
    both = search(indexed, "--also", "vectors", "--hybrid", how, "--hybrid-weight", 0.3)
    sums: dict[str, float] = {}
    for answer, weight in ((first, 0.3), (second, 0.7)):
        scores = [hit["score"] for hit in answer["hits"]]
        low, high = min(scores), max(scores)
        for rank, hit in enumerate(answer["hits"], 1):
            share = 1 / (60 + rank) if how == "rrf" else weight * (hit["score"] - low) / (high - low)
            sums[hit["id"]] = sums.get(hit["id"], 0) + share
    assert [hit["score"] for hit in both["hits"]] == pytest.approx(sorted(sums.values(), reverse=True))
    words = {hit["id"]: hit["words"] for hit in first["hits"]}
    for hit in both["hits"]:
        assert hit["score"] == pytest.approx(sums[hit["id"]])
        assert hit["words"] == words[hit["id"]]


def test_indexes_of_other_folders_are_not_fused(indexed: Run, photos: Path) -> None:
    (photos / "some").mkdir()
    (photos / "0.jpg").rename(photos / "some" / "0.jpg")
    indexed("index", "photos/some", "--model", "dense", "--index", "few")
    says = ".lexlip and few are not indexes of the same photos"
    assert says in error(indexed("search", QUERY, "--also", "few", code=2))


def evaluate(lexlip: Run, *arguments: object) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(lexlip("evaluate", "scenes:8:0", "--json", *arguments).stdout)
    return report


def test_evaluate_reranks_and_fuses(indexed: Run) -> None:
    first = evaluate(indexed)
    alone = evaluate(indexed, "--rerank", "ce", "--rerank-fusion", "norm_add", "--rerank-weight", 1)
    assert alone == first | {"short_queries": None}  # which are not reranked
    everything = evaluate(indexed, "--rerank", "ce", "--rerank-k", 100)
    pairs = evaluate(indexed, "--model", "ce")
    assert everything["t2i"] == pairs["t2i"]  # a first stage that finds all of eight photos
    dense = evaluate(indexed, "--model", "dense")
    one = evaluate(indexed, "--also", "dense", "--hybrid", "weighted", "--hybrid-weight", 0)
    assert one["t2i"] == dense["t2i"]
    text = indexed("evaluate", "scenes:8:0", "--also", "dense", "--rerank", "ce").stdout
    assert "fused by rrf, the first 20 reranked by ce" in text.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["search", "dog", "--rerank", "be"],
            "first stage and cannot rerank; reranking needs a ce or joint",
        ),
        (["search", "dog", "--rerank", "nowhere"], "no model 'nowhere'"),
        (["search", "dog", "--rerank-k", "5"], "--rerank-k is for --rerank: leave it out"),
        (["search", "dog", "--hybrid", "rrf"], "--hybrid is for --also: leave it out"),
        (["search", "dog", "--also", "nowhere"], "nowhere"),
        (["search", "--image", "photos/0.jpg", "--rerank", "ce"], "--rerank is for sentences"),
        (["search", "--image", "photos/0.jpg", "--also", "vectors"], "--also is for sentences"),
        (["index", "photos", "--model", "ce"], "ce is a ce model, which has no vectors to find photos by"),
        (["evaluate", "scenes:4:0", "--model", "ce", "--rerank", "ce"], "--rerank is for first stages"),
        (["evaluate", "scenes:4:0", "--model", "dense", "--also", "ce"], "has no vectors to find photos by"),
        (
            ["evaluate", "scenes:4:0", "--also", "bm25"],
            "bm25 has fewer captions for queries than models",
        ),
        (["evaluate", "scenes:4:0", "--rerank", "runs/ce"], "no model 'runs/ce'"),
    ],
)
def test_one_sentence_each(indexed: Run, arguments: list[str], message: str) -> None:
    assert message in error(indexed(*arguments, code=2))
