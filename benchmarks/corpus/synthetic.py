"""Sparse vectors of any number of photos and captions, with the statistics of real ones.

A photo is a point h in a space of a few directions, drawn around the centre of one of many topics. Every
term t has a direction w_t (of length 1) and a threshold: z_t = <w_t, h> is about standard normal, and the
photo has the term if z_t is above the threshold. So terms with similar directions occur together, and some
terms are in half of all photos and most in hardly any. The dense vector of a photo is h itself, rotated into
512 dimensions: the neighbours of both kinds of vectors are the same photos.

A caption is the blurred point of a photo. It has its own thresholds: people do not say all that a photo
shows.

    shape = Shape()                       # or Shape(vocabulary=2_000, ...)
    photos = SyntheticVectors(shape, seed=0)
    for vectors in photos.documents(1_000_000, topk=32):
        ...                               # csr_matrix int32 [n, V], quantised
    queries = photos.queries(2_000, terms=12)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from scipy.special import ndtri

from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk as heaviest

Floats = NDArray[np.float32]

BLOCK = 16_384  # photos drawn from one seed; a photo depends on nothing but its block's number
CAPTIONS = 256  # encoded at a time
DENSE = 512  # dimensions of a dense vector


@dataclass(frozen=True)
class Shape:
    """The statistics of vectors.

    The shape "mini" was fitted to an earlier packaged model's vectors of 28,549 photos (Flickr8k, COCO,
    Visual Genome and others), which use 1,695 terms, and of 5,000 captions: the values were varied until
    real and synthetic vectors had the same statistics. The
    default extrapolates it to the 30,522 terms of BERT's whole vocabulary: it keeps the weights, and nearly
    the cosines of the best documents, and touches fewer postings.
    """

    vocabulary: int = 30_522  # V, terms
    terms: tuple[float, float] = (54, 18)  # of a photo before top-K, mean and standard deviation
    query_terms: tuple[float, float] = (57, 20)  # of a caption, likewise
    spread: float = 0.5  # standard deviation of the photos' thresholds: how much document frequencies differ
    query_spread: float = 0.5  # of the captions' thresholds
    agreement: float = 0.95  # correlation of the two
    directions: int = 128  # D, of the space of photos
    decay: float = 1.0  # direction k has a standard deviation in proportion to k^-decay, k = 1, 2, …
    topics: int = 256
    popularity: float = 1.0  # Zipf exponent of the topics
    within: float = 0.2  # share of the variance inside a topic
    blur: float = 0.9  # correlation of the points of a photo and of its caption
    scale: float = 0.8  # the weight of a term is log(1 + scale · (z - threshold))
    candidates: int = 400  # the terms nearest to a topic's centre, which its photos can have


SHAPES = {
    "wide": Shape(),
    "mini": Shape(vocabulary=1_695, terms=(67, 22), spread=0.7, query_spread=0.7, agreement=0.8, decay=0.75),
}


class SyntheticVectors:
    """Photos and captions drawn from a shape.

    The same seed gives the same vectors, whatever the size of chunks; a smaller corpus is the beginning of a
    larger one.

    Raises:
        ValueError: the vocabulary is too small for so many terms.
    """

    def __init__(self, shape: Shape = SHAPES["wide"], seed: int = 0) -> None:
        self.shape, self.seed = shape, seed
        if max(shape.terms[0], shape.query_terms[0]) * 2 > shape.vocabulary:
            raise ValueError(f"a vocabulary of {shape.vocabulary} terms is too small for {shape}")
        rng = self._rng(0)
        deviations = np.arange(1, shape.directions + 1) ** -float(shape.decay)
        self.deviations = (deviations / np.linalg.norm(deviations)).astype(np.float32)
        directions = _normal(rng, shape.vocabulary, shape.directions) * self.deviations
        self.directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)  # [V, D]
        common = ndtri((np.arange(shape.vocabulary) + 0.5) / shape.vocabulary)  # frequent terms first
        own = rng.permutation(common)
        of_captions = shape.agreement * common + np.sqrt(1 - shape.agreement**2) * own
        self.thresholds = (shape.spread * common).astype(np.float32)  # [V]; up to a constant, see _terms
        self.query_thresholds = (shape.query_spread * of_captions).astype(np.float32)
        self.centres = np.sqrt(np.float32(1 - shape.within)) * _normal(rng, shape.topics, shape.directions)
        shares = np.arange(1, shape.topics + 1) ** -float(shape.popularity)
        self.limits = np.cumsum(shares / shares.sum())
        distance = self.thresholds - self.centres @ self.directions.T
        number = min(shape.candidates, shape.vocabulary)
        self.candidates = np.argpartition(distance, number - 1, axis=1)[:, :number]  # [topics, candidates]
        self.rotation = np.linalg.qr(rng.standard_normal((DENSE, shape.directions)))[0].T  # [D, 512]

    def documents(self, number: int, topk: int | None = 32, chunk: int = 100_000) -> Iterator[csr_matrix]:
        """Yield quantised vectors, int32 [n <= chunk, V], of the first `number` photos.

        A photo of a chunk takes about 250 bytes of memory at top-32.
        """
        blocks = (quantize(self.block(index, topk)) for index in range(-(-number // BLOCK)))
        yield from _rechunked(blocks, number, chunk, lambda parts: vstack(parts, format="csr"))

    def queries(self, number: int, terms: int | None = 12, corpus: int = BLOCK) -> csr_matrix:
        """Return quantised captions, int32 [number, V], with up to `terms` terms; None keeps all.

        Each describes one of the first `corpus` photos (at most 16,384).
        """
        return quantize(self.captions(number, terms, corpus))

    def dense_documents(self, number: int, chunk: int = 100_000) -> Iterator[Floats]:
        """Yield unit vectors, float32 [n <= chunk, 512], of the first `number` photos."""
        blocks = (self._dense(self._points(index)[1]) for index in range(-(-number // BLOCK)))
        yield from _rechunked(blocks, number, chunk, np.concatenate)

    def dense_queries(self, number: int, corpus: int = BLOCK) -> Floats:
        """Return unit vectors, float32 [number, 512], of the captions that `queries` returns."""
        return self._dense(self._described(number, corpus))

    def captions(self, number: int, terms: int | None = None, corpus: int = BLOCK) -> csr_matrix:
        """Return float vectors, [number, V], of the captions that `queries` returns."""
        points = self._described(number, corpus)
        counts = self._counts(self._rng(3), number, self.shape.query_terms)
        parts = []
        for start in range(0, number, CAPTIONS):
            rows = slice(start, start + CAPTIONS)
            z = points[rows] @ self.directions.T - self.query_thresholds  # [n, V]
            columns, weights = _terms(z, counts[rows], self.shape.scale)
            parts.append(heaviest(_matrix(columns, weights, self.shape.vocabulary), terms))
        return csr_matrix(vstack(parts, format="csr"))

    def block(self, index: int, topk: int | None = None) -> csr_matrix:
        """Return float vectors, [16384, V], of one block of photos, with their `topk` heaviest terms."""
        topics, points = self._points(index)
        counts = self._counts(self._rng(2, index), BLOCK, self.shape.terms)
        kept = min(topk or BLOCK, int(np.max(counts)))
        columns = np.zeros((BLOCK, kept), dtype=np.int32)
        weights = np.zeros((BLOCK, kept), dtype=np.float32)
        order = np.argsort(topics, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(topics[order])) + 1):
            terms = self.candidates[topics[rows[0]]]
            z = points[rows] @ self.directions[terms].T - self.thresholds[terms]  # [n, candidates]
            found, values = _terms(z, counts[rows], self.shape.scale)
            width = min(kept, found.shape[1])
            columns[rows, :width] = terms[found[:, :width]]
            weights[rows, :width] = values[:, :width]
        return _matrix(columns, weights, self.shape.vocabulary)

    def _points(self, index: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the topics, [n], and points, [n, D], of the photos of a block."""
        rng = self._rng(1, index)
        topics = np.minimum(np.searchsorted(self.limits, rng.random(BLOCK)), self.shape.topics - 1)
        own = _normal(rng, BLOCK, self.shape.directions)
        return topics, self.centres[topics] + np.sqrt(np.float32(self.shape.within)) * own

    def _described(self, number: int, corpus: int) -> Floats:
        """Return the points of captions, [number, D]."""
        rng = self._rng(4)
        photos = self._points(0)[1][rng.integers(min(corpus, BLOCK), size=number)]
        blur = np.float32(self.shape.blur)
        return blur * photos + np.sqrt(1 - blur**2) * _normal(rng, number, self.shape.directions)

    def _dense(self, points: Floats) -> Floats:
        vectors = (points * self.deviations) @ self.rotation.astype(np.float32)
        unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _counts(self, rng: np.random.Generator, number: int, terms: tuple[float, float]) -> NDArray[np.int64]:
        """Return how many terms vectors have: gamma-distributed, so that a few have many."""
        mean, deviation = terms
        counts = rng.gamma((mean / deviation) ** 2, deviation**2 / mean, size=number)
        return np.clip(np.rint(counts), 1, self.candidates.shape[1] - 1).astype(np.int64)

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream])


