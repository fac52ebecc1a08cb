"""Fits what each word asks for that stands alone; see `lexlip.sparse.keywords`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import csc_matrix, csr_matrix, vstack

from lexlip.machine.progress import ProgressBar
from lexlip.sparse.balance import unit_length
from lexlip.sparse.query_topk import SENTENCE_TOPK
from lexlip.sparse.topk import topk
from lexlip.words.vocabulary import other_number

KEPT = 32  # words of a document, as an index has it
TRIED = 64  # words that a query is chosen from
RIDGE = 2e-3  # added to the variance of each word in documents, which are about as long as 1
DOUBT = 10  # photos with the word that weigh as much as the word's own weights


def fit_keywords(
    documents: csr_matrix, said: csr_matrix, of_words: csr_matrix, words: Sequence[str]
) -> csr_matrix:
    """Return the query of each word, unit vectors, float32 [V, V].

    It is Fisher's linear discriminant between the photos whose captions have the word, in the singular or the
    plural, and all photos: the least squares of (C + RIDGE) q = mean of these - mean of all, where C is the
    covariance in documents, and q is not negative. The fewer photos have the word, the more its own weights
    count.

    Args:
        documents: of photos, as an index has them, float32 [n, V].
        said: which words their captions contain, [n, V].
        of_words: each word as the model encodes it without a network, [V, V].
        words: the V words.
    """
    columns, mean = csc_matrix(documents), np.asarray(documents.mean(axis=0)).ravel()
    captioned, own = csc_matrix(said), unit_length(of_words)
    column_of = {word: column for column, word in enumerate(words)}
    rows = []
    for column, word in enumerate(ProgressBar(words, "words that stand alone", delay=2)):
        forms = [column_of[form] for form in (word, other_number(word)) if form in column_of]
        photos = np.unique(captioned[:, forms].indices)
        query = own[column]
        if len(photos):
            share = len(photos) / (len(photos) + DOUBT)
            query = share * _discriminant(documents[photos], columns, mean, column) + (1 - share) * query
        rows.append(topk(query, SENTENCE_TOPK))
    return unit_length(vstack(rows, format="csr"))


def _discriminant(
    photos: csr_matrix, columns: csc_matrix, mean: NDArray[np.float32], column: int
) -> csr_matrix:
    """Return what tells photos [m, V] from all [n, V], with their mean [V], as a unit vector [1, V].

    Chosen from the words that they have most more of than others, and the word in `column`.
    """
    more = np.asarray(photos.mean(axis=0)).ravel() - mean
    tried = np.union1d(np.argsort(-more, kind="stable")[:TRIED], [column])
    some = columns[:, tried]
    covariance = (some.T @ some).toarray() / some.shape[0] - np.outer(mean[tried], mean[tried])
    root = np.linalg.cholesky(covariance + RIDGE * np.eye(len(tried)))
    weights, _ = nnls(root.T, np.linalg.solve(root, more[tried]))
    query = np.zeros(len(mean), np.float32)
    query[tried] = weights
    return unit_length(csr_matrix(query))
