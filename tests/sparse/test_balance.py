import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix, random_array

from lexlip.errors import ConfigError
from lexlip.sparse.balance import (
    FACTORS,
    FILE,
    NEAREST,
    Balance,
    Bank,
    as_documents,
    load_balance,
    make_bank,
    quantize_documents,
    save_balance,
    scheme_of,
    usual_scheme,
)
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk
from tests.tiny import balanced

WIDTH = 60
KEPT = 30  # of a document's words: more than any of `rows` has


def rows(number: int, seed: int, density: float = 0.2) -> csr_matrix:
    rng = np.random.default_rng(seed)
    return csr_matrix(random_array((number, WIDTH), density=density, rng=rng, dtype=np.float32))


def unit(row: np.ndarray) -> np.ndarray:
    return row / max(math.sqrt(float((row.astype(np.float64) ** 2).sum())), 1e-12)


def mean_of_best(document: np.ndarray, queries: csr_matrix) -> float:
    """By the formula: cosines with every query, sorted, the first ones averaged."""
    cosines = sorted((float(unit(document) @ (query / 1000)) for query in queries.toarray()), reverse=True)
    return sum(cosines[:NEAREST]) / NEAREST


@pytest.fixture
def bank() -> Bank:
    return make_bank(rows(300, 1), rows(51, 2))


def test_a_document_is_of_unit_length_times_its_factor(bank: Bank) -> None:
    documents = rows(600, 3).toarray()
    documents[5] = 0
    found = bank.documents(csr_matrix(documents)).toarray()
    for document, row in zip(documents, found, strict=True):
        factor = math.sqrt(bank.typical / max(mean_of_best(document, bank.queries), 1e-12))
        np.testing.assert_allclose(row, unit(document) * np.clip(factor, *FACTORS), rtol=1e-4, atol=1e-6)
    assert np.isfinite(found).all()


def test_typical_is_the_median_of_documents(bank: Bank) -> None:
    means = sorted(mean_of_best(document, bank.queries) for document in rows(51, 2).toarray())
    assert bank.typical == pytest.approx(means[25], rel=1e-4)


def test_a_document_that_fits_every_query_becomes_lighter() -> None:
    queries = rows(300, 1).toarray()
    queries[:, 0] *= 0.2
    bank = make_bank(csr_matrix(queries), rows(51, 2))
    hub = csr_matrix(bank.queries.toarray().mean(axis=0, keepdims=True).astype(np.float32))
    lonely = csr_matrix(np.eye(1, WIDTH, dtype=np.float32))
    lengths = [np.linalg.norm(bank.documents(one).toarray()) for one in (hub, lonely)]
    assert lengths[0] < 1 < lengths[1]


def test_a_factor_does_not_depend_on_other_documents(bank: Bank) -> None:
    documents = rows(700, 4)
    for kept in (None, 5):
        together = bank.documents(documents, kept)
        for number in (0, 255, 256, 699):
            alone = bank.documents(documents[number], kept)
            np.testing.assert_allclose(alone.toarray(), together[number].toarray(), rtol=1e-6)
    assert bank.documents(documents[:0]).shape == (0, WIDTH)


def test_impacts_keep_the_factor(bank: Bank) -> None:
    documents = rows(40, 5)
    whole = bank.documents(documents)
    short = csr_matrix(balanced(bank, documents, 8))
    for kept, floats in ((None, whole), (KEPT, whole), (8, short)):
        expected = np.rint(1000 * floats.toarray().astype(np.float64))
        np.testing.assert_array_equal(
            quantize_documents(documents, kept, "balanced", bank).toarray(), expected
        )
    for scheme in ("unit", "paper"):
        plain = quantize_documents(documents, 8, scheme, bank)
        assert (plain != quantize(topk(documents, 8), scheme)).nnz == 0


def test_without_a_bank_nothing_is_balanced() -> None:
    documents = rows(3, 6)
    assert usual_scheme(None) == "unit"
    assert (as_documents(documents, 2, "unit", None) != topk(documents, 2)).nnz == 0
    with pytest.raises(ConfigError, match="this model has no captions to balance with: leave --quantization"):
        quantize_documents(documents, 2, "balanced", None)


def test_documents_of_a_model_that_compares_by_dot_product_keep_their_lengths(
    bank: Bank, tmp_path: Path
) -> None:
    assert usual_scheme(None, "dot") == usual_scheme(Balance(bank, bank), "dot") == "dot"
    for metric, scheme in (("dot", "dot"), ("cosine", "unit"), (None, "unit")):
        (tmp_path / "config.json").write_text(json.dumps({"model": {"metric": metric}}))
        assert scheme_of(tmp_path) == scheme
    (tmp_path / "config.json").write_text('{"model": {}}')  # of an older version
    assert scheme_of(tmp_path) == "unit"
    save_balance(tmp_path, Balance(bank, bank))
    assert scheme_of(tmp_path) == "balanced"


def test_banks_are_read_as_they_were_written(bank: Bank, tmp_path: Path) -> None:
    assert load_balance(tmp_path, WIDTH) is None
    balance = Balance(bank, make_bank(rows(NEAREST, 7), rows(3, 8)))
    save_balance(tmp_path, balance)
    found = load_balance(tmp_path, WIDTH)
    assert found is not None
    assert usual_scheme(found) == "balanced"
    for ours, theirs in zip(balance, found, strict=True):
        assert ours.typical == theirs.typical
        assert (ours.queries != theirs.queries).nnz == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors: tensors.pop("photos.weights"),
        lambda tensors: tensors.update({"photos.typical": np.array([np.nan])}),
        lambda tensors: tensors.update({"captions.typical": np.zeros(0)}),
        lambda tensors: tensors.update({"photos.starts": tensors["photos.starts"][:5]}),
        lambda tensors: tensors.update({"photos.columns": tensors["photos.columns"] + WIDTH}),
        lambda tensors: tensors.update({"photos.starts": tensors["photos.starts"][::-1].copy()}),
    ],
)
def test_a_damaged_file(bank: Bank, tmp_path: Path, damage) -> None:
    save_balance(tmp_path, Balance(bank, bank))
    tensors = load_file(tmp_path / FILE)
    damage(tensors)
    save_file(tensors, tmp_path / FILE)
    with pytest.raises(ValueError):  # noqa: PT011
        load_balance(tmp_path, WIDTH)
    (tmp_path / FILE).write_bytes(b"{")
    with pytest.raises(ValueError, match=FILE):
        load_balance(tmp_path, WIDTH)
