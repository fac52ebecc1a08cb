"""Statistics of sparse vectors that decide how hard they are to search; `Shape` is fitted to them.

    python -m benchmarks.corpus.vector_statistics PHOTOS.npz CAPTIONS.npz

takes float vectors of photos, [n, V], and of captions, as scipy's save_npz wrote them. It prints their
statistics beside those of as many synthetic vectors with as many terms.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, load_npz, vstack
from scipy.special import ndtri

from benchmarks.corpus.synthetic import BLOCK, SHAPES, Shape, SyntheticVectors
from lexlip.sparse.quantize import quantize
from lexlip.sparse.rows import topk

BLOCK_MAX = 64  # documents that share a bound
SEEN = 10  # documents that must contain a term for its threshold to be estimated


def fit(photos: csr_matrix, captions: csr_matrix) -> Shape:
    """Return the shape that can be estimated from float vectors: terms, vocabulary and spread of thresholds.

    A term that a share d of all vectors has has the threshold -ndtri(d). The spread is the slope of the
    sorted thresholds over the quantiles of the normal distribution. It is somewhat larger than the generator
    needs if points are not quite normal.
    """
    return replace(
        SHAPES["mini"],
        vocabulary=int((_document_frequencies(photos) > 0).sum()),
        terms=_mean_and_deviation(photos),
        query_terms=_mean_and_deviation(captions),
        spread=_spread(photos),
        query_spread=_spread(captions),
    )


def measure(
    photos: csr_matrix, captions: csr_matrix, kept: int = 32, terms: int = 12, k: int = 10
) -> dict[str, float]:
    """Return the statistics that decide how fast an engine can be, by name.

    Vectors are float, [n, V]; of captions a few hundred. A photo has `kept` terms, a caption `terms`, and a
    query k hits. Weights are those of unit vectors. "bound" is the score of a document with the greatest
    weight of every query term. A block is 64 documents, sorted by their heaviest terms; its bound is that of
    its documents. Shares are of documents, or of blocks.
    """
    documents, queries = quantize(topk(photos, kept)), quantize(topk(captions, terms))
    number = documents.shape[0]
    scores = (queries @ documents.T).toarray()
    best = -np.sort(-scores, axis=1)
    bounds = queries @ documents.max(axis=0).toarray().ravel()
    shared = ((queries > 0).astype(np.int32) @ (documents > 0).astype(np.int32).T).toarray()
    blocks = _block_maxima(documents[_by_heaviest_terms(documents)])
    reach = (queries @ blocks.T).toarray() >= np.maximum(best[:, k - 1 : k], 1)
    frequencies = _document_frequencies(documents)
    return {
        "terms": documents.nnz / number,
        "query terms": queries.nnz / queries.shape[0],
        "terms in use": float((frequencies > 0).sum()),
        "share of the 100th term": np.sort(frequencies)[-100:][0] / number,
        "first weight": _ranked(documents, 1) / 1000,
        "last weight": _ranked(documents, kept) / 1000,
        "first query weight": _ranked(queries, 1) / 1000,
        "last query weight": _ranked(queries, terms) / 1000,
        "postings touched / N": queries.astype(bool).dot(frequencies).mean() / number,
        **{f"share with {least} terms": (shared >= least).mean() for least in (1, 3, 6)},
        **{f"score {rank} / bound": (best[:, :rank][:, -1] / bounds).mean() for rank in (1, k, 100)},
        **{f"cosine {rank}": best[:, :rank][:, -1].mean() / 1e6 for rank in (1, k, 100)},
        "block entries / postings": blocks.nnz / documents.nnz,
        f"blocks that reach score {k}": reach.mean(),
    }


def _document_frequencies(vectors: csr_matrix) -> NDArray[np.int64]:
    return np.bincount(vectors.indices, minlength=vectors.shape[1])


def _mean_and_deviation(vectors: csr_matrix) -> tuple[float, float]:
    lengths = np.diff(vectors.indptr)
    return float(lengths.mean()), float(lengths.std())


def _spread(vectors: csr_matrix) -> float:
    frequencies = np.sort(_document_frequencies(vectors))[::-1]
    frequencies = frequencies[frequencies > 0]
    quantiles = ndtri((np.arange(len(frequencies)) + 0.5) / len(frequencies))
    seen = (frequencies >= SEEN) & (frequencies < vectors.shape[0])
    return float(np.polyfit(quantiles[seen], -ndtri(frequencies[seen] / vectors.shape[0]), 1)[0])


def _places(vectors: csr_matrix, rank: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which rows have so many terms, and where in the data each of these has its rank-th heaviest."""
    lengths = np.diff(vectors.indptr)
    order = np.lexsort((-vectors.data, np.repeat(np.arange(vectors.shape[0]), lengths)))
    return lengths >= rank, order[vectors.indptr[:-1][lengths >= rank] + rank - 1]


def _ranked(vectors: csr_matrix, rank: int) -> float:
    """Return the mean over rows of their rank-th heaviest weight, which is 0 if a row has fewer."""
    _, places = _places(vectors, rank)
    return float(vectors.data[places].sum() / vectors.shape[0])


def _by_heaviest_terms(documents: csr_matrix) -> NDArray[np.int64]:
    """Return the order of documents by their heaviest term, then by their second and third."""
    columns = np.full((3, documents.shape[0]), -1)
    for column, rank in zip(columns, (1, 2, 3), strict=True):
        rows, places = _places(documents, rank)
        column[rows] = documents.indices[places]
    return np.lexsort(columns[::-1])


def _block_maxima(documents: csr_matrix) -> csr_matrix:
    """Return the greatest weight of each term in each block, [blocks, V]."""
    blocks = np.repeat(np.arange(documents.shape[0]) // BLOCK_MAX, np.diff(documents.indptr))
    keys, entries = np.unique(blocks * documents.shape[1] + documents.indices, return_inverse=True)
    maxima = np.zeros(len(keys), documents.dtype)
    np.maximum.at(maxima, entries, documents.data)
    shape = -(-documents.shape[0] // BLOCK_MAX), documents.shape[1]
    return csr_matrix((maxima, np.divmod(keys, documents.shape[1])), shape=shape)


def synthetic(shape: Shape, photos: int, captions: int, seed: int = 0) -> tuple[csr_matrix, csr_matrix]:
    """Return float vectors of synthetic photos and captions, [photos, V] and [captions, V]."""
    vectors = SyntheticVectors(shape, seed)
    blocks = [vectors.block(index) for index in range(-(-photos // BLOCK))]
    return csr_matrix(vstack(blocks, format="csr")[:photos]), vectors.captions(captions)


def main(photos_file: str, captions_file: str) -> None:
    """Print both kinds side by side, for queries of 12 and of 50 terms."""
    photos, captions = csr_matrix(load_npz(photos_file)), csr_matrix(load_npz(captions_file))
    captions = captions[np.random.default_rng(0).permutation(captions.shape[0])[:300]]
    fitted = fit(photos, captions)
    print(fitted)
    shape = replace(fitted, spread=SHAPES["mini"].spread, query_spread=SHAPES["mini"].query_spread)
    drawn = synthetic(shape, photos.shape[0], 300)
    for terms in (12, 50):
        real, made = measure(photos, captions, terms=terms), measure(*drawn, terms=terms)
        print(f"\n{terms:3} query terms {'real':>27}{'synthetic':>14}")
        for name, value in real.items():
            print(f"{name:30}{value:14.4g}{made[name]:14.4g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
