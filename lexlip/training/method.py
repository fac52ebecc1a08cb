"""The training method, in the order of the LexLIP paper; the losses over a whole batch are in objectives/.

    Eq.     what                                        where
    1       states of image tokens                      lexlip.encoders.image:ImageEncoder.forward
    4       states of text tokens                       lexlip.encoders.text:TextEncoder.forward
    2, 5    logits over the vocabulary                  lexlip.encoders.lexicon:LexiconHead.forward
    3, 6    sparse vector p                             lexlip.encoders.lexicon:sparse_vector
    7       masked words, L_self                        lexlip.training.method:masked_words
    8-10    bottleneck, a bag of words                  lexlip.training.method:bottleneck
    11-12   decoder with the bottleneck as [CLS]        lexlip.training.method:WeakDecoder.forward
    13      caption from the image, L_i2t               lexlip.training.method:decoded_from_image
    14      caption from the masked caption, L_t2t      lexlip.training.method:decoded_from_text
    15, 16  in-batch contrast                           lexlip.objectives.losses:contrastive
    17      FLOPS, and L_baco                           lexlip.objectives.losses:flops
    18      loss of phase 1                             lexlip.objectives.losses:batch_loss
    19      key encoders that follow                    lexlip.training.momentum:follow
    20-22   contrast with queues of keys                lexlip.objectives.losses:momentum_contrastive
    23      loss of phase 2                             lexlip.objectives.losses:batch_loss
    24      score of a document                         anserini_bridge.searcher:ImpactSearcher.search

Shapes: B photos, T captions, L text tokens, P image tokens, V vocabulary, D width, Q queue length.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.config import ObjectiveConfig
from lexlip.encoders.chunked_logits import masked_cross_entropy
from lexlip.encoders.image import ImageEncoder
from lexlip.encoders.lexicon import LexiconHead, WordPieces
from lexlip.models.dual_encoder import DualEncoder, by_length
from lexlip.models.lexlip import LexLIP
from lexlip.objectives.losses import Keys
from lexlip.objectives.masked_regions import class_divergence, regression
from lexlip.training.batches import NOT_MASKED, Batch, PhotoBatch, Tokens
from lexlip.training.hard_negatives import mix_tokens
from lexlip.training.momentum import KeyQueue, follow
from lexlip.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    from lexlip.training.teacher import Teacher

Tensors = dict[str, Tensor]

OPTIONAL_PARTS = "image_decoder", "text_decoder", "own_head", "patch_head", "patch_query"
"""Modules of a `Method` that only some objectives have."""


class Method(nn.Module):
    """The model that is trained, and what only its training needs.

    The key encoders start as a copy of `model`. Masked positions are predicted among the words of
    `vocabulary`; queues hold `key_dtype`, and are multiplied in it; `objective.distillation` follows
    `teacher`.

    A model without a lexicon head has `own_head`, a masked-language-model head. Phase 1 (Section 3.2) has
    `image_decoder` and `text_decoder`; phase 2 (Section 3.3) `keys`, `image_queue` and `text_queue`;
    LightningDOT's SMRM `patch_query` and `patch_head`.
    """

    def __init__(
        self,
        model: DualEncoder,
        vocabulary: Vocabulary,
        objective: ObjectiveConfig,
        key_dtype: torch.dtype = torch.bfloat16,
        teacher: Teacher | None = None,
    ) -> None:
        super().__init__()
        self.teacher = teacher
        self.model, self.objective, self.whole_objective = model, objective, objective
        self.pieces = WordPieces(vocabulary)
        width = model.text_encoder.width
        if objective.masks and not model.can.words:
            self.own_head = LexiconHead(width, self.pieces(model.text_encoder.word_embeddings))
        if objective.decodes:
            like = model.text_encoder.body.config
            shape = width, like.num_attention_heads, getattr(like, "hidden_dropout_prob", 0.1)
            self.image_decoder = WeakDecoder(*shape)
            self.text_decoder = self.image_decoder if objective.share_decoder else WeakDecoder(*shape)
        if objective.smrm:
            states = model.image_encoder.width
            if objective.fused:
                self.patch_query = nn.Identity() if width == states else nn.Linear(width, states)
            encoder = model.image_encoder
            targets = encoder.chances_width if objective.smrm_loss == "kl" else encoder.patch_width
            layers = nn.Linear(states, states), nn.GELU(), nn.LayerNorm(states), nn.Linear(states, targets)
            self.patch_head = nn.Sequential(*layers)
        if objective.queue:
            self.keys = copy.deepcopy(model).requires_grad_(False)
            held = objective.queue, model.dimensions, key_dtype, model.metric
            self.image_queue, self.text_queue = KeyQueue(*held), KeyQueue(*held)

    def train(self, mode: bool = True) -> Method:
        super().train(mode)
        if self.objective.queue:
            self.keys.eval()  # keys without dropout's noise
        return self

    def take_turn(self, step: int) -> None:
        """Train what is this step's turn, if losses alternate."""
        turns = self.whole_objective.turns
        self.objective = turns[step % len(turns)]

    def begin_at(self, block: str | None) -> None:
        """Take what the image body's frozen part made of photos; see `ImageEncoder.frozen_until`."""
        for model in (self.model, self.keys) if hasattr(self, "keys") else (self.model,):
            model.image_encoder.frozen_until = block

    # ---- vectors (Section 3.1) ----

    def image_tokens(self, photos: PhotoBatch) -> Tensor:
        """Return the timm model's tokens [B, P, C] of photos."""
        if photos.begun is not None:
            return self.model.image_encoder.finish(photos.begun.float())
        assert photos.pixels is not None
        return self.model.image_encoder.tokens(photos.pixels)

    def raw(self, batch: Batch) -> Tensors:
        """Return what the losses over the whole batch take: {"image": [B, V], "text": [T, V]}.

        Also "composed_image" and "composed_text", and the dense vectors "joint_image" and "joint_text", if
        the objective asks for them. Empty for a model without vectors, and in a turn that trains pairs only.
        """
        return self._raw(batch, image_states(self.model, batch.photos))

    def _raw(self, batch: Batch, states: Tensor) -> Tensors:
        if not self.model.can.vectors or self.objective.only_matches:
            return {}
        captions = batch.captions.ids, batch.captions.mask
        if self.objective.joint:
            model = self.model
            assert isinstance(model, LexLIP)
            dense = {"joint_image": model.joint_image(states), "joint_text": model.joint_text(*captions)}
            heads: Any = (model.image_head, model.text_head)
            image, text = (head.logits(joint) for head, joint in zip(heads, dense.values(), strict=True))
            raw = {"image": image, "text": text, **dense}
        else:
            raw = {"image": self.model.pool_image(states), "text": self.model.raw_text(*captions)}
        if batch.composed is not None:
            mixed = mix_tokens(states, self.model.image_encoder.prefix_tokens)
            raw["composed_image"] = self.model.pool_image(mixed)
            raw["composed_text"] = self.model.raw_text(batch.composed.ids, batch.composed.mask)
        return raw

    def forward(self, batch: Batch) -> tuple[Tensors, Tensors]:
        """Return `raw`, and the losses of single captions, each a sum (see CAPTION_LOSSES)."""
        states = image_states(self.model, batch.photos)
        part = Part(self, batch, states, self._raw(batch, states))
        sums = {loss.name: loss.total(part) for loss in CAPTION_LOSSES if getattr(self.objective, loss.name)}
        return part.raw, sums

    # ---- masked words and decoders (Section 3.2) ----

    @property
    def text_head(self) -> LexiconHead:
        """The masked-language-model head of captions: LexLIP's, which the decoders share, or `own_head`."""
        return self.model.text_head if self.model.can.words else self.own_head

    def cross_entropy(self, states: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy of masked words, summed, of states [T, L, D] and labels int64 [T, L]."""
        labels = labels.flatten()
        rows = (labels != NOT_MASKED).nonzero().squeeze(1)  # the only wait for a GPU
        head, scale = self.text_head, self.objective.softmax_scale
        hidden = scale * head.hidden(states.flatten(0, 1).index_select(0, rows))
        return masked_cross_entropy(hidden, head.decoder, scale * head.bias, labels.index_select(0, rows))

    def first_slot(self, raw: Tensor) -> Tensor:
        """Return what replaces [CLS] in a decoder, [T, D]: the bottleneck, or a dense model's vector."""
        if not self.model.can.words:
            return raw
        embeddings = self.pieces(self.model.text_encoder.word_embeddings)
        return bottleneck(self.objective.softmax_scale * raw, embeddings)

    # ---- key encoders and queues (Section 3.3) ----

    @torch.no_grad()
    def key_vectors(self, batch: Batch) -> Tensors:
        """Return the key encoders' vectors: {"image": [B, V], "text": [T, V]}."""
        photos = self.keys.pool_image(image_states(self.keys, batch.photos))
        texts = self.keys.raw_text(batch.captions.ids, batch.captions.mask)
        return {"image": self.keys.vectors(photos), "text": self.keys.vectors(texts)}

    def with_queues(self, keys: Tensors) -> Keys:
        """Return a step's keys beside those that the queues hold."""
        return Keys(keys["image"], keys["text"], self.image_queue.contents(), self.text_queue.contents())

    def follow(self) -> None:
        follow(self.keys, self.model, self.objective.momentum)

    def left_behind(self) -> Tensors:
        """Return the weights and queues that a checkpoint holds beside the model."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("model.")}


def image_states(model: DualEncoder, photos: PhotoBatch) -> Tensor:
    """Return the image encoder's states [B, P, D_image] of photos, however they are given."""
    encoder = model.image_encoder
    if photos.begun is not None:
        return encoder.deepen(encoder.finish(photos.begun.float()))
    states: Tensor = model.image_encoder(photos.pixels)
    return states


# ---- losses of single captions ----


class MaskedStates(NamedTuple):
    """Some captions as masked for the text encoder."""

    rows: Tensor  # int64 [t], in the batch
    states: Tensor  # [t, l, D]
    labels: Tensor  # int64 [t, l]
    raw: Tensor  # raw output [t, V]


@dataclass(frozen=True)
class Part:
    """Some of the batch, encoded: what a loss of single captions sees."""

    method: Method
    batch: Batch
    states: Tensor  # of the image encoder, [B, P, D_image]
    raw: Tensors  # see `Method.raw`

    @cached_property
    def masked(self) -> list[MaskedStates]:
        """The captions as masked for the text encoder, in groups of similar length; encoded once."""
        model, masked = self.method.model, self.batch.masked
        assert masked is not None
        groups = []
        for rows, ids, mask in by_length(masked.encoder_ids, self.batch.captions.mask):
            states, labels = model.text_encoder(ids, mask), masked.encoder_labels[rows, : ids.shape[1]]
            groups.append(MaskedStates(rows, states, labels, model.pool_text(states, ids, mask)))
        return groups

    def decode(self, decoder: WeakDecoder, first: Tensor) -> Tensor:
        """Return the cross-entropy, summed, of masked captions given what replaces [CLS], [T, D]."""
        method, masked = self.method, self.batch.masked
        assert masked is not None
        total = first.new_zeros((), dtype=torch.float32)
        for rows, ids, mask in by_length(masked.decoder_ids, self.batch.captions.mask):
            states = decoder(method.model.text_encoder.embed(ids, first[rows]), mask)
            total = total + method.cross_entropy(states, masked.decoder_labels[rows, : ids.shape[1]])
        return total


def masked_words(part: Part, added: Tensor | None = None) -> Tensor:
    """L_self: masked words from the masked caption (Eq. 7), summed; `added` [T, D] is added to all states."""
    terms = [
        part.method.cross_entropy(
            group.states if added is None else group.states + added[group.rows, None], group.labels
        )
        for group in part.masked
    ]
    return torch.stack(terms).sum()


def masked_words_with_image(part: Part) -> Tensor:
    """LightningDOT's VMLM: masked words from their states plus the photo's vector, summed."""
    fused = part.method.objective.fused
    return masked_words(part, part.raw["image"][part.batch.owners] if fused else None)


def decoded_from_image(part: Part) -> Tensor:
    """L_i2t: the masked caption from its photo's bottleneck (Eq. 13), summed."""
    first = part.method.first_slot(part.raw["image"])[part.batch.owners]
    return part.decode(part.method.image_decoder, first)


def decoded_from_text(part: Part) -> Tensor:
    """L_t2t: the masked caption from the bottleneck of the less masked caption (Eq. 14), summed."""
    raw = torch.cat([group.raw for group in part.masked])
    order = torch.argsort(torch.cat([group.rows for group in part.masked]))
    return part.decode(part.method.text_decoder, part.method.first_slot(raw[order]))


def masked_patches(part: Part) -> Tensor:
    """LightningDOT's SMRM: masked patches or regions from states plus the caption's vector, z_0.

    For each caption the mean over its photo's masked tokens m of a distance of f(h_m + z_0), see
    `lexlip.objectives.masked_regions`; summed over captions.
    """
    method, photos, owners = part.method, part.batch.photos, part.batch.owners
    encoder, share = method.model.image_encoder, method.objective.mask_patches
    if isinstance(encoder, ImageEncoder) and encoder.layers is None:
        assert photos.pixels is not None
        states, blank, targets = encoder.masked_pixels(photos.pixels, share)
    else:
        states, blank, targets = encoder.masked_tokens(method.image_tokens(photos), share)
    distance: Callable[[Tensor, Tensor], Tensor] = regression
    if method.objective.smrm_loss == "kl":
        distance = class_divergence
        with torch.no_grad():
            targets = encoder.chances(method.image_tokens(photos))[blank]
    photo_of = blank.nonzero()[:, 0]
    captions, tokens = (owners[:, None] == photo_of).nonzero(as_tuple=True)
    hidden = states[blank][tokens]
    if method.objective.fused:
        hidden = hidden + method.patch_query(part.raw["text"])[captions]
    distances = distance(method.patch_head(hidden).float(), targets[tokens])
    return (distances / blank.sum(dim=1)[photo_of[tokens]]).sum()


def matched_pairs(part: Part) -> Tensor:
    """L_match: whether a caption is its photo's, for it and for another caption of the photo, summed."""
    model, batch = part.method.model, part.batch
    embedded = model.embed_image(part.states)

    def odds(captions: Tokens) -> Tensor:
        groups = by_length(captions.ids, captions.mask)
        return torch.cat(
            [model.pair_logits(embedded[batch.owners[rows]], ids, mask) for rows, ids, mask in groups]
        )

    assert batch.others is not None  # the binary cross-entropy of pairs, and of non-pairs
    return F.softplus(-odds(batch.captions)).sum() + F.softplus(odds(batch.others)).sum()


@dataclass(frozen=True)
class CaptionLoss:
    """A loss that is a sum over captions, and so can be computed a part of the batch at a time."""

    name: str  # its weight's key in the config's objective, under which it is logged
    total: Callable[[Part], Tensor]  # computes its sum over a part of the batch
    denominator: str  # the attribute of `lexlip.training.step.Totals` that it is divided by
    factor: int = 1  # of the denominator


CAPTION_LOSSES = (
    CaptionLoss("mlm", masked_words, "encoder_masked"),
    CaptionLoss("vmlm", masked_words_with_image, "encoder_masked"),
    CaptionLoss("image_to_text", decoded_from_image, "decoder_masked"),
    CaptionLoss("text_to_text", decoded_from_text, "decoder_masked"),
    CaptionLoss("smrm", masked_patches, "texts"),
    CaptionLoss("matching", matched_pairs, "texts", factor=2),  # a pair and a non-pair per caption
)


# ---- the parts of the method ----


def bottleneck(logits: Tensor, embeddings: Tensor) -> Tensor:
    """Return the continuous bag of words b = softmax(logits) @ stop_gradient(embeddings), [T, D] (Eq. 8-10).

    Logits are raw and max-pooled over positions, [T, V]; a row of -inf only gives zeros. `embeddings` are the
    text encoder's of words, [V, D].
    """
    empty = torch.isneginf(logits).all(dim=1, keepdim=True)  # the softmax of such a row is not defined
    weights = torch.softmax(logits.float().masked_fill(empty, 0), dim=1).masked_fill(empty, 0)
    return weights.to(embeddings.dtype) @ embeddings.detach()


class WeakDecoder(nn.Module):
    """A few fresh Transformer layers over a heavily masked caption whose [CLS] slot holds the bottleneck.

    They are too weak to guess the caption without it; the paper has two (Section 3.2).
    """

    def __init__(self, width: int, heads: int, dropout: float, layers: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=dropout, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """Return states [T, L, D] of captions whose first slot holds the bottleneck (Eq. 11-12).

        `embedded` is [T, L, D], see `TextEncoder.embed`; `mask`, bool [T, L], is false for padding.
        """
        states: Tensor = self.layers(embedded, src_key_padding_mask=~mask)
        return states
