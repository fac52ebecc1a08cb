import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.training.method import WeakDecoder, bottleneck
from tests.reference.losses import naive_bottleneck

T, V, D = 3, 11, 8


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_the_bottleneck_is_a_bag_of_words() -> None:
    logits, embeddings = 3 * normal(T, V), normal(V, D, seed=1)
    found = bottleneck(logits, embeddings)
    for row in range(T):
        plain = naive_bottleneck(logits[row].tolist(), embeddings.tolist())
        assert found[row].tolist() == pytest.approx(plain, rel=1e-5, abs=1e-6)
    sure = bottleneck(100 * F.one_hot(torch.tensor([4]), V).float(), embeddings)
    torch.testing.assert_close(sure[0], embeddings[4])


def test_the_gradient_goes_into_the_logits_and_not_into_the_words() -> None:
    logits, embeddings, weights = normal(T, V), normal(V, D, seed=1), normal(T, D, seed=2).detach()
    (bottleneck(logits, embeddings) * weights).sum().backward()
    assert embeddings.grad is None
    for row in range(T):
        a, value = torch.softmax(logits[row], 0).tolist(), (embeddings @ weights[row]).tolist()
        mean = sum(share * v for share, v in zip(a, value, strict=True))
        plain = [share * (v - mean) for share, v in zip(a, value, strict=True)]
        assert logits.grad[row].tolist() == pytest.approx(plain, rel=1e-4, abs=1e-6)


def test_a_text_without_words_has_an_empty_bottleneck() -> None:
    logits = torch.stack([torch.full((V,), -math.inf), torch.zeros(V)]).requires_grad_()
    found = bottleneck(logits, normal(V, D))
    assert found[0].tolist() == [0.0] * D
    found.sum().backward()
    assert logits.grad.isfinite().all()


def attention(states: Tensor, layer: torch.nn.TransformerEncoderLayer, mask: Tensor) -> Tensor:
    """Self-attention of one text, states [L, D], head by head and token by token."""
    attend = layer.self_attn
    queries, keys, values = (states @ attend.in_proj_weight.t() + attend.in_proj_bias).split(D, dim=1)
    width = D // attend.num_heads
    rows = []
    for place in range(len(states)):
        heads = []
        for start in range(0, D, width):
            part = slice(start, start + width)
            scores = [queries[place, part] @ key[part] / math.sqrt(width) for key in keys]
            shares = torch.softmax(torch.stack(scores).masked_fill(~mask, -math.inf), 0)
            heads.append(sum(share * value[part] for share, value in zip(shares, values, strict=True)))
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ attend.out_proj.weight.t() + attend.out_proj.bias


def naive_decoder(decoder: WeakDecoder, states: Tensor, mask: Tensor) -> Tensor:
    """BERT's layers: LayerNorm after each residual."""
    for layer in decoder.layers.layers:
        states = layer.norm1(states + attention(states, layer, mask))
        states = layer.norm2(states + layer.linear2(F.gelu(layer.linear1(states))))
    return states


@pytest.mark.parametrize("training", [False, True])
def test_the_decoder_is_two_layers_of_bert(training: bool) -> None:
    torch.manual_seed(0)
    decoder = WeakDecoder(D, heads=2, dropout=0.0).train(training)
    assert len(decoder.layers.layers) == 2
    embedded = normal(T, 5, D)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] * 2 + [False] * 3])
    found = decoder(embedded, mask)
    for text in range(T):
        length = int(mask[text].sum())
        plain = naive_decoder(decoder, embedded[text], mask[text])
        torch.testing.assert_close(found[text, :length], plain[:length], rtol=1e-4, atol=1e-5)


def test_the_decoder_drops_out_in_training_alone() -> None:
    torch.manual_seed(0)
    decoder, embedded, mask = WeakDecoder(D, 2, 0.5), normal(T, 5, D), torch.ones(T, 5, dtype=torch.bool)
    first, second = (decoder(embedded, mask) for _ in range(2))
    assert not torch.equal(first, second)
    decoder.eval()
    first, second = (decoder(embedded, mask) for _ in range(2))
    assert torch.equal(first, second)
