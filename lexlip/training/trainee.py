"""A model and what only its training needs: decoders (phase 1), key encoders and queues (phase 2)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from lexlip.config import ObjectiveConfig
from lexlip.encoders.decoder import WeakDecoder, bottleneck
from lexlip.encoders.lexicon import LexiconHead, masked_cross_entropy
from lexlip.models.dual_encoder import DualEncoder, by_length
from lexlip.models.lexlip import LexLIP
from lexlip.training.batches import Batch
from lexlip.training.masking import NOT_MASKED
from lexlip.training.momentum import KeyQueue, follow
from lexlip.vocabulary import Vocabulary

Tensors = dict[str, Tensor]

PHASE_1_PARTS = "image_decoder", "text_decoder", "own_head"


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

    def raw(self, batch: Batch) -> Tensors:
        """What losses over the whole batch take: {"image": [B, V], "text": [T, V]}, raw outputs."""
        return {
            "image": self.model.raw_image(batch.pixels),
            "text": self.model.raw_text(batch.ids, batch.mask),
        }

    def forward(self, batch: Batch) -> tuple[Tensors, Tensors]:
        """`raw`, and the cross-entropies of phase 1, each summed over the masked positions."""
        raw, sums = self.raw(batch), {}
        if self.config.mlm or self.config.text_to_text:
            sums["mlm"], from_masked = self._masked_texts(batch)
        if self.config.image_to_text:
            from_image = self._bottleneck(raw["image"])[batch.image_of_text]
            sums["image_to_text"] = self._decode(self.image_decoder, from_image, batch)
        if self.config.text_to_text:
            sums["text_to_text"] = self._decode(self.text_decoder, self._bottleneck(from_masked), batch)
        return raw, {name: total for name, total in sums.items() if getattr(self.config, name)}

    def _masked_texts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """L_self (Eq. 7), summed, and the raw outputs of the captions masked for the encoder, [T, V]."""
        total, pooled, order = batch.ids.new_zeros((), dtype=torch.float32), [], []
        for rows, ids, mask in by_length(batch.encoder_ids, batch.mask):
            states = self.model.text_encoder(ids, mask)
            if self.config.mlm:
                total = total + self._cross_entropy(states, batch.encoder_labels[rows, : ids.shape[1]])
            pooled.append(self.model.pool_text(states, ids, mask))
            order.append(rows)
        return total, torch.cat(pooled)[torch.argsort(torch.cat(order))]

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
