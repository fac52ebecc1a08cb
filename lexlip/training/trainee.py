"""A model and what only its training needs: decoders (phase 1), key encoders and queues (phase 2)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.config import LOSSES, ObjectiveConfig
from lexlip.encoders.decoder import WeakDecoder, bottleneck
from lexlip.encoders.lexicon import LexiconHead, masked_cross_entropy
from lexlip.models.dual_encoder import DualEncoder, by_length
from lexlip.models.lexlip import LexLIP
from lexlip.models.one_transformer import OneTransformer
from lexlip.objectives.matching import matching
from lexlip.training.batches import Batch
from lexlip.training.masking import NOT_MASKED
from lexlip.training.momentum import KeyQueue, follow
from lexlip.vocabulary import Vocabulary

Tensors = dict[str, Tensor]

EXTRA_PARTS = "image_decoder", "text_decoder", "own_head", "patch_head", "patch_query"
"""What only some phases of training have."""


class Trainee(nn.Module):
    """The model that is trained, and around it what the config's objectives ask for.

    Args:
        model: starts as it is; the key encoders start as its copy.
        vocabulary: the words that masked positions are to be predicted among.
        config: the objectives.
        key_dtype: what the queues hold, and are multiplied in.
    """

    columns: Tensor

    def __init__(
        self,
        model: DualEncoder,
        vocabulary: Vocabulary,
        config: ObjectiveConfig,
        key_dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__()
        self.model, self.config = model, config
        token_ids = torch.from_numpy(vocabulary.token_ids)
        self.register_buffer("columns", token_ids, persistent=False)  # int64 [V], the words' token ids
        width = model.text_encoder.width
        if config.masks and not isinstance(model, LexLIP):
            self.own_head = LexiconHead(width, model.text_encoder.word_embeddings[token_ids])
        if config.decodes:
            like = model.text_encoder.body.config
            shape = width, like.num_attention_heads, getattr(like, "hidden_dropout_prob", 0.1)
            self.image_decoder = WeakDecoder(*shape)
            self.text_decoder = self.image_decoder if config.share_decoder else WeakDecoder(*shape)
        if config.smrm:
            states = model.image_encoder.width
            self.patch_query = nn.Identity() if width == states else nn.Linear(width, states)
            self.patch_head = nn.Sequential(
                nn.Linear(states, states),
                nn.GELU(),
                nn.LayerNorm(states),
                nn.Linear(states, model.image_encoder.patch_width),
            )
        self.turns: tuple[ObjectiveConfig, ...] = (config,)
        self.pairs_turn: ObjectiveConfig | None = None
        if config.alternate:
            others = replace(config, matching=0)
            off: dict[str, Any] = {name: 0.0 for name in LOSSES if name != "matching"}
            self.pairs_turn = replace(config, **off)
            self.turns = others, self.pairs_turn
        if config.queue:
            self.keys = copy.deepcopy(model).requires_grad_(False)
            self.image_queue = KeyQueue(config.queue, model.dimensions, key_dtype)
            self.text_queue = KeyQueue(config.queue, model.dimensions, key_dtype)

    @property
    def text_head(self) -> LexiconHead:
        """The masked-language-model head of captions: LexLIP's own, shared with the decoders."""
        return self.model.text_head if isinstance(self.model, LexLIP) else self.own_head

    def train(self, mode: bool = True) -> Trainee:
        super().train(mode)
        if self.config.queue:
            self.keys.eval()  # keys without dropout's noise
        return self

    def take_turn(self, step: int) -> None:
        """Train on what is this step's turn, if losses alternate."""
        self.config = self.turns[step % len(self.turns)]

    def raw(self, batch: Batch) -> Tensors:
        """What losses over the whole batch take, raw outputs: {"image": [B, V], "text": [T, V]}, and if asked
        for those of composed negatives, "composed_image" and "composed_text". Nothing without vectors, and in
        the turn of pairs."""
        return self._raw(batch, self.model.image_encoder(batch.pixels))

    def _raw(self, batch: Batch, states: Tensor) -> Tensors:
        if not self.model.has_vectors or self.config is self.pairs_turn:
            return {}
        raw = {"image": self.model.pool_image(states), "text": self.model.raw_text(batch.ids, batch.mask)}
        if self.config.composed_negatives:
            mixed = mix_tokens(states, self.model.image_encoder.prefix_tokens)
            raw["composed_image"] = self.model.pool_image(mixed)
            raw["composed_text"] = self.model.raw_text(batch.composed_ids, batch.composed_mask)
        return raw

    def forward(self, batch: Batch) -> tuple[Tensors, Tensors]:
        """`raw`, and losses of single captions, each summed: phase 1's cross-entropies over the masked
        positions, and those of the stages to compare with."""
        states = self.model.image_encoder(batch.pixels)
        raw, sums = self._raw(batch, states), {}
        if self.config.mlm or self.config.text_to_text or self.config.vmlm:
            images = raw["image"][batch.image_of_text] if self.config.vmlm else None
            sums["mlm"], sums["vmlm"], from_masked = self._masked_texts(batch, images)
        if self.config.image_to_text:
            from_image = self._bottleneck(raw["image"])[batch.image_of_text]
            sums["image_to_text"] = self._decode(self.image_decoder, from_image, batch)
        if self.config.text_to_text:
            sums["text_to_text"] = self._decode(self.text_decoder, self._bottleneck(from_masked), batch)
        if self.config.smrm:
            sums["smrm"] = self._masked_patches(batch, raw["text"])
        if self.config.matching:
            sums["matching"] = self._matching(batch, states)
        return raw, {name: total for name, total in sums.items() if getattr(self.config, name)}

    def _masked_texts(self, batch: Batch, images: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """L_self (Eq. 7), and LightningDOT's VMLM, the same of states to which `images` are added, summed.

        Args:
            batch: the captions.
            images: [T, D], the vectors of their photos; None leaves VMLM out.

        Returns:
            Both, and the raw outputs of the captions masked for the encoder, [T, V].
        """
        zero = batch.ids.new_zeros((), dtype=torch.float32)
        alone, fused, pooled, order = zero, zero, [], []
        for rows, ids, mask in by_length(batch.encoder_ids, batch.mask):
            states, labels = self.model.text_encoder(ids, mask), batch.encoder_labels[rows, : ids.shape[1]]
            if self.config.mlm:
                alone = alone + self._cross_entropy(states, labels)
            if images is not None:
                fused = fused + self._cross_entropy(states + images[rows, None], labels)
            pooled.append(self.model.pool_text(states, ids, mask))
            order.append(rows)
        return alone, fused, torch.cat(pooled)[torch.argsort(torch.cat(order))]

    def _masked_patches(self, batch: Batch, texts: Tensor) -> Tensor:
        """LightningDOT's SMRM: masked patches from their states and the captions' vectors, [T, D]; the mean
        squared error over a photo's masked patches, summed over captions."""
        states, blank, targets = self.model.image_encoder.masked(batch.pixels, self.config.mask_patches)
        number = len(targets) // len(states)
        owners = batch.image_of_text
        hidden = states[blank].view(len(states), number, -1)[owners] + self.patch_query(texts)[:, None]
        errors = self.patch_head(hidden).float() - targets.view(len(states), number, -1)[owners]
        return errors.square().mean(dim=(1, 2)).sum()

    def _matching(self, batch: Batch, states: Tensor) -> Tensor:
        """Cross-entropies of each caption's pair, and of its photo with another caption, summed."""
        assert isinstance(self.model, OneTransformer)
        embedded = self.model.embed_image(states)
        logits = [
            torch.cat(
                [
                    self.model.pair_logits(embedded[batch.image_of_text[rows]], ids, mask)
                    for rows, ids, mask in by_length(*captions)
                ]
            )
            for captions in ((batch.ids, batch.mask), (batch.other_ids, batch.other_mask))
        ]
        return matching(*logits)

    def _bottleneck(self, raw: Tensor) -> Tensor:
        """What takes [CLS]'s place in a decoder, [T, D]: Eq. 8-10; a dense model's vector as it is."""
        if isinstance(self.model, LexLIP):
            return bottleneck(
                self.config.softmax_scale * raw, self.model.text_encoder.word_embeddings[self.columns]
            )
        return raw

    def _decode(self, decoder: WeakDecoder, first: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of the masked captions given their bottlenecks [T, D], summed (Eq. 11-14)."""
        total = batch.ids.new_zeros((), dtype=torch.float32)
        for rows, ids, mask in by_length(batch.decoder_ids, batch.mask):
            states = decoder(self.model.text_encoder.embed(ids, first[rows]), mask)
            total = total + self._cross_entropy(states, batch.decoder_labels[rows, : ids.shape[1]])
        return total

    def _cross_entropy(self, states: Tensor, labels: Tensor) -> Tensor:
        masked = labels != NOT_MASKED
        head, scale = self.text_head, self.config.softmax_scale
        hidden = scale * head.hidden(states[masked])
        return masked_cross_entropy(hidden, head.decoder, scale * head.bias, labels[masked])

    @torch.no_grad()
    def key_vectors(self, batch: Batch) -> Tensors:
        """The key encoders' vectors: {"image": [B, V], "text": [T, V]} (Eq. 20-21)."""
        return {
            "image": self.keys.vectors(self.keys.raw_image(batch.pixels)),
            "text": self.keys.vectors(self.keys.raw_text(batch.ids, batch.mask)),
        }

    def follow(self) -> None:
        """Move the key encoders a step after the model (Eq. 19)."""
        follow(self.keys, self.model, self.config.momentum)

    def left_behind(self) -> Tensors:
        """The weights and queues that are not the model's: what a checkpoint holds besides it."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("model.")}


def mix_tokens(states: Tensor, prefix: int = 0) -> Tensor:
    """Half of the patches of each photo replaced by those of other photos, in the same places.

    VLDeformer's hard negatives of images; drawn by torch's generator. States are [B, P, C], B > 1, the first
    `prefix` of them of no patch.
    """
    photos, tokens = states.shape[:2]
    lots = torch.rand(photos, tokens - prefix, device=states.device)
    replaced = F.pad(lots.argsort(dim=1) < (tokens - prefix) // 2, (prefix, 0))
    other = torch.randint(1, photos, (photos, tokens), device=states.device)
    other = (other + torch.arange(photos, device=states.device)[:, None]) % photos
    taken = states[other, torch.arange(tokens, device=states.device)]
    return torch.where(replaced[:, :, None], taken, states)
