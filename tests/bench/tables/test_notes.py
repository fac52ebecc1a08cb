from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.bench import clocks
from lexlip.bench.response import Response
from lexlip.bench.tables.columns import MEMORY, MINUTES, Column
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.notes import ABOUT, notes
from lexlip.bench.tables.row import Evaluation, Row, quote
from lexlip.bench.tables.stages import Plan, make_query_pool
from lexlip.data import Scenes, open_source
from lexlip.machine import resources
from tests.bench.tables.some_table import ALONE, PAIRS, RERANKED, some_table

POOL = make_query_pool(Scenes(30, seed=0), queries=10, captions=2)
RESPONSE_ONLY = some_table(recall=False, response=True)
WORDS = replace(ALONE, model="mini", documents="top-32")


def said(*rows: Row, table: Any = None, **changes: Any) -> list[str]:
    plan = Plan(**{"table": table or some_table(), "models": ["be"], **changes})
    return notes(plan, POOL, rows, "x")


def test_queries_are_counted_in_their_pool(photos: Path) -> None:
    assert said(ALONE)[0] == (
        "Measured with 10 photos and 20 captions of x, in a pool of 30 photos and 60 captions."
    )
    (photos / "0.txt").unlink()
    plan = Plan(table=some_table(), models=["be"])
    [pool, *_] = notes(plan, make_query_pool(open_source(photos)), [ALONE], "y")
    assert pool == "Measured with 5 photos and 5 captions of y, in a pool of 6 photos and 5 captions."


def test_what_searched() -> None:
    assert said(ALONE)[1] == "Recalls in percent. Dense vectors flat in Faiss."
    graph = TableSettings(engine="hnsw")
    cut = replace(WORDS, documents="all")
    assert said(WORDS, cut, ALONE, settings=graph)[1] == (
        "Recalls in percent. Words (top-32, all) in Lucene, dense vectors hnsw in Faiss."
    )
    assert said(PAIRS)[1] == "Recalls in percent."
    assert not any("percent" in note for note in said(ALONE, table=RESPONSE_ONLY))


def test_what_was_reranked() -> None:
    [note] = [note for note in said(ALONE, RERANKED) if "reranked" in note]
    assert note == "The first k of what a first stage finds are reranked. A joint model reranks itself."
    [note] = [note for note in said(RERANKED, fusions=["none", "add"], weight=0.3) if "reranked" in note]
    assert note.startswith(
        "The first k of what a first stage finds are reranked; in a sum the first stage has 0.3."
    )
    assert not any("reranked" in note for note in said(ALONE))


def test_how_the_response_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "WARM_UP", 2.5)
    about = resources.describe()
    response, tokens = said(ALONE, RERANKED, table=RESPONSE_ONLY)[2:4]
    assert response == (
        "Response: text to image, from a sentence to ids, 2 captions one at a time, on one thread of"
        f" {about['cpu']} ({about['cores']} threads), in a process of its own, after 2.5 s that do not count."
    )
    assert tokens.startswith("Reranking reads the photos' tokens from memory, 2 bytes a number")
    assert len(said(ALONE, table=RESPONSE_ONLY)) == 2
    memory = said(ALONE, table=some_table(recall=False, response=True, columns=(MEMORY,)))
    assert memory[2].startswith("MB: of a dense model and of a reranker both encoders, ")


def test_what_was_extrapolated() -> None:
    assert said(PAIRS, ALONE, table=RESPONSE_ONLY)[-1] == (
        "≈ the cross-encoder alone was timed on 10 photos with 1 captions, and extrapolated in proportion"
        " to 30."
    )


def test_synthetic_vectors_are_named() -> None:
    [*_, last] = said(ALONE, table=RESPONSE_ONLY, sizes=(50,))
    assert last.startswith("Synthetic vectors fill up the pools")


def test_bm25_and_training() -> None:
    bm25 = Row(model="bm25", documents="captions")
    assert said(bm25)[-1].startswith("bm25: one caption of a photo, drawn at random, is its document, ")
    assert said(ALONE, table=some_table(columns=(MINUTES,)))[-1].startswith("train min: of the run's steps ")


def test_the_tail_of_few_queries() -> None:
    tail = Column("P99.99 ms", lambda row: "", key="p99.99")
    table = some_table(recall=False, response=True, columns=(tail,))
    [note] = [note for note in said(ALONE, table=table) if note.startswith("P99.99")]
    assert note == (
        "P99.99 of 2 queries is practically the longest of them; it takes 10,000 to say more (--queries)."
    )
    many = replace(ALONE, response=Response(np.ones((10_000, 3)), 1.0))
    assert not [note for note in said(many, table=table) if note.startswith("P99.99")]


def test_folds_and_totals() -> None:
    folded = some_table(folds=(5, 1))
    assert said(ALONE, table=folded, folds=(5,))[1].startswith("folds: so many parts of consecutive photos")
    assert not any("folds" in note for note in said(ALONE, table=folded, folds=(1,)))
    total = some_table(recall=False, response=True, total=True)
    assert any(
        note.startswith("total s: of all queries one after another") for note in said(ALONE, table=total)
    )


def test_further_photos_are_counted_too() -> None:
    plan = Plan(table=some_table(), models=["be"])
    other = make_query_pool(Scenes(4, seed=1))
    first, second, *_ = notes(plan, POOL, [ALONE], "x", {"y": other})
    assert "10 photos and 20 captions of x" in first
    assert "4 photos and 20 captions of y" in second


def test_whole_evaluations() -> None:
    table = some_table(measure="evaluations", recall=False)
    row = replace(ALONE, evaluation=Evaluation(encode=1.0))
    assert said(row, table=table)[1].startswith("total s: of encoding all photos and captions, ")
    assert "extrapolated" not in said(row, table=table)[1]
    more = replace(ALONE, evaluation=Evaluation(encode=1.0, extrapolated=1200))
    assert "≈: extrapolated from 1,200 photos or fewer" in said(row, more, table=table)[1]


@pytest.mark.parametrize("ablations", ["vldeformer", "design", "objectives", "training photos", "layers"])
def test_what_the_names_of_ablations_mean(ablations: Any) -> None:
    assert set(ABOUT[ablations]) <= set(said(ALONE, table=some_table(ablations=ablations)))


def test_lines_of_the_paper() -> None:
    table = some_table(paper="Table 7 (arXiv 1)", quoted=quote(("mean",), "be | 7"))
    assert said(ALONE, table=table)[-1].startswith(
        "Lines marked paper are of its Table 7 (arXiv 1); – is what it does not give, and its photos are"
    )


def test_where_the_paper_s_figures_are() -> None:
    about, published = said(ALONE, table=some_table(paper="Table 7 (arXiv 1)", published="It was 8."))[-2:]
    assert about.startswith("The paper's figures are in its Table 7 (arXiv 1); its photos are regions ")
    assert published == "It was 8."
