"""Logits over the vocabulary without the [B, P, V] tensor: max pooling, and masked cross-entropy.

Both compute a few rows at a time, and define their own backward pass.
Shapes: B batch, P positions (image tokens or text tokens), M masked positions, V vocabulary, D width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

MAX_LOGITS = 2**24  # logits held at a time; 64 MiB in fp32
CELLS_A_PAIR = 32  # logits of a dense product that take as long as one non-zero gradient; measured


def max_pooled_logits(hidden: Tensor, decoder: Tensor, mask: Tensor) -> Tensor:
    """Return the maximum over positions of hidden @ decoder.T, float32 [B, V], never holding all [B, P, V].

    `hidden` is [B, P, D], `decoder` [V, D], `mask` bool [B, P]. A few rows of the batch are computed at a
    time; only the positions of the maxima are kept. The gradient flows through these alone, and only for
    words whose gradient is not 0; for p, those are the words in use. A mostly dense gradient, such as the
    bottleneck's (Eq. 8), uses dense products. Under autocast the products have its lower precision.
    """
    pooled: Tensor = _MaxPooledLogits.apply(  # type: ignore[no-untyped-call]
        hidden, decoder, mask, _product_dtype(decoder)
    )
    return pooled


class _MaxPooledLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, decoder: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
        batch, positions, width = hidden.shape
        with torch.autocast(hidden.device.type, enabled=False):
            source = _counted_positions(mask)  # [B, P'], P' <= P
            states = hidden.reshape(-1, width).index_select(0, source.flatten()).to(dtype)
            states = states.view(batch, -1, width)  # [B, P', D]
            weights = decoder.to(dtype)
            pooled = hidden.new_empty(batch, len(decoder), dtype=torch.promote_types(dtype, torch.float32))
            index = torch.int16 if positions < 2**15 else torch.int32
            winners = torch.empty(batch, len(decoder), dtype=index, device=hidden.device)  # in P'
            for rows in _row_chunks(batch, states.shape[1] * len(decoder)):
                pooled[rows], winners[rows] = _max_over_positions(states[rows] @ weights.t())
            empty = ~mask.any(dim=1, keepdim=True)
            pooled.masked_fill_(empty, float("-inf"))
        ctx.save_for_backward(states, decoder, source, winners, empty)
        ctx.hidden_shape, ctx.hidden_dtype = hidden.shape, hidden.dtype
        return pooled

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, decoder, source, winners, empty = ctx.saved_tensors
        with torch.autocast(states.device.type, enabled=False):
            grad = grads[0].masked_fill(empty, 0)  # [B, V]
            pairs = grad.flatten().nonzero().squeeze(1)  # the only wait for a GPU
            if len(pairs) * CELLS_A_PAIR < grad.numel() * states.shape[1]:
                grad_states, grad_decoder = _gradient_by_pair(grad, pairs, winners, states, decoder)
            else:
                grad_states, grad_decoder = _gradient_by_position(grad, winners, states, decoder)
            grad_hidden = decoder.new_zeros(ctx.hidden_shape)
            grad_hidden.view(-1, decoder.shape[1]).index_add_(0, source.flatten(), grad_states.flatten(0, 1))
        return grad_hidden.to(ctx.hidden_dtype), grad_decoder, None, None


def _counted_positions(mask: Tensor) -> Tensor:
    """Return the true positions of each row of `mask`, bool [B, P], as int64 [B, P'] indices into B * P.

    P' is the most that a row has, or P on a GPU, which the processor need not wait for then. A row with fewer
    repeats its first, which does not change its maximum and makes a mask on the logits unnecessary.
    """
    batch, positions = mask.shape
    counts = mask.sum(dim=1, keepdim=True)
    gpu = mask.device.type == "cuda"
    longest = positions if gpu or not batch else max(1, int(counts.max()))
    order = mask.byte().argsort(dim=1, descending=True, stable=True)[:, :longest]
    rank = torch.arange(longest, device=mask.device)
    order = torch.where(rank < counts, order, order[:, :1])
    return order + positions * torch.arange(batch, device=mask.device)[:, None]


def _max_over_positions(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maxima of [b, P, V] over P, and their positions, [b, V] each."""
    if logits.device.type != "cpu":
        best = logits.max(dim=1)
        return best.values, best.indices
    # On a CPU the pooling of channels-last pictures is vectorised over V; `max` is not, and ten times slower.
    picture = logits.transpose(1, 2).unsqueeze(2)  # [b, V, 1, P]
    values, indices = F.max_pool2d(picture, (1, logits.shape[1]), return_indices=True)
    return values.flatten(1), indices.flatten(1)


def _gradient_by_pair(
    grad: Tensor, pairs: Tensor, winners: Tensor, states: Tensor, decoder: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of states [B, P, D] and decoder [V, D] from the entries `pairs` of grad [B, V]."""
    value, word = grad.flatten()[pairs].to(decoder.dtype), pairs % len(decoder)
    row = pairs // len(decoder)
    place = row * states.shape[1] + winners.flatten()[pairs]  # in [B * P]
    table = states.flatten(0, 1).to(decoder.dtype)
    grad_states = _weighted_sums(decoder, word, value, place, len(table)).view_as(states)
    return grad_states, _weighted_sums(table, place, value, word, len(decoder))


def _weighted_sums(table: Tensor, rows: Tensor, factors: Tensor, into: Tensor, size: int) -> Tensor:
    """Return [size, D]; row i is the sum of factors[n] * table[rows[n]] over all n with into[n] = i."""
    into, order = into.sort()
    starts = torch.searchsorted(into, torch.arange(size, device=into.device))
    sums: Tensor = F.embedding_bag(rows[order], table, starts, mode="sum", per_sample_weights=factors[order])
    return sums


def _gradient_by_position(
    grad: Tensor, winners: Tensor, states: Tensor, decoder: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what `_gradient_by_pair` does of all entries, by dense products of some positions at a time."""
    grad, weights = grad.to(states.dtype), decoder.to(states.dtype)
    grad_states, grad_decoder = torch.empty_like(states, dtype=decoder.dtype), torch.zeros_like(decoder)
    positions = torch.arange(states.shape[1], dtype=winners.dtype, device=winners.device)
    for part in _row_chunks(len(positions), grad.numel()):
        won = winners[:, None] == positions[part, None]
        grad_logits = torch.where(won, grad[:, None], 0)  # [B, p, V]
        grad_states[:, part] = (grad_logits @ weights).to(decoder.dtype)
        grad_decoder += grad_logits.flatten(0, 1).t() @ states[:, part].flatten(0, 1)
    return grad_states, grad_decoder


def _row_chunks(batch: int, logits_per_row: int) -> list[slice]:
    rows = max(1, MAX_LOGITS // logits_per_row)
    return [slice(start, start + rows) for start in range(0, batch, rows)]


def masked_cross_entropy(hidden: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of masked words (L_self, L_i2t, L_t2t of Section 3.2), summed over positions.

    `hidden`, [M, D], is `LexiconHead.hidden` of the M positions to predict, maybe none; `labels`, int64 [M],
    are the words' columns in [0, V). The [M, V] logits are never held as a whole: a few rows at a time add to
    the loss and at once to its gradient, so nothing is computed twice. Under autocast the products have its
    lower precision.
    """
    dtype = _product_dtype(decoder)
    with_gradient = torch.is_grad_enabled()
    loss: Tensor = _MaskedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, decoder, bias, labels, dtype, with_gradient
    )
    return loss


class _MaskedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        decoder: Tensor,
        bias: Tensor,
        labels: Tensor,
        dtype: torch.dtype,
        with_gradient: bool,
    ) -> Tensor:
        wide = torch.promote_types(dtype, torch.float32)
        inputs = (hidden, decoder, bias)
        grads = [
            torch.zeros_like(tensor, dtype=wide) if with_gradient and needed else None
            for tensor, needed in zip(inputs, ctx.needs_input_grad, strict=False)
        ]
        grad_hidden, grad_decoder, grad_bias = grads
        loss = hidden.new_zeros((), dtype=wide)
        with torch.autocast(hidden.device.type, enabled=False):
            weights = decoder.to(dtype)
            for rows in _row_chunks(len(hidden), len(decoder)):
                states, columns = hidden[rows].to(dtype), labels[rows, None]
                logits = (states @ weights.t()).to(wide).add_(bias)  # [m, V]
                norms = logits.logsumexp(dim=1, keepdim=True)
                loss += (norms - logits.gather(1, columns)).sum()
                if not any(grad is not None for grad in grads):
                    continue
                errors = logits.sub_(norms).exp_()  # softmax - one-hot
                errors.scatter_add_(1, columns, -torch.ones_like(norms))
                if grad_bias is not None:
                    grad_bias += errors.sum(dim=0)
                errors = errors.to(dtype)
                if grad_hidden is not None:
                    grad_hidden[rows] = (errors @ weights).to(wide)
                if grad_decoder is not None:
                    grad_decoder += errors.t() @ states
        ctx.save_for_backward(*grads)
        ctx.dtypes = [tensor.dtype for tensor in inputs]
        return loss

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [
            None if gradient is None else (gradient * grads[0]).to(dtype)
            for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None, None)


def _product_dtype(decoder: Tensor) -> torch.dtype:
    kind = decoder.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else decoder.dtype
