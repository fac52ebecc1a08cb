from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lexlip.encoders import chunked_logits
from lexlip.encoders.chunked_logits import masked_cross_entropy, max_pooled_logits
from lexlip.encoders.lexicon import sparse_vector
from tests.reference.pooling import naive_max_pooled_logits

B, P, D, V = 5, 7, 6, 11

Function = Callable[[Tensor, Tensor, Tensor], Tensor]


@pytest.fixture(params=["pairs", "positions", "measured"])
def gradient_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways that the gradient can take, and the choice between them."""
    if request.param != "measured":
        monkeypatch.setattr(chunked_logits, "CELLS_A_PAIR", 0 if request.param == "pairs" else 2**40)


def inputs(dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """hidden [B, P, D], decoder [V, D] and a mask [B, P] with at least one position a row."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(B, P, D, dtype=dtype, generator=generator).requires_grad_()
    decoder = torch.randn(V, D, dtype=dtype, generator=generator).requires_grad_()
    mask = torch.rand(B, P, generator=generator) < 0.6
    mask[:, 2] = True
    return hidden, decoder, mask


def value_and_gradients(
    function: Function, hidden: Tensor, decoder: Tensor, mask: Tensor, above: float = float("-inf")
) -> list[Tensor]:
    """Of a sum over the pooled logits that exceed `above`: the rest have gradient 0."""
    pooled = function(hidden, decoder, mask)
    weights = torch.linspace(-1, 1, V, dtype=pooled.dtype)
    (torch.tanh(pooled) * weights * (pooled > above)).sum().backward()
    assert decoder.grad is not None
    return [pooled.detach(), hidden.grad, decoder.grad]


