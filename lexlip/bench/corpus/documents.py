"""Real vectors followed by synthetic ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

CHUNK = 4096  # documents at a time


@dataclass(frozen=True)
class Documents:
    """Real vectors and synthetic ones after them, which are made anew for each iteration.

    The order of the real ones is random: it decides between equal scores, and what queries look for must not
    come first.

    Attributes:
        ids: of the n real ones.
        vectors: [n, V].
        synthetic: how many more.
        synthesise: makes so many from real ones and a seed; see `lexlip.bench.corpus.distractors`.
        parents: what the synthetic ones are made from. What queries look for should not be among them: a
            mixture of a vector is more similar to it than another photo is.
        seed: of everything that is drawn.
    """

    ids: Sequence[str]
    vectors: csr_matrix
    synthetic: int
    synthesise: Callable[[csr_matrix, int, int], Iterator[csr_matrix]]
    parents: csr_matrix
    seed: int = 0

    def __len__(self) -> int:
        return len(self.ids) + self.synthetic

    def __iter__(self) -> Iterator[tuple[list[str], csr_matrix]]:
        """Yield ids and float vectors, [m, V], with m up to 4096."""
        order = np.random.default_rng(self.seed).permutation(len(self.ids))
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            yield [self.ids[row] for row in chunk], self.vectors[chunk]
        number = 0
        for rows in self.synthesise(self.parents, self.synthetic, self.seed):
            yield [f"synthetic/{number + row}" for row in range(rows.shape[0])], rows
            number += rows.shape[0]
