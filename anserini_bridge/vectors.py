"""Checks ids, words and sparse vectors; packs them for Java, and exports them for other tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anserini_bridge.errors import BadVectors
from anserini_bridge.storage import atomic_write

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MAX_WEIGHT = 2**31 - 1  # also of the sum of a document's weights: Lucene counts its length in an int
MAX_STRING_BYTES = 32_766  # Lucene's limit for a term
_SLICE_POSTINGS = 2**22


def check_vocabulary(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words as a tuple.

    Raises:
        BadVectors: a word is empty, repeated, too long, has a line break or is not valid Unicode.
    """
    words = tuple(words)
    _check_strings(words, "word", "the vocabulary")
    for position, word in enumerate(words):
        if "\n" in word:
            raise BadVectors(f"word {position} of the vocabulary, {word!r}, has a line break: remove it")
    return words


def check_ids(ids: Sequence[str], rows: int | None = None) -> list[str]:
    """Return the ids as a list.

    Args:
        ids: distinct strings.
        rows: number of vectors that the ids belong to, if any.

    Raises:
        BadVectors: an id is empty, repeated, too long or not valid Unicode; or there is not one per row.
    """
    if isinstance(ids, str):
        raise BadVectors(f"the ids are the string {ids[:40]!r}: give a sequence of strings")
    ids = list(ids)
    if rows is not None and len(ids) != rows:
        raise BadVectors(f"there are {len(ids)} ids for {rows} vectors: give one id per row")
    _check_strings(ids, "id", "the batch")
    return ids


def _check_strings(strings: Sequence[str], kind: str, where: str) -> None:
    if not _are_storable(strings):
        for position, string in enumerate(strings):
            _check_string(string, f"{kind} {position} of {where}")
    if len(set(strings)) < len(strings):
        twice = Counter(strings).most_common(1)[0][0]
        raise BadVectors(f"the {kind} {twice!r} occurs twice in {where}: keep one")


def _are_storable(strings: Sequence[str]) -> bool:
    """Return whether all strings are surely valid; a fast test that may reject valid ones."""
    if set(map(type, strings)) - {str}:
        return False
    lengths = [len(string) for string in strings]
    try:
        "".join(strings).encode()
    except UnicodeEncodeError:
        return False
    return all(lengths) and 4 * max(lengths, default=0) <= MAX_STRING_BYTES


def _check_string(string: str, name: str) -> None:
    if not isinstance(string, str):
        raise BadVectors(f"{name} is {string!r}, a {type(string).__name__}: give a string")
    if not string:
        raise BadVectors(f"{name} is empty: give it at least one character")
    try:
        size = len(string.encode())
    except UnicodeEncodeError:
        raise BadVectors(f"{name}, {string!r}, is not valid Unicode: remove the surrogates") from None
    if size > MAX_STRING_BYTES:
        raise BadVectors(f"{name} has {size} bytes: shorten it to {MAX_STRING_BYTES}")


