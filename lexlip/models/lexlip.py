"""LexLIP: two encoders, each with a lexicon head, that share one vocabulary (Section 3.1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lexlip.encoders.lexicon import BagOfWords, LexiconHead, PooledHead, WordPieces, sparse_vector
from lexlip.encoders.text import load_mlm_head
from lexlip.errors import ModelError
from lexlip.models.dual_encoder import DualEncoder, in_groups
from lexlip.words.vocabulary import Vocabulary, tokenize_captions


class LexLIP(DualEncoder):
    """Turns photos and captions into sparse vectors over one vocabulary: p >= 0, [V] (Eq. 3, 6).

    The raw output is the logits, max-pooled over positions, before log(1 + relu). Both heads start as copies
    of the text encoder's masked-language-model head if its checkpoint has one (`starts_trained`). With
    `config.joint` the heads take one vector of a photo or a caption instead (see
    `lexlip.training.lexicon_fit`).
    """

    kind = "lexlip"
    vocabulary: Vocabulary

    def make_heads(self, pretrained: str | None) -> None:
        config, encoders = self.config, (self.text_encoder, self.image_encoder)
        self.dimensions = len(self.vocabulary)
        heads: list[Any]
        if config.joint:
            heads = [PooledHead(encoder.width, config.joint, self.dimensions) for encoder in encoders]
            self.starts_trained = False
        else:
            pieces = WordPieces(self.vocabulary)
            embeddings = pieces(self.text_encoder.word_embeddings)
            heads = [LexiconHead(encoder.width, embeddings) for encoder in encoders]
            trained = load_mlm_head(pretrained) if pretrained and config.head == "auto" else None
            copied = [head.copy_mlm_head(trained, pieces) for head in heads]
            self.starts_trained = all(copied)
        self.text_head, self.image_head = heads
        self.bag_of_words = BagOfWords(self.dimensions, config.companions)

    def pool_image(self, states: Tensor) -> Tensor:
        if self.config.joint:
            of_photos: Tensor = self.image_head(self.pooled_image(states))
            return of_photos
        positions = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        if not self.config.special_positions:
            positions[:, : self.image_encoder.prefix_tokens] = False
        logits: Tensor = self.image_head(states, positions)
        return logits

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        if self.config.joint:
            of_texts: Tensor = self.text_head(self.pooled_text(states, mask))
            return of_texts
        positions = mask if self.config.special_positions else mask & ~self.text_encoder.special_tokens(ids)
        logits: Tensor = self.text_head(states, positions)
        return logits

    def joint_image(self, states: Tensor) -> Tensor:
        """Return the dense vectors below a photo's words, [B, D_joint]; only with `config.joint`."""
        head: Any = self.image_head
        vectors: Tensor = head.joint(self.pooled_image(states))
        return vectors

    def joint_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the dense vectors below captions' words, [T, D_joint]; only with `config.joint`."""
        head: Any = self.text_head
        return in_groups(
            lambda ids, mask: head.joint(self.pooled_text(self.text_encoder(ids, mask), mask)), ids, mask
        )

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        return sparse_vector(raw)

    def image_graph(self) -> bytes | None:
        from lexlip.models.image_graph import image_graph

        try:
            return image_graph(self)
        except ModelError:
            return None

    def words_present(self, texts: Sequence[str]) -> Tensor:
        """Return bool [T, V]: which words of the vocabulary each text contains."""
        present = torch.zeros(len(texts), len(self.vocabulary), dtype=torch.bool)
        for row, ids in enumerate(tokenize_captions(self.text_encoder.tokenizer, texts)):
            present[row, self.vocabulary.columns(ids[: self.text_encoder.max_tokens])] = True
        return present

    def _encode_words(self, texts: Sequence[str]) -> Tensor:
        vectors: Tensor = self.bag_of_words(self.words_present(texts).to(self.device))
        return vectors