def _normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape, dtype=np.float32)


def _terms(z: Floats, counts: NDArray[np.int64], scale: float) -> tuple[NDArray[np.int64], Floats]:
    """Return the counts[i] columns of z, [n, C], with the highest values, best first, and their weights.

    Both are [n, max(counts)]; the weights of a row end with zeros. The first value that is left out serves
    as the threshold.
    """
    width = int(np.max(counts)) + 1
    columns = np.argpartition(-z, width - 1, axis=1)[:, :width]
    values = np.take_along_axis(z, columns, axis=1)
    order = np.argsort(-values, axis=1)
    columns, values = np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)
    above = values[:, :-1] - values[np.arange(len(values)), counts][:, None]
    return columns[:, :-1], np.log1p(scale * np.maximum(above, 0))


def _matrix(columns: NDArray[np.integer], weights: Floats, vocabulary: int) -> csr_matrix:
    """Return the weights above 0 as CSR, [n, V]."""
    kept = weights > 0
    ends = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    matrix = csr_matrix((weights[kept], columns[kept], ends), shape=(len(weights), vocabulary))
    matrix.sort_indices()
    return matrix


def _rechunked(
    blocks: Iterator[Any], number: int, chunk: int, join: Callable[[list[Any]], Any]
) -> Iterator[Any]:
    """Join blocks; yield their first `number` rows, at most `chunk` at a time."""
    parts: list[Any] = []
    start = held = 0
    for block in blocks:
        parts.append(block)
        held += block.shape[0]
        while start < number and held >= (size := min(chunk, number - start)):
            rows = join(parts)
            yield rows[:size]
            parts, held, start = [rows[size:]], held - size, start + size