@pytest.mark.parametrize("above", [float("-inf"), 1.5, 4.0, float("inf")], ids="all half few none".split())
@pytest.mark.parametrize("held", [1, 2 * P * V, 2**24], ids=["one row", "two rows", "whole batch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("gradient_by")
def test_max_pooling_and_its_gradient(monkeypatch, above: float, held: int, dtype: torch.dtype) -> None:
    monkeypatch.setattr(chunked_logits, "MAX_LOGITS", held)
    found = value_and_gradients(max_pooled_logits, *inputs(dtype), above)
    expected = value_and_gradients(naive_max_pooled_logits, *inputs(dtype), above)
    for ours, plain in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("gradient_by")
def test_the_gradient_is_that_of_finite_differences() -> None:
    hidden, decoder, mask = inputs(torch.float64)
    assert torch.autograd.gradcheck(lambda h, d: max_pooled_logits(h, d, mask), (hidden, decoder))
    assert torch.autograd.gradcheck(
        lambda h, d: sparse_vector(max_pooled_logits(h, d, mask) - 2), (hidden, decoder)
    )


@pytest.mark.usefixtures("gradient_by")
def test_some_rows_dense_and_some_empty() -> None:
    grad = torch.zeros(B, V)
    grad[0], grad[2, 3], grad[4, ::4] = torch.linspace(1, 2, V), -1.0, 0.5
    found, expected = [], []
    for function, into in ((max_pooled_logits, found), (naive_max_pooled_logits, expected)):
        hidden, decoder, mask = inputs()
        function(hidden, decoder, mask).backward(grad)
        into += [hidden.grad, decoder.grad]
    torch.testing.assert_close(found, expected)
    assert found[0][[1, 3]].abs().max() == 0


@pytest.mark.usefixtures("gradient_by")
def test_inputs_that_are_not_contiguous() -> None:
    def strided(function: Function) -> Function:
        return lambda hidden, decoder, mask: function(
            hidden.transpose(0, 1).contiguous().transpose(0, 1), decoder.t().contiguous().t(), mask.flip(1)
        )

    found = value_and_gradients(strided(max_pooled_logits), *inputs())
    expected = value_and_gradients(strided(naive_max_pooled_logits), *inputs())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("gradient_by")
def test_of_equal_maxima_one_gets_the_gradient() -> None:
    hidden, decoder, mask = inputs()
    with torch.no_grad():
        hidden[:] = hidden[:, :1]
    max_pooled_logits(hidden, decoder, mask).sum().backward()
    torch.testing.assert_close(hidden.grad.sum(dim=1), decoder.sum(dim=0).expand(B, D))
    assert hidden.grad[~mask].abs().max() == 0


@pytest.mark.usefixtures("gradient_by")
def test_masked_positions_do_not_count_and_get_no_gradient() -> None:
    hidden, decoder, mask = inputs()
    with torch.no_grad():
        hidden[~mask] = 1e6
    _, grad, _ = value_and_gradients(max_pooled_logits, hidden, decoder, mask)
    assert max_pooled_logits(hidden, decoder, mask).abs().max() < 100
    assert grad[~mask].abs().max() == 0


@pytest.mark.usefixtures("gradient_by")
def test_a_row_without_any_position_has_no_terms_and_no_gradient() -> None:
    hidden, decoder, mask = inputs()
    mask[1] = False
    vectors = sparse_vector(max_pooled_logits(hidden, decoder, mask))
    assert vectors[1].abs().max() == 0
    F.normalize(vectors, dim=1).square().sum(dim=1).sqrt().sum().backward()
    assert hidden.grad.isfinite().all()
    assert decoder.grad.isfinite().all()
    assert hidden.grad[1].abs().max() == 0


def test_no_positions_at_all() -> None:
    hidden, decoder, mask = inputs()
    pooled = max_pooled_logits(hidden, decoder, torch.zeros_like(mask))
    assert (pooled == float("-inf")).all()
    pooled.sum().backward()  # whatever comes back
    assert hidden.grad.abs().max() == 0


@pytest.mark.parametrize("held", [1, 2**24])
@pytest.mark.usefixtures("gradient_by")
def test_under_autocast_products_are_taken_in_bf16(monkeypatch, held: int) -> None:
    monkeypatch.setattr(chunked_logits, "MAX_LOGITS", held)

    def autocast(hidden: Tensor, decoder: Tensor, mask: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return max_pooled_logits(hidden, decoder, mask)

    found = value_and_gradients(autocast, *inputs())
    rounded = max_pooled_logits(*[t.bfloat16() if t.is_floating_point() else t for t in inputs()])
    assert torch.equal(found[0], rounded)  # the same products
    assert [t.dtype for t in found] == [torch.float32] * 3
    torch.testing.assert_close(
        found, value_and_gradients(naive_max_pooled_logits, *inputs()), rtol=0.05, atol=0.05
    )


@pytest.mark.usefixtures("gradient_by")
def test_a_frozen_decoder_gets_no_gradient() -> None:
    hidden, decoder, mask = inputs()
    decoder.requires_grad_(False)
    max_pooled_logits(hidden, decoder, mask).sum().backward()
    assert hidden.grad is not None
    assert decoder.grad is None


class Sizes(TorchDispatchMode):
    """Records the largest tensor that any operation gives back."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.largest = max(self.largest, *made, 0)
        return out


@pytest.mark.usefixtures("gradient_by")
def test_the_logits_of_all_positions_are_never_whole(monkeypatch) -> None:
    monkeypatch.setattr(chunked_logits, "MAX_LOGITS", P * V)
    with Sizes() as sizes:
        value_and_gradients(max_pooled_logits, *inputs())
    assert P * V <= sizes.largest <= max(P * V, B * P * D)
    with Sizes() as sizes:
        value_and_gradients(naive_max_pooled_logits, *inputs())
    assert sizes.largest == B * P * V


M = 9


def masked_words(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """hidden [M, D], decoder [V, D], bias [V] and labels [M]."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((M, D), (V, D), (V,))
    hidden, decoder, bias = (torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes)
    labels = torch.randint(V, (M,), generator=generator)
    return hidden.requires_grad_(), decoder.requires_grad_(), bias.requires_grad_(), labels


def naive_cross_entropy(hidden: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(hidden @ decoder.t() + bias, labels, reduction="sum")


def loss_and_gradients(
    function: Callable[..., Tensor], tensors: tuple[Tensor, Tensor, Tensor, Tensor]
) -> list[Tensor]:
    loss = function(*tensors)
    (0.5 * loss).backward()
    return [loss.detach(), *(tensor.grad for tensor in tensors[:3] if tensor.grad is not None)]


@pytest.mark.parametrize("held", [1, 4 * V, 2**24], ids=["one row", "four rows", "all"])
def test_masked_cross_entropy(monkeypatch, held: int) -> None:
    monkeypatch.setattr(chunked_logits, "MAX_LOGITS", held)
    found = loss_and_gradients(masked_cross_entropy, masked_words())
    expected = loss_and_gradients(naive_cross_entropy, masked_words())
    assert [tensor.dtype for tensor in found] == [torch.float32] * 4
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(masked_cross_entropy(*masked_words()), expected[0])
    hidden, decoder, bias, labels = masked_words(torch.float64)
    assert torch.autograd.gradcheck(
        lambda h, d, b: masked_cross_entropy(h, d, b, labels), (hidden, decoder, bias)
    )


def test_masked_cross_entropy_under_autocast() -> None:
    def autocast(*tensors: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return masked_cross_entropy(*tensors)

    found = loss_and_gradients(autocast, masked_words())
    assert [tensor.dtype for tensor in found] == [torch.float32] * 4
    torch.testing.assert_close(
        found, loss_and_gradients(naive_cross_entropy, masked_words()), rtol=0.02, atol=0.02
    )
    hidden, decoder, bias, labels = masked_words()
    rounded = naive_cross_entropy(
        (hidden.bfloat16() @ decoder.bfloat16().t()).float(), torch.eye(V), bias, labels
    )
    torch.testing.assert_close(found[0], rounded.detach())


def test_masked_cross_entropy_of_nothing() -> None:
    hidden, decoder, bias, labels = masked_words()
    loss = masked_cross_entropy(hidden[:0], decoder, bias, labels[:0])
    loss.backward()
    assert loss == 0
    for tensor in (hidden, decoder, bias):
        assert tensor.grad.abs().max() == 0


@pytest.mark.parametrize("frozen", range(3), ids=["hidden", "decoder", "bias"])
def test_masked_cross_entropy_with_something_frozen(frozen: int) -> None:
    tensors, others = masked_words(), masked_words()
    tensors[frozen].requires_grad_(False)
    others[frozen].requires_grad_(False)
    found = loss_and_gradients(masked_cross_entropy, tensors)
    assert len(found) == 3
    torch.testing.assert_close(found, loss_and_gradients(naive_cross_entropy, others))


def test_the_logits_of_all_masked_words_are_never_whole(monkeypatch) -> None:
    monkeypatch.setattr(chunked_logits, "MAX_LOGITS", 2 * V)
    with Sizes() as sizes:
        loss_and_gradients(masked_cross_entropy, masked_words())
    assert 2 * V <= sizes.largest <= max(V * D, M * D) < M * V
