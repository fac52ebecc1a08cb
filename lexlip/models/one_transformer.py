"""One Transformer, the text encoder's, for captions, for photos, and for pairs of both.

What BE, CE, VLDeformer and Joint share: a photo's tokens are those of the image encoder (patches, where the
papers have an object detector's regions), projected and given positions, in the place of embedded words.
Shapes: B photos or pairs, T captions, L text tokens, P image tokens, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexlip.config import ModelConfig
from lexlip.encoders.image import resample_positions
from lexlip.models.dual_encoder import DualEncoder
from lexlip.vocabulary import Vocabulary

PAIRS = 64  # that run through the Transformer together


class OneTransformer(DualEncoder):
    """Subclasses say whether it compares vectors, pairs, or both; all have the same weights.

    A vector is the mean of the states of all tokens, padding aside, [D]; with `pooling: cls`, for ablations,
    the first token's state. A pair runs through the Transformer
    as one sequence, whose first state ([CLS]) a classifier of two classes takes, after dropout.
    """

    has_words = False
    relatives: ClassVar[tuple[str, ...]] = ("be", "ce", "joint", "vldeformer")

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: Vocabulary | None = None,
        architecture: dict[str, Any] | None = None,
        name: str = "untrained",
    ) -> None:
        super().__init__(config, tokenizer, None, architecture, name)
        self.dimensions = width = self.text_encoder.width
        self.image_projection = nn.Linear(self.image_encoder.width, width)
        self.image_position = nn.Parameter(torch.randn(self.image_encoder.positions, width) * 0.02)
        self.image_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(width, 2)

    def embed_image(self, states: Tensor) -> Tensor:
        """What the Transformer takes of a photo, [B, P, D], of the image encoder's states [B, P, D_image]."""
        position = resample_positions(self.image_position, states.shape[1], self.image_encoder.prefix_tokens)
        embedded: Tensor = self.image_norm(self.image_projection(states) + position)
        return embedded

    def pool_image(self, states: Tensor) -> Tensor:
        embedded = self.embed_image(states)
        whole = torch.ones(embedded.shape[:2], dtype=torch.bool, device=embedded.device)
        states = self.text_encoder.layers(embedded, whole)
        return (states[:, 0] if self.config.pooling == "cls" else states.mean(dim=1)).float()

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        if self.config.pooling == "cls":
            return states[:, 0].float()
        counted = mask.unsqueeze(2).to(states.dtype)  # [T, L, 1]
        return ((states * counted).sum(dim=1) / counted.sum(dim=1)).float()

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        return raw

    def pair_logits(self, embedded: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Log-odds that captions are of photos, float32 [B]: class 1's logit less class 0's.

        Args:
            embedded: [B, P, D], see `embed_image`; a photo for each caption.
            ids: int64 [B, L] token ids, with mask bool [B, L].
        """
        photo = torch.ones(embedded.shape[:2], dtype=torch.bool, device=mask.device)
        both = torch.cat([self.text_encoder.embed(ids).to(embedded.dtype), embedded], dim=1)
        states = self.text_encoder.layers(both, torch.cat([mask, photo], dim=1))
        logits = self.classifier(self.dropout(states[:, 0])).float()
        return logits[:, 1] - logits[:, 0]

    @torch.inference_mode()
    def embed_photos(self, photos: Tensor) -> Tensor:
        """What `score_pairs` takes of photos, float16 [B, P, D]; photos uint8 [B, 3, size, size]."""
        self.eval()
        return self.embed_image(self.image_encoder(photos.to(self.device))).half()

    @torch.inference_mode()
    def score_pairs(
        self, embedded: Tensor, texts: Sequence[str], pairs: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Log-odds that texts are of photos, float32 [N].

        Args:
            embedded: [B, P, D], see `embed_photos`.
            texts: T captions or queries.
            pairs: int64 [N, 2], a row of `texts` and a row of `embedded` each.
        """
        self.eval()
        scores = np.zeros(len(pairs), np.float32)
        if not len(pairs):
            return scores
        ids, mask = (tensor.to(self.device) for tensor in self.text_encoder.tokenize(texts))
        lengths = mask.sum(dim=1).cpu().numpy()
        order = np.argsort(lengths[pairs[:, 0]], kind="stable")
        for start in range(0, len(order), PAIRS):
            rows = order[start : start + PAIRS]
            text, photo = torch.from_numpy(pairs[rows]).to(self.device).unbind(1)
            longest = int(lengths[pairs[rows[-1], 0]])
            tokens = embedded[photo.to(embedded.device)].to(self.device, self.image_position.dtype)
            scores[rows] = self.pair_logits(tokens, ids[text, :longest], mask[text, :longest]).cpu().numpy()
        return scores

    def resize(self, size: int) -> None:
        super().resize(size)
        encoder = self.image_encoder
        position = resample_positions(self.image_position.data, encoder.positions, encoder.prefix_tokens)
        self.image_position = nn.Parameter(position)
