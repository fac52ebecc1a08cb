import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_corpus import DO_NOT_FIT, REPLACED, of_arrays, random_vectors
from scipy.sparse import csc_matrix, csr_array, csr_matrix

from anserini_bridge import BadVectors, write_json_vectors
from anserini_bridge.vectors import (
    check_document_lengths,
    check_ids,
    check_vectors,
    check_vocabulary,
    pack_ints,
    pack_matrix,
    pack_queries,
    pack_strings,
    slices,
    unpack_strings,
)

LONGEST = 32_766  # bytes of a string
A = csr_matrix([[1, 0, 0]])


def test_valid_ids_and_words_come_back_as_they_are() -> None:
    strings = ["a", " ", "\x1f", "日本", "🐈" * (LONGEST // 4), "x" * LONGEST, "é" * (LONGEST // 2)]
    assert check_ids(tuple(strings)) == strings
    assert check_ids(iter(strings), rows=7) == strings  # type: ignore[arg-type]
    assert check_vocabulary(strings) == tuple(strings)
    assert check_ids(["two\nlines"]) == ["two\nlines"]
    assert check_ids([]) == []
    assert check_vocabulary([]) == ()


@pytest.mark.parametrize(
    ("ids", "rows", "message"),
    [
        (["i", "j"], 1, "there are 2 ids for 1 vectors: give one id per row"),
        (["i", "i"], 2, "the id 'i' occurs twice in the batch: keep one"),
        (["i", "j", "i"], None, "the id 'i' occurs twice in the batch: keep one"),
        ([""], 1, "id 0 of the batch is empty: give it at least one character"),
        ([5], 1, "id 0 of the batch is 5, a int: give a string"),
        (["i", "\ud800"], 2, r"id 1 of the batch, '\\ud800', is not valid Unicode: remove the surrogates"),
        (["i" * 40_000], 1, "id 0 of the batch has 40000 bytes: shorten it to 32766"),
        (["é" * (LONGEST // 2 + 1)], 1, "id 0 of the batch has 32768 bytes: shorten it to 32766"),
        ("i", 1, "the ids are the string 'i': give a sequence of strings"),
    ],
)
def test_bad_ids(ids: Any, rows: int | None, message: str) -> None:
    with pytest.raises(BadVectors, match=f"^{message}$"):
        check_ids(ids, rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "a"], "the word 'a' occurs twice in the vocabulary: keep one"),
        (["a", ""], "word 1 of the vocabulary is empty: give it at least one character"),
        (["a\n"], r"word 0 of the vocabulary, 'a\\n', has a line break: remove it"),
    ],
)
def test_bad_vocabularies(words: list[str], message: str) -> None:
    with pytest.raises(BadVectors, match=f"^{message}$"):
        check_vocabulary(words)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("form", [csr_matrix, csr_array, csc_matrix])
def test_checked_vectors_are_the_same_numbers(form: Callable[..., Any], dtype: type) -> None:
    plain = np.array([[0, 3, 0], [0, 0, 0], [7, 0, 127]], dtype=dtype)
    found = check_vectors(form(plain), 3)
    assert isinstance(found, csr_matrix)
    assert (found.dtype, found.nnz) == (np.int32, 3)
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), plain)


def test_zeros_are_dropped_and_repeated_positions_summed_in_a_copy() -> None:
    vectors = csr_matrix((np.array([1, 2, 0]), np.array([0, 0, 2]), np.array([0, 3])), shape=(1, 3))
    found = check_vectors(vectors, 3)
    assert (found.indices.tolist(), found.data.tolist()) == ([0], [3])
    assert vectors.nnz == 3


def test_vectors_that_need_no_conversion_are_not_copied() -> None:
    ready = random_vectors(rows=20, width=30, density=0.2, top=9, seed=1)
    assert check_vectors(ready, 30) is ready
    empty = csr_matrix((2, 3), dtype=np.int32)
    assert check_vectors(empty, 3) is empty


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones((1, 3)), "the vectors are a ndarray: give a scipy.sparse.csr_matrix"),
        (csr_array(np.ones(3)), "the vectors are a csr_array: give a scipy.sparse.csr_matrix"),
        (csr_matrix([[1, 0]]), "the vectors have 2 columns, and the vocabulary 3 words: give one column per"),
        (csr_matrix([[True, False, False]]), "the weights have the type bool: give whole numbers"),
        (csr_matrix([[1j, 0, 0]]), "the weights have the type complex128: give whole numbers"),
        (csr_matrix([[0, -2, 0]]), "the weight -2 in row 0, column 1 is not a whole number from 0 to"),
        (csr_matrix([[0, -2, 0]], dtype=np.int32), "the weight -2 in row 0, column 1 is not a whole number"),
        (csr_matrix([[1, 0, 0], [0, 0.5, 0]]), r"the weight 0\.5 in row 1, column 1 is not a whole number"),
        (csr_matrix([[0, np.nan, 0]]), "the weight nan in row 0"),
        (csr_matrix([[0, np.inf, 0]]), "the weight inf in row 0"),
        (csr_matrix([[0, 2**31, 0]]), "the weight 2147483648 in row 0, .* 2147483647: quantize the vectors"),
    ],
)
def test_bad_vectors(vectors: Any, message: str) -> None:
    with pytest.raises(BadVectors, match=f"^{message}"):
        check_vectors(vectors, 3)


