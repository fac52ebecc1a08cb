"""Whole-word masking of captions for the text encoder and the decoders (Section 3.2 of the paper).

A share of the words is masked for the encoder; the decoders' larger share includes these. Of the masked
words 80 % become [MASK], 10 % become a random token and 10 % stay (Devlin et al., 2019); this is drawn for
the encoder and the decoders separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lexlip.errors import ModelError
from lexlip.words.vocabulary import CONTINUES, WORD_BEGINS, word_mark

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NOT_MASKED = -100  # the label of a position that is not predicted

BECOME_MASK, BECOME_RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class Masking:
    """What `mask_words` needs to know.

    Attributes:
        encoder, decoder: shares of the words that are masked.
        mask_token: id of [MASK].
        special: bool [tokenizer ids], entries that are neither masked nor drawn.
        continues: bool [tokenizer ids], pieces that continue a word ("##s"); for SentencePiece also
            punctuation.
    """

    encoder: float
    decoder: float
    mask_token: int
    special: np.ndarray
    continues: np.ndarray

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, encoder: float, decoder: float) -> Masking:
        """Return the masking for a tokenizer.

        Args:
            tokenizer: the text encoder's.
            encoder, decoder: shares of the words that are masked.

        Raises:
            ModelError: the tokenizer has no mask token.
        """
        if tokenizer.mask_token_id is None:
            raise ModelError(
                "this tokenizer has no mask token, which objective.mlm, image_to_text and text_to_text need"
            )
        entries = tokenizer.get_vocab()
        size = max(entries.values()) + 1
        special, continues = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        special[tokenizer.all_special_ids] = True
        mark = word_mark(entries)
        for entry, id in entries.items():
            continues[id] = not entry.startswith(mark) if mark in WORD_BEGINS else entry.startswith(CONTINUES)
        return cls(encoder, decoder, tokenizer.mask_token_id, special, continues)


def mask_words(
    ids: np.ndarray, masking: Masking, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mask one caption for the encoder and for the decoders.

    Args:
        ids: token ids int64 [L], with special tokens and padding.
        masking: shares and tokens.
        rng: draws the words and what becomes of them.

    Returns:
        For the encoder the ids, and bool [L], which positions are masked; then the same for the decoders,
        whose masked positions include the encoder's. At least one word is masked if there is any.
    """
    places = np.flatnonzero(~masking.special[ids])
    encoder_ids, decoder_ids = ids.copy(), ids.copy()
    encoder_chosen, decoder_chosen = np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=bool)
    if len(places):
        starts = ~masking.continues[ids[places]]
        starts[0] = True
        word_of = np.cumsum(starts) - 1  # [places]
        rank = rng.permutation(word_of[-1] + 1)  # a word of low rank is masked
        drawn = np.flatnonzero(~masking.special)
        for share, chosen, into in (
            (masking.encoder, encoder_chosen, encoder_ids),
            (masking.decoder, decoder_chosen, decoder_ids),
        ):
            count = max(1, round(share * len(rank))) if share > 0 else 0
            chosen[places] = rank[word_of] < count
            fate = rng.random(len(rank))[word_of]
            becomes_mask = np.zeros(len(ids), dtype=bool)
            becomes_mask[places] = fate < BECOME_MASK
            becomes_random = np.zeros(len(ids), dtype=bool)
            becomes_random[places] = (fate >= BECOME_MASK) & (fate < BECOME_MASK + BECOME_RANDOM)
            into[chosen & becomes_mask] = masking.mask_token
            random_places = np.flatnonzero(chosen & becomes_random)
            into[random_places] = rng.choice(drawn, len(random_places))
    return encoder_ids, encoder_chosen, decoder_ids, decoder_chosen
