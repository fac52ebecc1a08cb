"""The words of a picture or of texts with their weights, and which of them people said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from PIL import Image
from scipy.sparse import csr_matrix

from lexlip.errors import DataError
from lexlip.models.word_table import merged
from lexlip.queries.photo_encoder import PhotoEncoder
from lexlip.sparse.word_chances import LikelyWords, as_shown
from lexlip.words.vocabulary import Vocabulary, caption_words, is_held

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.query_language import Query
    from lexlip.queries.text_queries import TextQueries


@dataclass(frozen=True)
class WeightedWords:
    """Words with their weights p > 0 (Eq. 3, 6).

    Attributes:
        weights: by word; the heaviest first, or of a picture as `lexlip.sparse.word_chances` orders them.
        held: those of the words that the captions, or the text itself, contain.
    """

    weights: dict[str, float]
    held: list[str]

    def first(self, number: int) -> WeightedWords:
        """Return the first words alone."""
        weights = dict(list(self.weights.items())[:number])
        return WeightedWords(weights, [word for word in self.held if word in weights])

    def shown(self, translations: Mapping[str, str]) -> WeightedWords:
        """Return the words as they are shown; see `lexlip.models.word_table.merged`."""
        held = dict.fromkeys(translations.get(word, word) for word in self.held)
        return WeightedWords(merged(self.weights, translations), list(held))


def words_of_picture(
    model: LexLIP | PhotoEncoder, picture: Image.Image, captions: str | Sequence[str] = ()
) -> WeightedWords:
    """Return the words that a model sees in a picture; held are those that its captions contain."""
    return _weighted(model.encode_image([picture]), model.vocabulary, _said(model, captions), model.likely)


def words_of_captions(model: LexLIP | PhotoEncoder, captions: str | Sequence[str]) -> WeightedWords:
    """Return the words of captions, the mean of their vectors; held are those that they contain."""
    mean = csr_matrix(model.encode_text(captions).mean(axis=0))
    return _weighted(mean, model.vocabulary, _said(model, captions))


def words_of_query(queries: TextQueries, query: Query) -> WeightedWords:
    """Return the words of a query, as it is searched with; held are those that it contains."""
    return _weighted(queries.encode_query(query), queries.vocabulary, set(queries.held(query)))


def columns_of(vocabulary: Vocabulary, words: Iterable[str]) -> list[int]:
    """Return the column of each word; DataError: the vocabulary lacks one."""
    known = {word: column for column, word in enumerate(vocabulary.words)}
    for word in words:
        if word not in known:
            near = get_close_matches(word, known, n=3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise DataError(f"the vocabulary has no word '{word}'{hint}")
    return [known[word] for word in words]


def _said(model: LexLIP | PhotoEncoder, captions: str | Sequence[str]) -> set[int]:
    captions = [captions] if isinstance(captions, str) else captions
    if isinstance(model, PhotoEncoder):
        tokens = (model.tokenizer.words(caption).tolist() for caption in captions)
        return {column for ids in tokens for column in model.vocabulary.columns(ids)}
    return set().union(*caption_words(model.vocabulary, model.tokenizer, captions))


def _weighted(
    row: csr_matrix, vocabulary: Vocabulary, said: Collection[int], likely: LikelyWords | None = None
) -> WeightedWords:
    shown = as_shown(row, likely)
    weights = {vocabulary.words[column]: weight for column, weight in shown}
    held = [vocabulary.words[column] for column, _ in shown if is_held(column, vocabulary, said)]
    return WeightedWords(weights, held)
