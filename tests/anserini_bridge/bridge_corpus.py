"""Settings, random vectors, and the plain formula that searches are compared with."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, random_array

from anserini_bridge import ImpactSearcher, ImpactWriter
from anserini_bridge.storage import fields_checksum

Answers = list[tuple[list[str], list[int]]]

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {
    "encoder": "test",
    "quantization": {"scheme": "linear", "scale": 100.0},
    "topk": 32,
    "normalize": False,
}


ABC = ["a", "b", "c"]
A = csr_matrix([[1, 0, 0]])
"""A query, or a document, of the first of these words."""

DYING = """
import os, sys
from scipy.sparse import csr_matrix
from anserini_bridge import update_index, writer
write = writer.write_metadata
def write_and_die(path, metadata):
    if sys.argv[2] == "after":
        write(path, metadata)
    os._exit(9)
writer.write_metadata = write_and_die
"""
"""Begins a program that dies before or after it writes `index.json`."""


class Corpus(NamedTuple):
    ids: list[str]
    vectors: csr_matrix  # [N, V]
    words: list[str]


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def literal(path: Path) -> str:
    """A path within a regular expression: those of Windows have backslashes."""
    return re.escape(str(path))


def random_vectors(rows: int, width: int, density: float, top: int, seed: int) -> csr_matrix:
    matrix = csr_matrix(random_array((rows, width), density=density, rng=np.random.default_rng(seed)))
    matrix.data = np.ceil(matrix.data * top)
    return matrix.astype(np.int32)


def change_metadata(index: Path, remove: Sequence[str] = (), **fields: Any) -> None:
    """Change fields of `index.json`, as another version may have written them."""
    found = json.loads((index / "index.json").read_text())
    kept = {name: value for name, value in found.items() if name not in remove}
    changed = {**kept, **fields}
    (index / "index.json").write_text(json.dumps({**changed, "checksum": fields_checksum(changed)}))


def written(path: Path, words: Sequence[str], ids: Sequence[str], vectors: csr_matrix, **how: Any) -> Path:
    """Write an index of documents, or add them to one (mode="update")."""
    with ImpactWriter(path, words, **{**SETTINGS, **how}) as writer:
        writer.add(ids, vectors)
    return path


def listed(found: tuple[list[list[str]], list[Any]]) -> Answers:
    """What a search found, as `brute_force` says it."""
    return [(ids, scores.tolist()) for ids, scores in zip(*found, strict=True)]


def search(path: Path, queries: csr_matrix, k: int = 10, **how: Any) -> Answers:
    with ImpactSearcher(path) as searcher:
        return listed(searcher.search(queries, k, **how))


def named(row: csr_matrix, words: Sequence[str]) -> dict[str, int]:
    """A query's weights by word."""
    return {words[column]: int(weight) for column, weight in zip(row.indices, row.data, strict=True)}


def brute_force(queries: csr_matrix, vectors: csr_matrix, ids: Sequence[str], k: int) -> Answers:
    """Return the k best of each query, by score and then by insertion order; a hit shares a word."""
    scores = (queries.astype(np.int64) @ vectors.astype(np.int64).T).toarray()
    answers = []
    for row in scores:
        best = [int(d) for d in np.lexsort((np.arange(len(ids)), -row))[:k] if row[d] > 0]
        answers.append(([ids[d] for d in best], [int(row[d]) for d in best]))
    return answers


def of_arrays(**changed: Any) -> csr_matrix:
    """A matrix of three rows whose arrays were replaced after scipy looked at them."""
    matrix = csr_matrix(np.array([[3, 0, 2, 0], [0, 5, 0, 0], [0, 0, 0, 1]], np.int32))
    assert matrix.has_canonical_format
    for name, array in changed.items():
        setattr(matrix, name, array)
    return matrix


DO_NOT_FIT = [
    {"indptr": np.array([0, 3, 2, 4])},  # descends
    {"indptr": np.array([1, 2, 3, 4])},  # begins late
    {"indptr": np.array([0, 2, 3, 9])},  # ends behind the weights
    {"indptr": np.array([0, 2, 4])},  # of two rows
    {"indptr": np.array([0, 1, 2, 3, 4])},  # of four
    {"indptr": np.array([0.0, 2.0, 3.0, 4.0])},
    {"indptr": None},
    {"indices": np.array([0, 2, 1, 9])},
    {"indices": np.array([0, -1, 1, 3])},
    {"indices": np.array([0, 2**32 + 1, 1, 3])},
    {"indices": np.array([0, 2.5, 1, 3])},
    {"indices": np.array([0, 2, 1])},
    {"indices": [0, 2, 1, 3]},
    {"data": np.array([3, 2], np.int32)},
    {"data": np.ones((4, 1), np.int32)},
    {"_shape": (4, 4)},
    {"_shape": (2, 4)},
]
"""Arrays that do not belong together in `of_arrays`."""

REPLACED = [
    ({"indices": np.array([2, 0, 1, 3])}, [[2, 0, 3, 0], [0, 5, 0, 0], [0, 0, 0, 1]]),
    ({"indices": np.array([2, 2, 1, 3])}, [[0, 0, 5, 0], [0, 5, 0, 0], [0, 0, 0, 1]]),
    ({"indptr": np.array([0, 2, 3, 3])}, [[3, 0, 2, 0], [0, 5, 0, 0], [0, 0, 0, 0]]),
    ({"data": np.array([3, 0, 5, 1], np.int32)}, [[3, 0, 0, 0], [0, 5, 0, 0], [0, 0, 0, 1]]),
]
"""Arrays that do, in ways of which scipy does not know, and what the matrix then is."""