def check_vectors(vectors: Any, width: int) -> csr_matrix:
    """Return vectors [n, width] as a CSR matrix of int32 without zeros or repeated positions.

    Raises:
        BadVectors: not a scipy sparse matrix with whole weights from 0 to 2^31 - 1, or of another width.
    """
    from scipy.sparse import csr_matrix, issparse

    if not issparse(vectors) or vectors.ndim != 2:
        raise BadVectors(f"the vectors are a {type(vectors).__name__}: give a scipy.sparse.csr_matrix")
    if vectors.shape[1] != width:
        raise BadVectors(
            f"the vectors have {vectors.shape[1]} columns, and the vocabulary {width} words:"
            " give one column per word"
        )
    if vectors.dtype.kind not in "iuf":
        raise BadVectors(f"the weights have the type {vectors.dtype}: give whole numbers")
    if _is_ready(vectors):
        return vectors
    matrix = _as_csr(vectors)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    weights = matrix.data
    bad = ~((weights >= 1) & (weights <= MAX_WEIGHT))  # negated, so that NaN is bad too
    if weights.dtype.kind == "f":
        bad |= weights != np.floor(weights)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise BadVectors(
            f"the weight {weights[at]} in row {row}, column {matrix.indices[at]} is not a whole number"
            f" from 0 to {MAX_WEIGHT}: quantize the vectors first"
        )
    return csr_matrix((weights.astype(np.int32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _is_ready(vectors: Any) -> bool:
    """Return whether vectors need no conversion, which skips many small scipy calls.

    What scipy remembers about a matrix does not count: it stays true when its arrays are replaced.
    """
    from scipy.sparse import csr_matrix

    if not isinstance(vectors, csr_matrix):
        return False
    indptr, indices, weights = arrays = vectors.indptr, vectors.indices, vectors.data
    if not all(isinstance(array, np.ndarray) and array.ndim == 1 for array in arrays):
        return False
    number = len(indices)
    if weights.dtype != np.int32 or indices.dtype.kind != "i" or indptr.dtype.kind != "i":
        return False
    if (
        len(weights) != number
        or len(indptr) != vectors.shape[0] + 1
        or indptr[0] != 0
        or indptr[-1] != number
    ):
        return False
    if not number:
        return not indptr.any()
    if weights.min() < 1 or indices.min() < 0 or indices.max() >= vectors.shape[1]:
        return False
    if (indptr[1:] < indptr[:-1]).any():
        return False
    ascends = indices[1:] > indices[:-1]
    begins = indptr[(indptr > 0) & (indptr < number)]
    ascends[begins - 1] = True  # a row need not ascend from the end of another
    return bool(ascends.all())


def _as_csr(vectors: Any) -> csr_matrix:
    """Return a copy in CSR; scipy checks none of the arrays that were put into a matrix after it was made.

    Raises:
        BadVectors: the arrays do not belong together.
    """
    from scipy.sparse import csr_matrix

    try:
        if vectors.format in ("csr", "csc", "bsr"):
            if {vectors.indices.dtype.kind, vectors.indptr.dtype.kind} - {"i", "u"}:
                raise ValueError("indices are no whole numbers")
            arrays = vectors.data, vectors.indices, vectors.indptr
            vectors = type(vectors)(arrays, shape=vectors.shape, copy=True)
            vectors.check_format(full_check=True)
            if (vectors.indptr[1:] < vectors.indptr[:-1]).any():  # not checked by scipy without any entry
                raise ValueError("index pointer values must form a non-decreasing sequence")
        elif vectors.format == "coo":
            if {vectors.row.dtype.kind, vectors.col.dtype.kind} - {"i", "u"}:
                raise ValueError("indices are no whole numbers")
            vectors = type(vectors)((vectors.data, (vectors.row, vectors.col)), shape=vectors.shape)
        matrix = csr_matrix(vectors)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise BadVectors(
            f"the sparse matrix is malformed ({error}): make it again from its entries"
        ) from None
    return matrix


def check_document_lengths(vectors: csr_matrix) -> None:
    """Check that the weights of every row have a sum that Lucene can count.

    Raises:
        BadVectors: a sum is above 2^31 - 1.
    """
    sums: NDArray[Any] = np.asarray(vectors.sum(axis=1, dtype=np.int64)).reshape(-1)
    if sums.size and sums.max() > MAX_WEIGHT:
        raise BadVectors(
            f"the weights of row {int(np.argmax(sums))} sum to {sums.max()}, above {MAX_WEIGHT}:"
            " quantize with a smaller scale"
        )


def slices(vectors: csr_matrix) -> Iterator[slice]:
    """Yield slices of rows, in order, each small enough to copy to Java at once."""
    longest = int(np.diff(vectors.indptr).max(initial=1))
    step = max(1, _SLICE_POSTINGS // max(longest, 64))
    for start in range(0, vectors.shape[0], step):
        yield slice(start, min(start + step, vectors.shape[0]))


def pack_ints(values: Any) -> bytes:
    """Pack integers as little-endian int32."""
    return np.asarray(values).astype("<i4", copy=False).tobytes()


def pack_matrix(vectors: csr_matrix) -> tuple[bytes, bytes, bytes]:
    """Pack a CSR matrix as indptr, indices and weights."""
    return pack_ints(vectors.indptr), pack_ints(vectors.indices), pack_ints(vectors.data)


def pack_queries(queries: Any, width: int) -> bytes | None:
    """Pack a CSR matrix as one block of indptr, indices and weights, whose values Java checks.

    Returns:
        None if it is no matrix of int32 arrays that fit each other: `check_vectors` says what is wrong, or
        converts it.
    """
    from scipy.sparse import csr_matrix

    if not isinstance(queries, csr_matrix) or queries.shape[1] != width:
        return None
    arrays = indptr, indices, weights = queries.indptr, queries.indices, queries.data
    for array in arrays:
        if type(array) is not np.ndarray or array.dtype != np.int32 or array.ndim != 1:
            return None
    if len(indptr) != queries.shape[0] + 1 or len(indices) != len(weights):
        return None
    return pack_ints(np.concatenate(arrays))


def pack_strings(strings: Sequence[str]) -> tuple[bytes, bytes]:
    """Pack strings as one block of UTF-8 and the byte offset at which each ends."""
    block = "".join(strings).encode()
    lengths = [len(string) for string in strings]
    if sum(lengths) < len(block):  # not ASCII: a character may have several bytes
        lengths = [len(string.encode()) for string in strings]
    return block, pack_ints(np.cumsum(lengths, dtype=np.int64))


def unpack_strings(block: bytes, ends: Sequence[int]) -> list[str]:
    """Return the strings of a UTF-8 block, each of which ends at one of the byte offsets."""
    limits = [0, *ends]
    text = block.decode()
    if len(text) == len(block):  # ASCII: a byte is a character
        return [text[start:end] for start, end in pairwise(limits)]
    return [block[start:end].decode() for start, end in pairwise(limits)]


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
