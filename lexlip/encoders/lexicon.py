"""From token states to a sparse vector over the vocabulary: the lexicon head and its max pooling.

Shapes: B batch, P positions (image tokens or text tokens), V vocabulary, D width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MAX_LOGITS = 2**24  # logits held at once by the max pooling; 64 MiB in fp32


class LexiconHead(nn.Module):
    """BERT's masked-language-model head, max-pooled over positions (Eq. 2-3, 5-6).

    project D_in -> D (where the widths differ), dense D -> D, GELU, LayerNorm, decoder D -> V + bias.

    Args:
        width_in: width of the encoder's states.
        embeddings: [V, D] word embeddings that the decoder starts from.
    """

    def __init__(self, width_in: int, embeddings: Tensor) -> None:
        super().__init__()
        vocabulary_size, width = embeddings.shape
        self.project = nn.Identity() if width_in == width else nn.Linear(width_in, width)
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.decoder = nn.Parameter(embeddings.detach().clone())  # [V, D]
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Raw logits, max-pooled over the positions where `mask` is true.

        Args:
            states: [B, P, D_in].
            mask: bool [B, P]; a row without any position, such as an empty text, gets -inf: no terms.

        Returns:
            float32 [B, V]; `sparse_vector` of it is p in Eq. 3 and 6.
        """
        hidden = self.norm(F.gelu(self.dense(self.project(states))))  # [B, P, D]
        return max_pooled_logits(hidden, self.decoder, mask) + self.bias.float()


def sparse_vector(logits: Tensor) -> Tensor:
    """p = log(1 + relu(logits)) of max-pooled logits, [B, V] >= 0 (Eq. 3, 6).

    Both functions are monotone, so pooling first gives the same vector.
    """
    return torch.log1p(F.relu(logits))


def max_pooled_logits(hidden: Tensor, decoder: Tensor, mask: Tensor) -> Tensor:
    """max over positions of hidden @ decoder.T, without the [B, P, V] tensor ever being whole.

    Computed a few rows of the batch at a time; only the arg max positions are kept, and the gradient
    goes through them alone. Under autocast the products are taken in its lower precision.

    Args:
        hidden: [B, P, D].
        decoder: [V, D].
        mask: bool [B, P].

    Returns:
        float32 [B, V].
    """
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else decoder.dtype
    pooled: Tensor = _MaxPooledLogits.apply(hidden, decoder, mask, dtype)  # type: ignore[no-untyped-call]
    return pooled


class _MaxPooledLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, decoder: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            batch, positions, _ = hidden.shape
            weights = decoder.to(dtype).t()  # [D, V]
            pooled = hidden.new_empty(batch, len(decoder), dtype=torch.float32)
            winners = torch.empty(batch, len(decoder), dtype=torch.int64, device=hidden.device)
            for rows in _row_chunks(batch, positions * len(decoder)):
                logits = hidden[rows].to(dtype) @ weights  # [b, P, V]
                logits.masked_fill_(~mask[rows, :, None], float("-inf"))
                best, winners[rows] = logits.max(dim=1)
                pooled[rows] = best.float()
        ctx.save_for_backward(hidden, decoder, winners.to(torch.int16) if positions < 2**15 else winners)
        ctx.compute_dtype = dtype
        return pooled

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden, decoder, winners = ctx.saved_tensors
        dtype = ctx.compute_dtype
        batch, positions, _ = hidden.shape
        with torch.autocast(hidden.device.type, enabled=False):
            weights = decoder.to(dtype)
            grad_hidden = torch.empty_like(hidden)
            grad_decoder = torch.zeros_like(decoder, dtype=torch.float32)
            for rows in _row_chunks(batch, positions * len(decoder)):
                grad = grads[0][rows].to(dtype)  # [b, V]
                grad_logits = grad.new_zeros(len(grad), positions, len(decoder))
                grad_logits.scatter_(1, winners[rows, None].long(), grad[:, None])
                grad_hidden[rows] = (grad_logits @ weights).to(hidden.dtype)
                flat = grad_logits.flatten(0, 1)  # [b * P, V]
                grad_decoder += (flat.t() @ hidden[rows].to(dtype).flatten(0, 1)).float()
        return grad_hidden, grad_decoder.to(decoder.dtype), None, None


def _row_chunks(batch: int, logits_per_row: int) -> list[slice]:
    rows = max(1, MAX_LOGITS // logits_per_row)
    return [slice(start, start + rows) for start in range(0, batch, rows)]


class BagOfWords(nn.Module):
    """A query encoder without a network: one learned weight a word.

    p_v = softplus(weight_v) for the words of the text, 0 elsewhere.

    Every word weighs 1 at first.
    """

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size))
        self.start_from(torch.ones(vocabulary_size))

    @torch.no_grad()
    def start_from(self, weights: Tensor) -> None:
        """Set the weights of the words, [V] > 0, such as inverse document frequencies."""
        weights = weights.float().clamp(min=1e-3)
        self.weight.copy_(weights + torch.log(-torch.expm1(-weights)))  # the inverse of softplus

    def forward(self, present: Tensor) -> Tensor:
        """[T, V] vectors of texts; `present` is bool [T, V], whether the text holds the word."""
        return present * F.softplus(self.weight)
