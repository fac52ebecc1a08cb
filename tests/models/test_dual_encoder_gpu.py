"""Encoding on a GPU: what moves and waits on a pretended one, and the vectors of a real one."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from lexlip.models import dual_encoder, one_transformer
from lexlip.models.dual_encoder import DualEncoder, by_length, to_rows
from tests.pretend_gpu import pretend_gpu
from tests.tiny import CAPTIONS, tiny_model, tiny_photos, tiny_stage

KINDS = ["lexlip", "dense", "lightningdot", "be", "joint", "vldeformer"]
PAIRS = np.stack(np.divmod(np.arange(12), 3)[::-1], axis=1)  # three captions with four photos


def make(kind: str) -> DualEncoder:
    return tiny_model() if kind == "lexlip" else tiny_stage(kind)


def encoded(model: DualEncoder) -> list[csr_matrix]:
    found = [model.encode_image(tiny_photos(5)), model.encode_text(CAPTIONS)]
    return [*found, model.encode_text(CAPTIONS, "words")] if model.kind == "lexlip" else found


def check_equal(found: list[csr_matrix], expected: list[csr_matrix], tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        assert one.has_sorted_indices
        np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_moves_to_the_gpu(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = encoded(make(kind))
    with pretend_gpu(monkeypatch):
        found = encoded(make(kind).to("cuda:0").fold_batch_norms())
    check_equal(found, expected, 1e-5)


def test_pairs_move_to_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_stage("ce")
    expected = model.score_pairs(model.embed_photos(tiny_photos(4)), CAPTIONS[:3], PAIRS)
    with pretend_gpu(monkeypatch):
        model = tiny_stage("ce").to("cuda:0")
        found = model.score_pairs(model.embed_photos(tiny_photos(4)).cpu(), CAPTIONS[:3], PAIRS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the copy of the vectors, whose size must be known first."""
    photos = tiny_photos(5)
    with pretend_gpu(monkeypatch) as waits:
        model = tiny_model().to("cuda:0")
        waits.clear()
        model.encode_image(photos)
        assert [wait.partition(" ")[2] for wait in waits] == ["nonzero", "_to_copy", "_to_copy"]
        assert all(wait.startswith("models/dual_encoder.py") for wait in waits)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_in_bf16_are_nearly_those_in_fp32(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the CPU's bf16, as there may be no GPU."""
    model = make(kind)
    expected = encoded(model)
    monkeypatch.setattr(dual_encoder, "encoding", lambda device: torch.autocast("cpu", torch.bfloat16))
    found = encoded(model)
    check_equal(found, expected, 0.05)
    assert (found[0] != expected[0]).nnz  # bf16 it was


def test_pairs_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_stage("ce")
    expected = model.score_pairs(model.embed_photos(tiny_photos(4)), CAPTIONS[:3], PAIRS)
    monkeypatch.setattr(one_transformer, "encoding", lambda device: torch.autocast("cpu", torch.bfloat16))
    found = model.score_pairs(model.embed_photos(tiny_photos(4)), CAPTIONS[:3], PAIRS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (4, 5)])
def test_rows(shape: tuple[int, int]) -> None:
    vectors = torch.rand(shape)
    vectors[vectors < 0.5] = 0
    if len(vectors) > 2:
        vectors[2] = 0  # a photo without words
    found, expected = to_rows(vectors.bfloat16()), csr_matrix(vectors.bfloat16().float().numpy())
    assert found.shape == shape
    assert found.dtype == np.float32
    assert (found != expected).nnz == 0


def test_one_group_of_texts_on_a_gpu_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.arange(6) < torch.tensor([[2], [6], [3]])
    monkeypatch.setattr(dual_encoder, "TEXTS_OF_ONE_LENGTH", (2, 3))
    on_cpu = list(by_length(torch.arange(18).view(3, 6), mask))
    assert [rows.tolist() for rows, _, _ in on_cpu] == [[0, 2], [1]]
    assert [ids.shape[1] for _, ids, _ in on_cpu] == [3, 6]
    with pretend_gpu(monkeypatch) as waits:
        ids, mask = torch.arange(18).view(3, 6).to("cuda:0"), mask.to("cuda:0")
        waits.clear()
        ((rows, same_ids, _),) = by_length(ids, mask)
        assert not waits
        assert rows.tolist() == [0, 1, 2]
        assert same_ids is ids


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_a_gpu_are_nearly_those_of_a_cpu(kind: str) -> None:
    check_equal(encoded(make(kind).to("cuda").fold_batch_norms()), encoded(make(kind)), 0.05)


@pytest.mark.gpu
def test_pairs_on_a_gpu() -> None:
    cpu, gpu = tiny_stage("ce"), tiny_stage("ce").to("cuda")
    expected = cpu.score_pairs(cpu.embed_photos(tiny_photos(4)), CAPTIONS[:3], PAIRS)
    found = gpu.score_pairs(gpu.embed_photos(tiny_photos(4)).cpu(), CAPTIONS[:3], PAIRS)
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.05)
