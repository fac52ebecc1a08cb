"""One Transformer for captions, for photos, and for pairs of both: BE, CE, Joint and VLDeformer.

A photo's tokens are those of the image encoder (patches, where the papers use regions from an object
detector). They are projected, get positions, and run through the text encoder as embedded words do.
Shapes: B photos or pairs, T captions, L text tokens, P image tokens, D width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lexlip.encoders.positions import resample_positions
from lexlip.machine.device import copied, encoding
from lexlip.models.dual_encoder import DualEncoder, finite, mean_of_tokens

PAIRS = (64, 512)  # pairs that run through the Transformer at a time on a CPU and on a GPU


class OneTransformer(DualEncoder):
    """What the four kinds share; they have the same weights and differ in what they compare.

    A vector [D] is the mean of the states of all tokens except padding, or with `pooling: cls` (for
    ablations) the first token's state. A pair runs through the Transformer as one sequence, whose first
    state ([CLS]) goes through dropout to a classifier of two classes.

    With `framed_photos`, photo tokens are of the second segment, a photo is "[CLS] tokens [SEP]", and a pair
    "[CLS] words [SEP] tokens [SEP]", as in VLDeformer. Without, a photo has its tokens alone.
    """

    def make_heads(self, pretrained: str | None) -> None:
        self.dimensions = width = self.text_encoder.width
        self.image_projection = nn.Linear(self.image_encoder.width, width)
        self.image_position = nn.Parameter(torch.randn(self.image_encoder.positions, width) * 0.02)
        self.image_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(width, 2)

    def embed_image(self, states: Tensor) -> Tensor:
        """Return a photo's input to the Transformer, [B, P, D], from image encoder states [B, P, D_image]."""
        projected = self.image_projection(states)
        if len(self.image_position):
            prefix = self.image_encoder.prefix_tokens
            projected = projected + resample_positions(self.image_position, states.shape[1], prefix)
        if self.config.framed_photos:
            projected = projected + self.text_encoder.segment_embeddings[1]
        embedded: Tensor = self.image_norm(projected)
        if self.config.image.regions is not None:
            embedded = embedded.masked_fill(~self.real_tokens(states)[:, :, None], 0)
        return embedded

    def _special(self, number: int, like: Tensor) -> Tensor:
        """Return [CLS] or [SEP] (number 0 or 1) as a token of each photo embedded in `like`, [B, 1, D]."""
        tokenizer = self.text_encoder.tokenizer
        ids = torch.tensor([[tokenizer.cls_token_id, tokenizer.sep_token_id]], device=like.device)
        both = self.text_encoder.embed(ids, segment=1).to(like.dtype)
        return both[:, number : number + 1].expand(len(like), -1, -1)

    def pool_image(self, states: Tensor) -> Tensor:
        embedded = self.embed_image(states)
        if self.config.framed_photos:
            embedded = torch.cat([self._special(0, embedded), embedded, self._special(1, embedded)], dim=1)
        states = self.text_encoder.layers(embedded, self.real_tokens(embedded))
        pooled = states[:, 0] if self.config.pooling == "cls" else self.mean_of_photo(states, embedded)
        return pooled.float()

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        return (states[:, 0] if self.config.pooling == "cls" else mean_of_tokens(states, mask)).float()

    def pair_logits(self, embedded: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        if self.config.framed_photos:
            embedded = torch.cat([embedded, self._special(1, embedded)], dim=1)
        photo = self.real_tokens(embedded)
        both = torch.cat([self.text_encoder.embed(ids).to(embedded.dtype), embedded], dim=1)
        states = self.text_encoder.layers(both, torch.cat([mask, photo], dim=1))
        logits = self.classifier(self.dropout(states[:, 0])).float()
        return logits[:, 1] - logits[:, 0]

    @torch.inference_mode()
    def embed_photos(self, photos: Tensor) -> Tensor:
        """Return what `score_pairs` takes, float16 [B, P, D], of photos uint8 [B, 3, size, size]."""
        self.eval()
        with encoding(self.device):
            return self.embed_image(self.image_encoder(copied(photos, self.device))).half()

    @torch.inference_mode()
    def score_pairs(
        self, embedded: Tensor, texts: Sequence[str], pairs: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return log-odds, float32 [N], of pairs int64 [N, 2]: rows of `texts` and of `embed_photos`.

        ModelError: they are no numbers, see `finite`.
        """
        self.eval()
        scores = np.zeros(len(pairs), np.float32)
        if not len(pairs):
            return scores
        ids, mask = (tensor.to(self.device) for tensor in self.text_encoder.tokenize(texts))
        lengths = mask.sum(dim=1).cpu().numpy()
        order = np.argsort(lengths[pairs[:, 0]], kind="stable")
        together = PAIRS[self.device.type == "cuda"]
        for start in range(0, len(order), together):
            rows = order[start : start + together]
            text, photo = torch.from_numpy(pairs[rows]).to(self.device).unbind(1)
            longest = int(lengths[pairs[rows[-1], 0]])
            tokens = embedded[photo.to(embedded.device)].to(self.device, self.image_position.dtype)
            with encoding(self.device):
                logits = self.pair_logits(tokens, ids[text, :longest], mask[text, :longest])
            scores[rows] = finite(logits.cpu().numpy())
        return scores

    def resize(self, size: int) -> None:
        super().resize(size)
        encoder = self.image_encoder
        position = resample_positions(self.image_position.data, encoder.positions, encoder.prefix_tokens)
        self.image_position = nn.Parameter(position)


class BE(OneTransformer):
    """The bi-encoder of "Retrieve Fast, Rerank Smart" (Geigle et al., TACL 2022).

    A twin: the Transformer runs on the caption and on the photo separately; vectors are compared by their
    cosine.
    """

    kind = "be"


class CE(OneTransformer):
    """The cross-encoder of "Retrieve Fast, Rerank Smart".

    The Transformer runs on a caption and a photo together. It has no vectors to index, and reranks what a
    first stage has found.
    """

    kind = "ce"


class Joint(OneTransformer):
    """Joint+Coop of "Retrieve Fast, Rerank Smart": BE and CE in one set of weights."""

    kind = "joint"


class VLDeformer(OneTransformer):
    """VLDeformer (Zhang et al., Knowledge-Based Systems 2022): a cross-encoder decomposed into a twin.

    It starts from a trained CE (`init`). The tanh of the mean states are compared by their cosine.
    """

    kind = "vldeformer"

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        return torch.tanh(raw)
