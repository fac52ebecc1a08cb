"""Search engines have one interface: `search(queries, k) -> ids, scores`, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

EngineName = Literal["lucene", "exact", "flat", "hnsw"]

Results = tuple[list[list[str]], list[np.ndarray]]
"""For each query the ids and the scores of its hits, best first.

With sparse vectors only documents that share a word with the query are hits.
"""


Scores = Sequence[float] | NDArray[np.floating]
"""Of the hits of one query."""


class Engine(Protocol):
    """Answers queries."""

    def search(self, queries: csr_matrix, k: int) -> Results:
        """Return the k best documents for each query, [n, V]."""
        ...


EngineOf = Callable[[Sequence[str], csr_matrix], AbstractContextManager[Engine]]
"""Makes an engine that holds documents, given their ids and (top-K) vectors."""