def test_the_weights_of_a_document_have_a_largest_sum() -> None:
    check_document_lengths(csr_matrix([[2**30, 2**30 - 1, 0], [1, 1, 1]], dtype=np.int32))
    check_document_lengths(csr_matrix((0, 3), dtype=np.int32))
    message = "^the weights of row 1 sum to 2147483648, above 2147483647: quantize with a smaller scale$"
    with pytest.raises(BadVectors, match=message):
        check_document_lengths(csr_matrix([[1, 0, 0], [2**30, 2**30, 0]], dtype=np.int32))


@pytest.mark.parametrize(("longest", "step"), [(10, 100), (100, 64), (10_000, 1)])
def test_slices_cover_all_rows_once_and_are_small(
    longest: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anserini_bridge.vectors._SLICE_POSTINGS", 6_400)
    vectors = csr_matrix((np.ones(longest), np.arange(longest), [0, longest, *[longest] * 249]))
    found = list(slices(vectors))
    assert [row for rows in found for row in range(rows.start, rows.stop)] == list(range(250))
    assert all(before.stop - before.start == step for before, _ in pairwise(found))
    assert list(slices(vectors[:0])) == []


def test_numbers_are_packed_little_endian() -> None:
    numbers = [0, 1, -1, 258, 2**31 - 1, -(2**31)]
    assert pack_ints(numbers) == b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)
    assert pack_ints([]) == b""
    vectors = csr_matrix([[0, 3, 0], [0, 0, 0], [7, 0, 9]])
    assert pack_matrix(vectors) == (pack_ints([0, 1, 1, 3]), pack_ints([1, 0, 2]), pack_ints([3, 7, 9]))
    ready = vectors.astype(np.int32)
    assert pack_queries(ready, 3) == b"".join(pack_matrix(vectors))
    assert [pack_queries(other, 3) for other in (vectors, ready[:, :2], ready.tocsc(), None)] == [None] * 4


@pytest.mark.parametrize(
    ("strings", "ends"),
    [([], []), ([""], [0]), (["a", "", "bcd"], [1, 1, 4]), (["é", "x", "日本🐈", ""], [2, 3, 13, 13])],
)
def test_strings_are_packed_with_their_ends_and_unpacked(strings: list[str], ends: list[int]) -> None:
    block, packed = pack_strings(strings)
    assert (block, packed) == ("".join(strings).encode(), pack_ints(ends))
    assert unpack_strings(block, np.frombuffer(packed, "<i4").tolist()) == strings


@pytest.mark.parametrize("changed", DO_NOT_FIT, ids=str)
def test_arrays_that_do_not_belong_together(changed: dict[str, Any]) -> None:
    with pytest.raises(BadVectors, match=r"^the sparse matrix is malformed \(.*\): make it again"):
        check_vectors(of_arrays(**changed), 4)


def test_a_malformed_matrix_without_entries() -> None:
    matrix = csr_matrix((2, 4), dtype=np.int64)
    matrix.indptr = np.array([0, 2**31 - 1, 0])
    with pytest.raises(BadVectors, match="malformed"):
        check_vectors(matrix, 4)


def test_a_malformed_matrix_of_another_kind() -> None:
    columns, entries = csc_matrix(A), A.tocoo()
    columns.indices = np.array([7])
    entries.row = np.array([7])
    for matrix in (columns, entries):
        with pytest.raises(BadVectors, match="malformed"):
            check_vectors(matrix, 3)


@pytest.mark.parametrize(("changed", "wanted"), REPLACED, ids=str)
def test_what_scipy_believes_of_replaced_arrays_does_not_count(
    changed: dict[str, Any], wanted: list[list[int]]
) -> None:
    given = of_arrays(**changed)
    before = [array.copy() for array in (given.data, given.indices, given.indptr)]
    found = check_vectors(given, 4)
    assert found.toarray().tolist() == wanted
    assert len(found.indices) == found.indptr[-1] == np.count_nonzero(wanted)
    assert all(map(np.array_equal, before, (given.data, given.indices, given.indptr)))
    ones = csr_matrix(np.eye(3, dtype=np.int32))
    assert check_vectors(ones, 3) is ones


def test_the_export_line_by_line(tmp_path: Path) -> None:
    words = ["|", "##ing", "日本", '"']
    write_json_vectors(tmp_path / "a.jsonl", ["x", "ü"], csr_matrix([[0, 2, 1, 3], [0, 0, 0, 0]]), words)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "x", "contents": "", "vector": {"##ing": 2, "日本": 1, '"': 3}},
        {"id": "ü", "contents": "", "vector": {}},
    ]


def test_no_documents(tmp_path: Path) -> None:
    write_json_vectors(tmp_path / "a.jsonl", [], csr_matrix((0, 2), dtype=int), ["a", "b"])
    assert (tmp_path / "a.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("ids", "words", "weight", "message"),
    [
        (["x"], ["a", "b"], 1, "there are 1 ids for 2 vectors: give one id per row"),
        (["x", "y"], ["a", "a"], 1, "the word 'a' occurs twice in the vocabulary"),
        (["x", "y"], ["a", "b"], 0.5, r"the weight 0\.5 in row 0, column 0 is not a whole number"),
    ],
)
def test_a_bad_export_leaves_no_file(
    tmp_path: Path, ids: list[str], words: list[str], weight: float, message: str
) -> None:
    with pytest.raises(BadVectors, match=f"^{message}"):
        write_json_vectors(tmp_path / "a.jsonl", ids, csr_matrix(np.eye(2) * weight), words)
    assert list(tmp_path.iterdir()) == []
