"""A model whose captions are in another language, so that what a search finds with them is measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_matrix, vstack

from lexlip.models.model_folder import model_folder
from lexlip.queries.query_language import Query
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse.typed_words import Typed
from lexlip.words.plain_text import given_texts

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder, QueryEncoder


class InLanguage:
    """A model of words that encodes texts as a search does which is told their language, a code.

    All else is that of `model`, which `name` finds. ModelError, MissingPackage: see `TextQueries.others`.
    """

    keywords = None  # the texts are encoded with them

    def __init__(self, model: Encoder, name: str, language: str) -> None:
        self._model = model
        self._language = language
        self._queries = TextQueries(model_folder(name))
        _ = self._queries.others  # raises what is missing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode_text(
        self, texts: str | Iterable[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, V] of T texts."""
        queries = [Query(text, text, language=self._language) for text in given_texts(texts)]
        return vstack([self._queries.encode_query(query) for query in queries], format="csr")


class NothingTyped:
    """Finds no words of the lexicon in texts, which are not English; see `TypedWords`."""

    def of(self, text: str) -> Typed:
        """Return what a text holds."""
        return Typed([], 0, False)

    def missing(self, text: str) -> list[str]:
        """Return the words that the vocabulary lacks."""
        return []
