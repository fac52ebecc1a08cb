"""Phase 1's bottleneck and weakened decoder (Eq. 8-14): a caption rebuilt from an image's or a text's words.

Shapes: T captions, L tokens, V vocabulary, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def bottleneck(logits: Tensor, embeddings: Tensor) -> Tensor:
    """The continuous bag of words b = softmax(logits) @ stop_gradient(embeddings), [T, D] (Eq. 8-10).

    Args:
        logits: [T, V], raw and max-pooled over positions; a row of -inf only gives zeros.
        embeddings: [V, D] word embeddings of the text encoder.
    """
    empty = torch.isneginf(logits).all(dim=1, keepdim=True)  # the softmax of such a row is not defined
    weights = torch.softmax(logits.float().masked_fill(empty, 0), dim=1).masked_fill(empty, 0)
    return weights.to(embeddings.dtype) @ embeddings.detach()


class WeakDecoder(nn.Module):
    """A few fresh Transformer layers over a heavily masked caption whose [CLS] slot holds the bottleneck.

    They are too weak to guess the caption without it (Eq. 11-13).

    Args:
        width: D of the text encoder.
        heads: attention heads.
        dropout: share of activations dropped.
        layers: the paper has two.
    """

    def __init__(self, width: int, heads: int, dropout: float, layers: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=dropout, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """States [T, L, D] of embedded captions [T, L, D] (see `TextEncoder.embed`) with mask bool [T, L]."""
        states: Tensor = self.layers(embedded, src_key_padding_mask=~mask)
        return states
