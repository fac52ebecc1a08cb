"""--rerank and --also of `lexlip search` and `lexlip evaluate`, and cross-encoders as --model.

What they answer is compared with the library's answers in test_search.py.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ALL, Run, as_json, error
from tests.conftest import write_photos


def search(lexlip: Run, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = as_json(lexlip, "search", ALL, *arguments)
    return answer


def test_photos_that_are_gone_are_counted(lexlip: Run, photos: Path, made: Path) -> None:
    lexlip("index", "photos")
    best = search(lexlip, "--rerank", made / "ce")["hits"][0]["id"]
    (photos / best).unlink()
    assert "note: 1 photo could not be read" in lexlip("search", ALL, "--rerank", made / "ce").stderr


def test_text_and_contact_sheet_show_both_scores(staged: Run) -> None:
    hit = search(staged, "--rerank", "ce")["hits"][0]
    result = staged("search", ALL, "--rerank", "ce", "--html", "page.html")
    assert f"  1  {hit['score']:.3f}  {hit['probability']:.3f}  {hit['path']}" in result.stdout
    assert "rerank" in result.stderr
    assert f"{hit['score']:.3f} · {hit['probability']:.3f}" in Path("page.html").read_text(encoding="utf-8")


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
