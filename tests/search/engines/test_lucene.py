from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, read_metadata
from lexlip.search.engines.exact import exact_engine
from lexlip.search.engines.lucene import LuceneEngine, impact_writer, temporary_lucene_engine, write_impacts
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk
from tests.search.engines.vectors import DOCUMENTS, IDS, QUERIES, WORDS, V, unit


def check(ids: list[list[str]], scores: list[np.ndarray], expected: np.ndarray, within: float) -> None:
    """Every hit has its exact score, up to quantisation, and none that is left out is clearly better."""
    for found, found_scores, row in zip(ids, scores, expected, strict=True):
        of = dict(zip(IDS, row, strict=True))
        np.testing.assert_allclose(found_scores, [of[id] for id in found], atol=within)
        left_out = [score for id, score in of.items() if id not in set(found)]
        assert max(left_out) <= of[found[-1]] + 2 * within
        assert list(found_scores) == sorted(found_scores, reverse=True)


def test_lucene_agrees_with_cosines_within_quantisation() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        ids, scores = engine.search(QUERIES, 25)
        check(ids, scores, unit(QUERIES) @ unit(DOCUMENTS).T, within=0.002)
        with exact_engine(IDS, DOCUMENTS) as exact:
            plain, _ = exact.search(csr_matrix(unit(QUERIES)), 25)
    same = [len(set(a) & set(b)) / 25 for a, b in zip(ids, plain, strict=True)]
    assert np.mean(same) > 0.99


def test_lucene_with_the_paper_s_scale() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS, scheme="paper") as engine:
        ids, scores = engine.search(QUERIES, 25)
    expected = np.floor(QUERIES.toarray() * 100) @ np.floor(DOCUMENTS.toarray() * 100).T / 1e4
    check(ids, scores, expected, within=1e-6)


def test_lucene_gives_whole_numbers_in_its_unit() -> None:
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        assert isinstance(engine, LuceneEngine)
        _, scores = engine.search(QUERIES, 5)
        exact = [row * engine.unit for row in scores]
    assert all(np.allclose(row, np.rint(row), atol=1e-3) for row in exact)
    assert engine.unit == 1_000_000


def test_threads_and_empty_queries() -> None:
    queries = csr_matrix((3, V), dtype=np.float32)
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS, threads=2) as engine:
        assert engine.search(queries, 5)[0] == [[], [], []]
        ids, _ = engine.search(QUERIES, 5)
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        assert engine.search(QUERIES, 5)[0] == ids


def test_an_index_says_how_it_was_quantised(tmp_path: Path) -> None:
    for scheme, scale in (("unit", 1000), ("paper", 100)):
        with impact_writer(tmp_path / scheme, WORDS, scheme, 8, "model@1", {"made": "here"}) as writer:
            writer.add(IDS[:2], quantize(topk(DOCUMENTS[:2], 8), scheme))
        found = read_metadata(tmp_path / scheme)
        assert found.quantization == {"scheme": scheme, "scale": scale}
        assert (found.normalize, found.topk, found.encoder) == (scheme == "unit", 8, "model@1")
        assert found.extra == {"made": "here"}
        with ImpactSearcher(tmp_path / scheme) as searcher:
            assert LuceneEngine(searcher).unit == scale**2


def test_several_indexes_of_the_same_documents(tmp_path: Path) -> None:
    """Documents are made once, and each index keeps what its cut says."""
    asked = []

    def batches() -> Iterator[tuple[list[str], csr_matrix]]:
        for start in range(0, 60, 20):
            asked.append(start)
            yield IDS[start : start + 20], DOCUMENTS[start : start + 20]

    cuts = {tmp_path / "whole": lambda rows: rows, tmp_path / "cut": lambda rows: topk(rows, 3)}
    write_impacts(cuts, WORDS, batches())
    assert asked == [0, 20, 40]
    for folder, cut in cuts.items():
        with ImpactSearcher(folder) as searcher:
            stored = searcher.vectors(IDS[:60])
        assert (stored != quantize(cut(DOCUMENTS[:60]))).nnz == 0


def test_a_temporary_index_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_lucene_engine(IDS, DOCUMENTS, WORDS) as engine:
        assert len(list(tmp_path.iterdir())) == 1
        assert len(engine.searcher) == len(IDS)
    assert list(tmp_path.iterdir()) == []
