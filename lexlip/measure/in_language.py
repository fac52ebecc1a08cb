"""A model whose captions are in another language, so that what a search finds with them is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_matrix, vstack

from lexlip.models.model_folder import model_folder
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse.rows import row_of
from lexlip.sparse.typed_words import Typed

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder, QueryEncoder


class InLanguage:
    """A model of words that encodes texts as a search does which is told that they are not English.

    All else is that of `model`, which `name` finds. ModelError, MissingPackage: see `TextQueries.others`.
    """

    keywords = None  # are English

    def __init__(self, model: Encoder, name: str) -> None:
        self._model = model
        self._others = TextQueries(model_folder(name)).others

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode_text(
        self, texts: str | Sequence[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, V] of T texts."""
        texts = [texts] if isinstance(texts, str) else texts
        return vstack([row_of(self._others.encode(text)) for text in texts], format="csr")


class NothingTyped:
    """Finds no words of the lexicon in texts, which are not English; see `TypedWords`."""

    def of(self, text: str) -> Typed:
        """Return what a text holds."""
        return Typed([], 0, False)

    def missing(self, text: str) -> list[str]:
        """Return the words that the vocabulary lacks."""
        return []
