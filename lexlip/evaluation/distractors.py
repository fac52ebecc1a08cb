"""Vectors that make a pool larger than the photos at hand: for its size and speed, less for its recall."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

CHUNK = 4096  # vectors made at a time


def recombined(vectors: csr_matrix, number: int, seed: int = 0) -> Iterator[csr_matrix]:
    """Sparse vectors, each from two real ones: a coin for every word says whose weight of it to take.

    So words have the document frequencies and weights of the real vectors, and vectors their mean number of
    words; but a mixture of two photos shows no third one. It distracts less than a real photo does.

    Args:
        vectors: the real ones, [n, V].
        number: of vectors to make.
        seed: the same gives the same vectors.

    Yields:
        float32 [m, V], m up to 4096.
    """
    random = np.random.default_rng(seed)
    vectors = csr_matrix(vectors, dtype=np.float32)
    for rows in _chunks(number):
        first, second = (vectors[random.integers(vectors.shape[0], size=rows)] for _ in range(2))
        coins = random.integers(2, size=(rows, vectors.shape[1]), dtype=np.bool_)
        for parent, side in ((first, coins), (second, ~coins)):
            parent.data *= side[np.repeat(np.arange(rows), np.diff(parent.indptr)), parent.indices]
        mixed = csr_matrix(first + second)
        mixed.eliminate_zeros()
        yield mixed


def gaussian(vectors: csr_matrix, number: int, seed: int = 0) -> Iterator[csr_matrix]:
    """Dense vectors drawn from a normal distribution with the mean and the covariance of real unit vectors.

    The arguments are those of `recombined`; vectors [n, D].
    """
    random = np.random.default_rng(seed)
    real = vectors.toarray().astype(np.float64)
    real /= np.maximum(np.linalg.norm(real, axis=1, keepdims=True), 1e-12)
    mean = real.mean(axis=0)
    values, directions = np.linalg.eigh((real - mean).T @ (real - mean) / len(real))
    root = (directions * np.sqrt(np.maximum(values, 0))).astype(np.float32).T  # [D, D]
    for rows in _chunks(number):
        drawn = random.standard_normal((rows, len(mean)), dtype=np.float32) @ root
        yield csr_matrix(drawn + mean.astype(np.float32))


def _chunks(number: int) -> Iterator[int]:
    """The sizes of the chunks."""
    yield from (min(CHUNK, number - start) for start in range(0, number, CHUNK))
