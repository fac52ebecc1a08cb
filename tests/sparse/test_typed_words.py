from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix

from anserini_bridge.sparse_rows import Rows
from lexlip.sparse.quantize import quantize
from lexlip.sparse.rows import row_of, unit_length
from lexlip.sparse.typed_words import FILE, Typed, as_query, load_keywords, save_keywords
from tests.reference.short_query import plain_query

WIDTH = 60
RNG = np.random.default_rng(3)
KEYWORDS = unit_length(csr_matrix(RNG.random((WIDTH, WIDTH)) * (RNG.random((WIDTH, WIDTH)) < 0.2)))


def drawn(rng: np.random.Generator, most: float = 0.6) -> np.ndarray:
    share = rng.random() * most
    return np.float32(5 * rng.random(WIDTH) ** 3 * (rng.random(WIDTH) < share))


def rows(keywords: csr_matrix | None) -> Rows | None:
    return None if keywords is None else Rows.of(keywords)


@pytest.mark.parametrize("most", [None, 1, 5, 24])
@pytest.mark.parametrize("keywords", [KEYWORDS, None])
def test_queries_are_these_formulas(keywords: csr_matrix | None, most: int | None) -> None:
    rng = np.random.default_rng(0)
    whole = None if keywords is None else keywords.toarray()
    for _ in range(150):
        number, sentence = int(rng.integers(0, 32)), drawn(rng)
        own = rng.permutation(WIDTH)[: rng.integers(0, number + 1)].tolist()
        alone, least = bool(rng.random() < 0.5) or number == 1, float(rng.choice([1 / 8, 1 / 4]))
        found = as_query(sentence, Typed(own, number, alone, least), rows(keywords), most)
        expected = plain_query(sentence, own, number, alone, least, whole, most)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [None, 24])
@pytest.mark.parametrize("keywords", [KEYWORDS, None])
def test_typed_words_are_where_people_see_them(keywords: csr_matrix | None, most: int | None) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        number = int(rng.integers(1, 25))
        own = rng.permutation(WIDTH)[: rng.integers(1, number + 1)].tolist()
        sentence = drawn(rng)
        sentence *= np.float32(rng.choice([1e-4, 1, 1e4], size=WIDTH))  # some round to nothing
        query = as_query(sentence, Typed(own, number, False), rows(keywords), most)
        whole = quantize(row_of(query)).toarray()[0]
        for word in own:
            assert whole[word] > 0
            if number <= 2:
                assert (whole >= whole[word]).sum() <= 3  # itself and those as heavy, too
        assert (whole > 0).sum() <= (most or WIDTH)


def test_the_pieces_of_long_words_are_all_heaviest() -> None:
    """Of a vocabulary of pieces two words may be more than three."""
    query = as_query(drawn(np.random.default_rng(2)), Typed([1, 2, 3, 4, 5], 2, True), None, 8)
    assert sorted(np.argsort(-query, kind="stable")[:5]) == [1, 2, 3, 4, 5]


def test_nothing_of_its_own_or_nothing_at_all() -> None:
    sentence = drawn(np.random.default_rng(0))
    np.testing.assert_array_equal(as_query(sentence, Typed([], 2, True), rows(KEYWORDS)), sentence)
    assert np.count_nonzero(as_query(sentence, Typed([], 2, True), rows(KEYWORDS), 3)) == 3
    empty = np.zeros(WIDTH, np.float32)
    assert not as_query(empty, Typed([], 0, False), rows(KEYWORDS)).any()
    for keywords in (None, rows(csr_matrix((WIDTH, WIDTH), dtype=np.float32))):
        assert np.flatnonzero(as_query(empty, Typed([7], 1, True), keywords)).tolist() == [7]


def test_a_row() -> None:
    row = row_of(np.float32([0, 2, 0, 1]))
    row.check_format(full_check=True)
    assert row.toarray().tolist() == [[0, 2, 0, 1]]


# ---- the file ----


def test_saved_and_loaded(tmp_path: Path) -> None:
    assert load_keywords(tmp_path, WIDTH) is None
    save_keywords(tmp_path, KEYWORDS)
    found = load_keywords(tmp_path, WIDTH)
    assert found is not None
    assert found.data.dtype == np.float32
    np.testing.assert_array_equal(found.csr().toarray(), KEYWORDS.toarray().astype(np.float16))


def test_a_large_vocabulary(tmp_path: Path) -> None:
    width = 70_000
    keywords = csr_matrix(([1.0], ([2], [width - 1])), shape=(width, width), dtype=np.float32)
    save_keywords(tmp_path, keywords)
    found = load_keywords(tmp_path, width)
    assert found is not None
    assert (found.csr() != keywords).nnz == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("starts"),
        lambda tensors: tensors.update(starts=tensors["starts"][:-1]),
        lambda tensors: tensors.update(columns=tensors["columns"] + np.uint16(WIDTH)),
        lambda tensors: tensors.update(weights=tensors["weights"][:-1]),
        lambda tensors: tensors.update(weights=tensors["weights"] * np.float16(np.nan)),
        lambda tensors: tensors.update(weights=-tensors["weights"]),
    ],
)
def test_a_damaged_file(tmp_path: Path, change) -> None:
    save_keywords(tmp_path, KEYWORDS)
    tensors = load_file(tmp_path / FILE)
    change(tensors)
    save_file(tensors, tmp_path / FILE)
    with pytest.raises(ValueError, match=r"keywords\.safetensors: "):
        load_keywords(tmp_path, WIDTH)


def test_no_file_of_tensors(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\0" * 100)
    with pytest.raises(ValueError, match=r"keywords\.safetensors: "):
        load_keywords(tmp_path, WIDTH)
    save_keywords(tmp_path, KEYWORDS)
    with pytest.raises(ValueError, match=r"keywords\.safetensors: "):  # of another vocabulary
        load_keywords(tmp_path, WIDTH + 1)
