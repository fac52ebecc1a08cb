"""Synthetic vectors, which make a pool larger than its photos."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array

CHUNK = 4096  # vectors at a time
SAMPLE = 2048  # real vectors among which neighbours are searched for
NEAREST = 16  # neighbours, one of which is drawn


def recombined(vectors: csr_matrix, number: int, seed: int = 0) -> Iterator[csr_matrix]:
    """Yield so many sparse vectors, each mixed from a real one, [n, V], and one of its neighbours.

    A word that both have gets the mean of the two weights; a word that only one of them has is kept with
    probability 1/2. So words keep roughly the document frequencies of the real vectors, and vectors their
    mean number of words. The neighbour is one of the 16 most similar among 2048 real ones, drawn once.

    Such vectors distract less than real photos, but far more than mixtures of any two, which also take
    longer to search; docs/notes/2026-11-22-synthetic-vectors.md has the figures.

    Yields:
        float32 [m, V], m up to 4096.
    """
    for mixed, _ in mixtures(vectors, number, seed):
        yield mixed


def mixtures(vectors: csr_matrix, number: int, seed: int) -> Iterator[tuple[csr_matrix, NDArray[np.int64]]]:
    """Yield what `recombined` does, and of which two rows of the vectors each is, [m, 2]."""
    if not number:
        return
    rng = np.random.default_rng(seed)
    vectors = csr_matrix(vectors, dtype=np.float32)
    near = _neighbours(vectors, rng.permutation(vectors.shape[0])[:SAMPLE])
    for rows in _chunks(number):
        chosen = rng.integers(vectors.shape[0], size=rows)
        others = near[chosen, rng.integers(near.shape[1], size=rows)]
        first, second = vectors[chosen], vectors[others]
        mixed = csr_matrix(first + second)
        holders = csr_matrix(first.sign() + second.sign())  # 1 or 2, at the same places
        mixed.data *= np.where(holders.data == 2, 0.5, rng.integers(2, size=mixed.nnz))
        mixed.eliminate_zeros()
        yield mixed, np.stack([chosen, others], axis=1)


def _neighbours(vectors: csr_matrix, sample: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of a sample that are most similar to each vector by cosine, in no order.

    int64 [n, 16], or fewer columns if the sample is small. A vector is not its own neighbour, unless there is
    no other.
    """
    norms = np.sqrt(vectors.multiply(vectors).sum(axis=1)).A1
    unit = csr_matrix(diags_array(1 / np.maximum(norms, 1e-12)) @ vectors, dtype=np.float32)
    columns = np.ascontiguousarray(unit[sample].toarray().T)  # [V, SAMPLE]
    count = min(NEAREST, max(1, len(sample) - 1))
    near = np.empty((vectors.shape[0], count), dtype=np.int64)
    for start in range(0, len(near), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(near)))
        cosines = unit[rows] @ columns
        cosines[rows[:, None] == sample] = -1
        near[rows] = sample[np.argpartition(-cosines, count - 1, axis=1)[:, :count]]
    return near


def gaussian(vectors: csr_matrix, number: int, seed: int = 0) -> Iterator[csr_matrix]:
    """Yield dense vectors from a normal distribution with the mean and covariance of real unit vectors.

    The real ones are [n, D]; yields float32 [m, D], m up to 4096.
    """
    if not number:
        return
    rng = np.random.default_rng(seed)
    real = vectors.toarray().astype(np.float64)
    real /= np.maximum(np.linalg.norm(real, axis=1, keepdims=True), 1e-12)
    mean = real.mean(axis=0)
    values, directions = np.linalg.eigh((real - mean).T @ (real - mean) / len(real))
    root = (directions * np.sqrt(np.maximum(values, 0))).astype(np.float32).T  # [D, D]
    for rows in _chunks(number):
        drawn = rng.standard_normal((rows, len(mean)), dtype=np.float32) @ root
        yield csr_matrix(drawn + mean.astype(np.float32))


def _chunks(number: int) -> Iterator[int]:
    """Yield the sizes of the chunks."""
    yield from (min(CHUNK, number - start) for start in range(0, number, CHUNK))


@dataclass(frozen=True)
class Documents:
    """Real vectors and synthetic ones after them, which are made anew for each iteration.

    The order of the real ones is random: it decides between equal scores, and what queries look for must not
    come first. Nor should that be among the parents: a mixture of a vector is more similar to it than another
    photo is.
    """

    ids: Sequence[str]  # of the n real ones
    vectors: csr_matrix  # [n, V]
    synthetic: int  # how many more
    synthesise: Callable[[csr_matrix, int, int], Iterator[csr_matrix]]  # `recombined` or `gaussian`
    parents: csr_matrix  # what the synthetic ones are made from
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
