"""Checks ids, words and sparse vectors, and packs them for Java."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from .errors import BadVectors

MAX_WEIGHT = 2**31 - 1  # also of the sum of a document's weights: Lucene counts its length in an int
MAX_STRING_BYTES = 32_766  # Lucene's limit for a term
_SLICE_POSTINGS = 2**22


def check_vocabulary(words: Sequence[str]) -> tuple[str, ...]:
    """Returns the words as a tuple; raises BadVectors for one that is empty, repeated or not storable."""
    words = tuple(words)
    _check_strings(words, "word", "the vocabulary")
    for position, word in enumerate(words):
        if "\n" in word:
            raise BadVectors(f"Word {position} of the vocabulary, {word!r}, has a line break: remove it.")
    return words


def check_ids(ids: Sequence[str], rows: int | None = None) -> list[str]:
    """Returns the ids as a list; raises BadVectors unless they are distinct and one a row."""
    if isinstance(ids, str):
        raise BadVectors(f"The ids are the string {ids[:40]!r}: give a sequence of strings.")
    ids = list(ids)
    if rows is not None and len(ids) != rows:
        raise BadVectors(f"There are {len(ids)} ids for {rows} vectors: give one id a row.")
    _check_strings(ids, "id", "the batch")
    return ids


def _check_strings(strings: Sequence[str], kind: str, where: str) -> None:
    if not _are_storable(strings):
        for position, string in enumerate(strings):
            _check_string(string, f"{kind.capitalize()} {position} of {where}")
    if len(set(strings)) < len(strings):
        twice = Counter(strings).most_common(1)[0][0]
        raise BadVectors(f"The {kind} {twice!r} occurs twice in {where}: keep one.")


def _are_storable(strings: Sequence[str]) -> bool:
    """Whether no string is bad, found without looking at each; False may be wrong."""
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
        raise BadVectors(f"{name} is {string!r}, a {type(string).__name__}: give a string.")
    if not string:
        raise BadVectors(f"{name} is empty: give it at least one character.")
    try:
        size = len(string.encode())
    except UnicodeEncodeError:
        raise BadVectors(f"{name}, {string!r}, is not valid Unicode: remove the surrogates.") from None
    if size > MAX_STRING_BYTES:
        raise BadVectors(f"{name} has {size} bytes: shorten it to {MAX_STRING_BYTES}.")


def check_vectors(vectors: Any, width: int) -> csr_matrix:
    """Returns vectors [n, width] as int32 CSR, without zeros or repeated positions.

    Raises BadVectors for anything but a scipy sparse matrix with whole weights from 0 to 2^31 - 1.
    """
    if not issparse(vectors) or vectors.ndim != 2:
        raise BadVectors(f"The vectors are a {type(vectors).__name__}: give a scipy.sparse.csr_matrix.")
    if vectors.shape[1] != width:
        raise BadVectors(f"The vectors have {vectors.shape[1]} columns, and the vocabulary {width} words.")
    if vectors.dtype.kind not in "iuf":
        raise BadVectors(f"The weights have the type {vectors.dtype}: give whole numbers.")
    if _is_ready(vectors):
        return vectors
    matrix = csr_matrix(vectors, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    weights = matrix.data
    bad = ~((weights >= 1) & (weights <= MAX_WEIGHT))  # written so that NaN is bad too
    if weights.dtype.kind == "f":
        bad |= weights != np.floor(weights)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise BadVectors(
            f"The weight {weights[at]} in row {row}, column {matrix.indices[at]} is not a whole number "
            f"from 0 to {MAX_WEIGHT}: quantize the vectors first."
        )
    return csr_matrix((weights.astype(np.int32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _is_ready(vectors: Any) -> bool:
    """Whether vectors are as check_vectors returns them: spares the many small steps of scipy."""
    if not isinstance(vectors, csr_matrix) or vectors.dtype != np.int32 or not vectors.has_canonical_format:
        return False
    return not vectors.data.size or bool(vectors.data.min() >= 1)


def check_document_lengths(vectors: csr_matrix) -> None:
    """Raises BadVectors where the weights of a row sum to more than Lucene can count."""
    sums: NDArray[Any] = np.asarray(vectors.sum(axis=1, dtype=np.int64)).reshape(-1)
    if sums.size and sums.max() > MAX_WEIGHT:
        raise BadVectors(
            f"The weights of row {int(np.argmax(sums))} sum to {sums.max()}, above {MAX_WEIGHT}: "
            "quantize with a smaller scale."
        )


def slices(vectors: csr_matrix) -> Iterator[slice]:
    """Cuts the rows into pieces that are small enough to copy to Java one by one."""
    longest = int(np.diff(vectors.indptr).max(initial=1))
    step = max(1, _SLICE_POSTINGS // max(longest, 64))
    for start in range(0, vectors.shape[0], step):
        yield slice(start, min(start + step, vectors.shape[0]))


def pack_ints(values: Any) -> bytes:
    """Packs integers as big-endian int32."""
    return np.asarray(values).astype(">i4").tobytes()


def pack_matrix(vectors: csr_matrix) -> tuple[bytes, bytes, bytes]:
    """Packs a CSR matrix as indptr, indices and weights."""
    return pack_ints(vectors.indptr), pack_ints(vectors.indices), pack_ints(vectors.data)


def pack_strings(strings: Sequence[str]) -> tuple[bytes, bytes]:
    """Packs strings as one block of UTF-8 and the end of each in it."""
    block = "".join(strings).encode()
    lengths = [len(string) for string in strings]
    if sum(lengths) < len(block):  # not ASCII: a character may be several bytes
        lengths = [len(string.encode()) for string in strings]
    return block, pack_ints(np.cumsum(lengths, dtype=np.int64))


def unpack_strings(block: bytes, ends: NDArray[Any]) -> list[str]:
    """Undoes pack_strings."""
    starts = [0, *ends[:-1].tolist()]
    text = block.decode()
    if len(text) == len(block):  # ASCII: a byte is a character
        return [text[start:end] for start, end in zip(starts, ends.tolist(), strict=False)]
    return [block[start:end].decode() for start, end in zip(starts, ends.tolist(), strict=False)]
