"""Settings, random vectors, and the plain formula that searches are compared with."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, random_array

from anserini_bridge.metadata import fields_checksum

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {
    "encoder": "test",
    "quantization": {"scheme": "linear", "scale": 100.0},
    "topk": 32,
    "normalize": False,
}


class Corpus(NamedTuple):
    ids: list[str]
    vectors: csr_matrix  # [N, V]
    words: list[str]


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


def brute_force(
    queries: csr_matrix, vectors: csr_matrix, ids: Sequence[str], k: int
) -> list[tuple[list[str], list[int]]]:
    """Return the k best of each query, by score and then by insertion order; a hit shares a word."""
    scores = (queries.astype(np.int64) @ vectors.astype(np.int64).T).toarray()
    answers = []
    for row in scores:
        best = [int(d) for d in np.lexsort((np.arange(len(ids)), -row))[:k] if row[d] > 0]
        answers.append(([ids[d] for d in best], [int(row[d]) for d in best]))
    return answers
