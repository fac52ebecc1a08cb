"""A corpus of a few hundred documents in a folder."""

from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

from scipy.sparse import csr_matrix

from benchmarks.corpus.corpus import Corpus, write_dense, write_documents, write_queries
from benchmarks.corpus.synthetic import Shape, SyntheticVectors

SMALL = Shape(vocabulary=500, terms=(30, 8), query_terms=(20, 6), topics=20, candidates=200)


def same(one: csr_matrix, other: csr_matrix) -> bool:
    return one.shape == other.shape and (one != other).nnz == 0


def small_blocks() -> AbstractContextManager[object]:
    """Draws no more photos at a time than a small corpus needs."""
    return patch("benchmarks.corpus.synthetic.BLOCK", 512)


def small_corpus(folder: Path, documents: int = 300, queries: int = 20, dense: bool = True) -> Corpus:
    vectors = SyntheticVectors(SMALL)
    with small_blocks():
        write_documents(folder, vectors.documents(documents, 8, chunk=130))
        if dense:
            write_dense(folder, vectors.dense_documents(documents, chunk=130))
        write_queries(
            folder,
            vectors.queries(queries, 12),
            vectors.dense_queries(queries, documents) if dense else None,
        )
    return Corpus(folder)
