import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.encoders import lexicon
from lexlip.encoders.lexicon import BagOfWords, LexiconHead, max_pooled_logits, sparse_vector
from tests.reference.pooling import naive_max_pooled_logits, naive_sparse_vector

B, P, D, V = 5, 7, 6, 11


def inputs(dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """hidden [B, P, D], decoder [V, D] and a mask [B, P] with at least one position a row."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(B, P, D, dtype=dtype, generator=generator).requires_grad_()
    decoder = torch.randn(V, D, dtype=dtype, generator=generator).requires_grad_()
    mask = torch.rand(B, P, generator=generator) < 0.6
    mask[:, 2] = True
    return hidden, decoder, mask


def value_and_gradients(function, hidden: Tensor, decoder: Tensor, mask: Tensor) -> list[Tensor]:
    pooled = function(hidden, decoder, mask)
    weights = torch.linspace(-1, 1, V, dtype=pooled.dtype)
    (torch.tanh(pooled) * weights).sum().backward()
    assert hidden.grad is not None
    assert decoder.grad is not None
    return [pooled.detach(), hidden.grad, decoder.grad]


@pytest.mark.parametrize("held", [1, 2 * P * V, 2**24], ids=["one row", "two rows", "whole batch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_max_pooling_and_its_gradient(monkeypatch, held: int, dtype: torch.dtype) -> None:
    monkeypatch.setattr(lexicon, "MAX_LOGITS", held)
    found = value_and_gradients(max_pooled_logits, *inputs(dtype))
    expected = value_and_gradients(naive_max_pooled_logits, *inputs(dtype))
    assert found[0].dtype == torch.float32
    assert found[1].dtype == found[2].dtype == dtype
    for ours, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6, check_dtype=False)


def test_masked_positions_do_not_count_and_get_no_gradient() -> None:
    hidden, decoder, mask = inputs()
    with torch.no_grad():
        hidden[~mask] = 1e6
    _, grad, _ = value_and_gradients(max_pooled_logits, hidden, decoder, mask)
    assert max_pooled_logits(hidden, decoder, mask).abs().max() < 100
    assert grad[~mask].abs().max() == 0


def test_a_row_without_any_position_has_no_terms_and_no_gradient() -> None:
    hidden, decoder, mask = inputs()
    mask[1] = False
    vectors = sparse_vector(max_pooled_logits(hidden, decoder, mask))
    assert vectors[1].abs().max() == 0
    F.normalize(vectors, dim=1).square().sum(dim=1).sqrt().sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()
    assert decoder.grad is not None
    assert decoder.grad.isfinite().all()
    assert hidden.grad[1].abs().max() == 0


@pytest.mark.parametrize("held", [1, 2**24])
def test_under_autocast_products_are_taken_in_bf16(monkeypatch, held: int) -> None:
    monkeypatch.setattr(lexicon, "MAX_LOGITS", held)

    def autocast(hidden: Tensor, decoder: Tensor, mask: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return max_pooled_logits(hidden, decoder, mask)

    found = value_and_gradients(autocast, *inputs())
    rounded = max_pooled_logits(*[t.bfloat16() if t.is_floating_point() else t for t in inputs()])
    assert torch.equal(found[0], rounded)  # the same products
    assert [t.dtype for t in found] == [torch.float32] * 3
    for ours, plain in zip(found, value_and_gradients(naive_max_pooled_logits, *inputs()), strict=True):
        torch.testing.assert_close(ours, plain, rtol=0.05, atol=0.05)


def test_a_frozen_decoder_gets_no_gradient() -> None:
    hidden, decoder, mask = inputs()
    decoder.requires_grad_(False)
    max_pooled_logits(hidden, decoder, mask).sum().backward()
    assert hidden.grad is not None
    assert decoder.grad is None


def test_relu_and_log_commute_with_the_maximum() -> None:
    hidden, decoder, mask = inputs()
    bias = torch.linspace(-2, 1, V)
    ours = sparse_vector(max_pooled_logits(hidden, decoder, mask) + bias)
    torch.testing.assert_close(ours, naive_sparse_vector(hidden, decoder, bias, mask))
    assert (ours == 0).any()
    assert (ours >= 0).all()


@pytest.mark.parametrize("width_in", [D, 9])
def test_the_head_is_bert_s(width_in: int) -> None:
    torch.manual_seed(0)
    embeddings = torch.randn(V, D)
    head = LexiconHead(width_in, embeddings)
    states, (_, _, mask) = torch.randn(B, P, width_in), inputs()
    with torch.no_grad():
        head.bias.uniform_()
    projected = states if width_in == D else head.project(states)
    hidden = head.norm(F.gelu(head.dense(projected)))
    expected = naive_max_pooled_logits(hidden, embeddings, mask) + head.bias
    torch.testing.assert_close(head(states, mask), expected)
    assert head.decoder.data_ptr() != embeddings.data_ptr()  # a copy, trained on its own


def test_bag_of_words() -> None:
    bag = BagOfWords(4)
    present = torch.tensor([[True, False, True, False], [False] * 4])
    torch.testing.assert_close(bag(present), torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0]]))
    bag.start_from(torch.tensor([0.5, 2.0, 30.0, 0.0]))
    torch.testing.assert_close(bag(torch.ones(1, 4, dtype=torch.bool)), torch.tensor([[0.5, 2, 30, 1e-3]]))
    bag(present).sum().backward()
    assert bag.weight.grad is not None
    assert (bag.weight.grad != 0).tolist() == [True, False, True, False]
    bag.start_from(torch.tensor([1e3] * 4))  # more than exp can hold
    torch.testing.assert_close(bag(present[:1]), torch.tensor([[1e3, 0, 1e3, 0]]))
