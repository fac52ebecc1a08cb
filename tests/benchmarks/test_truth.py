from pathlib import Path

import numpy as np
import pytest

from benchmarks import truth as module
from benchmarks.corpus import corpus as corpus_module
from benchmarks.truth import DenseTruth, SparseTruth, share_found
from tests.benchmarks.corpus.small_corpus import small_corpus


@pytest.mark.parametrize(
    ("best", "found", "expected"),
    [
        ([9, 7, 5], [9, 7, 5], 1),
        ([9, 7, 5], [9, 5], 2 / 3),
        ([9, 7, 5], [9, 7, 4], 2 / 3),
        ([9, 5, 5], [5, 5, 5], 1),  # of equal scores any will do
        ([9, 5, 5], [9, 5, 5, 5], 1),
        ([9, 7, 0], [9, 7, 0], 1),  # only two documents share a term
        ([9, 7, 0], [9], 1 / 2),
        ([0, 0, 0], [], 1),
        ([9, 7, 5], [], 0),
    ],
)
def test_share_found(best: list[int], found: list[int], expected: float) -> None:
    assert share_found(np.array(best), np.array(found)) == pytest.approx(expected)


def plain_recall(scores: np.ndarray, found: list[int], k: int) -> float:
    """The definition, one document after the other."""
    ranked = sorted((score for score in scores if score > 0), reverse=True)[:k]
    hits = sum(1 for document in set(found) if scores[document] > 0 and scores[document] >= ranked[-1])
    return min(hits, len(ranked)) / len(ranked)


@pytest.mark.parametrize("kind", [SparseTruth, DenseTruth])
def test_recall_is_that_of_the_plain_formula(
    kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "SLICE", 70)
    monkeypatch.setattr(module, "SLICE", 70)
    monkeypatch.setattr(module, "QUERIES", 7)
    corpus = small_corpus(tmp_path)
    sparse = (corpus.queries @ corpus.rows(0, 300).T).toarray()
    scores = sparse if kind is SparseTruth else corpus.dense_queries @ corpus.dense.T
    truth, rng = kind(corpus, 20, 10), np.random.default_rng(0)
    assert truth.best.shape == (20, 10)
    for query in range(20):
        exact = list(np.argsort(-scores[query])[:10])
        assert truth.recall(query, exact) == 1
        some = [*exact[:6], *rng.integers(300, size=4)]
        assert truth.recall(query, some) == pytest.approx(plain_recall(scores[query], some, 10))
        assert truth.recall(query, exact[:3] * 3) == pytest.approx(
            plain_recall(scores[query], exact[:3] * 3, 10)
        )
        assert truth.recall(query, []) == 0
