"""Exports sparse vectors for other tools, in the format of Anserini's JsonVectorCollection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scipy.sparse import csr_matrix

from anserini_bridge.storage import atomic_write
from anserini_bridge.vectors import check_ids, check_vectors, check_vocabulary


def json_vector(id: str, columns: Sequence[int], weights: Sequence[int], words: Sequence[str]) -> str:
    """Return a document's line `{"id": ..., "contents": "", "vector": {word: weight}}`."""
    vector = {words[column]: weight for column, weight in zip(columns, weights, strict=True)}
    return json.dumps({"id": id, "contents": "", "vector": vector}, ensure_ascii=False) + "\n"


def write_json_vectors(
    path: str | Path, ids: Sequence[str], vectors: csr_matrix, vocabulary: Sequence[str]
) -> None:
    """Write a line for each document; see `json_vector`.

    Stock Anserini (`IndexCollection -collection JsonVectorCollection -impact -pretokenized`) reads a folder
    of such files whose names end in .jsonl; it splits words at white space.

    Args:
        path: the file, which appears under this name when it is complete.
        ids: n distinct ids.
        vectors: [n, V], whole weights >= 0.
        vocabulary: the V words.

    Raises:
        BadVectors: ids, vectors or vocabulary are invalid.
    """
    words = check_vocabulary(vocabulary)
    vectors = check_vectors(vectors, len(words))
    ids = check_ids(ids, vectors.shape[0])
    ends = vectors.indptr.tolist()
    with atomic_write(Path(path)) as file:
        for row, name in enumerate(ids):
            part = slice(ends[row], ends[row + 1])
            file.write(json_vector(name, vectors.indices[part].tolist(), vectors.data[part].tolist(), words))
