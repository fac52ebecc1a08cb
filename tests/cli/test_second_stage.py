"""--rerank and --also of `lexlip search` and `lexlip evaluate`, and cross-encoders as --model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.data import decode
from lexlip.encoders.image import to_pixels
from lexlip.models.one_transformer import CE
from tests.cli.conftest import ALL, Run, as_json, error
from tests.conftest import write_photos
from tests.search.indexes import index_dense
from tests.tiny import tiny_dense, tiny_stage


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    """A folder of the models `ce`, `be` and `dense`, and of `vectors`, an index of `library` by the last."""
    folder = tmp_path_factory.mktemp("stages")
    tiny_stage("ce").save(folder / "ce")
    tiny_stage("be").save(folder / "be")
    tiny_dense().save(folder / "dense")
    index_dense(folder / "dense", library, folder / "vectors")
    return folder


@pytest.fixture
def staged(indexed: Run, made: Path, tmp_path: Path) -> Run:
    """The command line where these are, and the index of `library`, to read only."""
    for place in made.iterdir():
        (tmp_path / place.name).symlink_to(place)
    return indexed


def search(lexlip: Run, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = as_json(lexlip, "search", ALL, *arguments)
    return answer


def probabilities(paths: list[str]) -> np.ndarray:
    """What the cross-encoder says, one photo at a time."""
    model = CE.from_pretrained("ce")
    odds = []
    for path in paths:
        pixels = to_pixels(decode(Path(path).read_bytes(), 32), model.config.image)
        odds.append(model.score_pairs(model.embed_photos(pixels[None]), [ALL], np.array([[0, 0]]))[0])
    return torch.sigmoid(torch.tensor(np.array(odds))).numpy()


def test_hits_are_in_the_reranker_s_order_with_both_scores(staged: Run) -> None:
    first, again = search(staged), search(staged, "--rerank", "ce")
    before = {hit["id"]: hit for hit in first["hits"]}
    assert [hit["rank"] for hit in again["hits"]] == [1, 2, 3, 4, 5, 6]
    for hit in again["hits"]:
        assert {**before[hit["id"]], "rank": 0, "probability": 0} == {**hit, "rank": 0, "probability": 0}
    found = [hit["probability"] for hit in again["hits"]]
    assert found == sorted(found, reverse=True)
    np.testing.assert_allclose(found, probabilities([hit["path"] for hit in again["hits"]]), rtol=1e-3)
    assert list(again["ms"]) == ["encode", "search", "rerank"]


def test_only_the_first_k_are_reranked(staged: Run) -> None:
    first, again = search(staged), search(staged, "--rerank", "ce", "--rerank-k", 2)
    ids = [[hit["id"] for hit in answer["hits"]] for answer in (first, again)]
    assert set(ids[0][:2]) == set(ids[1][:2])
    assert ids[0][2:] == ids[1][2:]
    assert [hit["probability"] is None for hit in again["hits"]] == [False] * 2 + [True] * 4
    few = search(staged, "-k", 1, "--rerank", "ce")  # chosen among more than are shown
    assert [hit["id"] for hit in few["hits"]] == [search(staged, "--rerank", "ce")["hits"][0]["id"]]


def test_fused_scores(staged: Run) -> None:
    first = {hit["id"]: hit for hit in search(staged, "--rerank", "ce")["hits"]}
    options = ("--rerank", "ce", "--rerank-fusion", "add", "--rerank-weight", 0.9)
    fused = [0.9 * hit["score"] + 0.1 * hit["probability"] for hit in first.values()]
    order = [list(first)[row] for row in np.argsort(-np.array(fused), kind="stable")]
    assert [hit["id"] for hit in search(staged, *options)["hits"]] == order
    alone = search(staged, "--rerank", "ce", "--rerank-fusion", "norm_add", "--rerank-weight", 1)
    assert [hit["id"] for hit in alone["hits"]] == [hit["id"] for hit in search(staged)["hits"]]


def test_a_photo_that_is_gone_is_last_of_the_candidates(lexlip: Run, photos: Path, made: Path) -> None:
    lexlip("index", "photos")
    best = search(lexlip, "--rerank", made / "ce")["hits"][0]["id"]
    (photos / best).unlink()
    hits = search(lexlip, "--rerank", made / "ce")["hits"]
    assert (hits[-1]["id"], hits[-1]["probability"]) == (best, None)
    assert len(hits) == 6
    assert "note: 1 photo could not be read" in lexlip("search", ALL, "--rerank", made / "ce").stderr


def test_text_and_contact_sheet_show_both_scores(staged: Run) -> None:
    hit = search(staged, "--rerank", "ce")["hits"][0]
    result = staged("search", ALL, "--rerank", "ce", "--html", "page.html")
    assert f"  1  {hit['score']:.3f}  {hit['probability']:.3f}  {hit['path']}" in result.stdout
    assert "rerank" in result.stderr
    assert f"{hit['score']:.3f} · {hit['probability']:.3f}" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", ["rrf", "weighted"])
def test_two_indexes_answer_as_one(staged: Run, how: str) -> None:
    first, second = search(staged), search(staged, "--index", "vectors")
    both = search(staged, "--also", "vectors", "--hybrid", how, "--hybrid-weight", 0.3)
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


def test_indexes_of_other_folders_are_not_fused(staged: Run, tmp_path: Path) -> None:
    write_photos(tmp_path / "others", 1)
    staged("index", "others", "--model", "dense", "--index", "few")
    says = ".lexlip and few are not indexes of the same photos"
    assert says in error(staged("search", ALL, "--also", "few", code=2))


def evaluate(lexlip: Run, *arguments: object) -> dict[str, Any]:
    report: dict[str, Any] = as_json(lexlip, "evaluate", "scenes:8:0", *arguments)
    return report


def test_evaluate_reranks_and_fuses(staged: Run) -> None:
    first = evaluate(staged)
    alone = evaluate(staged, "--rerank", "ce", "--rerank-fusion", "norm_add", "--rerank-weight", 1)
    assert alone == first | {"short_queries": None}  # which are not reranked
    everything = evaluate(staged, "--rerank", "ce", "--rerank-k", 100)
    pairs = evaluate(staged, "--model", "ce")
    assert everything["t2i"] == pairs["t2i"]  # a first stage that finds all of eight photos
    dense = evaluate(staged, "--model", "dense")
    one = evaluate(staged, "--also", "dense", "--hybrid", "weighted", "--hybrid-weight", 0)
    assert one["t2i"] == dense["t2i"]
    text = staged("evaluate", "scenes:8:0", "--also", "dense", "--rerank", "ce").stdout
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
def test_one_sentence_each(staged: Run, arguments: list[str], message: str) -> None:
    assert message in error(staged(*arguments, code=2))
