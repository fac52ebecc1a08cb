"""What is checked alike is said alike, by both kinds of searchers."""

from pathlib import Path

import numpy as np
import pytest
from bridge_corpus import ABC, A, written
from scipy.sparse import csr_matrix

from anserini_bridge import BadVectors, FlatSearcher, ImpactSearcher
from anserini_bridge.checks import state_of


@pytest.fixture(params=[FlatSearcher, ImpactSearcher])
def searcher(request: pytest.FixtureRequest, tmp_path: Path) -> FlatSearcher | ImpactSearcher:
    path = written(tmp_path / "i", ABC, ["x", "y"], csr_matrix([[1, 2, 0], [0, 1, 1]]), flat=True)
    return request.param(path)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"k": 0}, "k is 0: give a whole number of at least 1"),
        ({"k": 2.0}, r"k is 2\.0: give a whole number of at least 1"),
        ({"threads": -1}, "threads is -1: give a whole number of at least 1"),
        ({"alpha": 1.5}, r"alpha is 1\.5: give a number above 0 and at most 1"),
        ({"alpha": float("nan")}, "alpha is nan: give a number above 0 and at most 1"),
        ({"allowed": np.ones(3, np.bool_)}, r"allowed is bool \[3\]: give bool \[2\]"),
        ({"allowed": np.ones(2, np.int32)}, r"allowed is int32 \[2\]: give bool \[2\]"),
    ],
)
def test_settings(searcher: FlatSearcher | ImpactSearcher, how: dict[str, object], said: str) -> None:
    with pytest.raises(BadVectors, match=f"^{said}"):
        searcher.search(A, **how)  # type: ignore[arg-type]


def test_one_query_and_one_state(searcher: FlatSearcher | ImpactSearcher) -> None:
    with pytest.raises(BadVectors, match=r"^there are 2 queries: give one row$"):
        searcher.contributions(csr_matrix([[1, 0, 0], [0, 1, 0]]), ["x"])
    assert searcher.state == state_of(searcher.metadata)
    allowed = searcher.allow(np.ones(2, np.bool_))
    written(searcher.path, ABC, ["z"], A, mode="update")
    assert searcher.refresh()
    with pytest.raises(BadVectors, match=r"^the allowed documents are of another state of the index"):
        searcher.search(A, allowed=allowed)  # type: ignore[arg-type]
