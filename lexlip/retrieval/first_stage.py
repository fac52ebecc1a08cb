"""A first stage finds photos in an index of any kind: words in Lucene, vectors in Faiss, captions in BM25."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from scipy.sparse import csr_matrix

from anserini_bridge import IndexHeader
from lexlip.errors import ModelError
from lexlip.queries.query_language import Query, QueryError
from lexlip.retrieval.answer import NO_ENDS, Ends
from lexlip.retrieval.engine import Results, Scores
from lexlip.retrieval.photo_table import OldPhotoTable, PhotoTable, open_photos

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder


class Moved(Exception):
    """A writer has changed the index between two looks at it: refresh, and look again."""


class FirstStage(Protocol):
    """An open index with what encodes queries for it."""

    @property
    def index(self) -> Path:
        """The index's folder."""
        ...

    @property
    def metadata(self) -> IndexHeader:
        """What the index says about itself; `metadata.kind` is a key of `lexlip.registry.INDEXES`."""
        ...

    def tables(self) -> list[PhotoTable]:
        """Open the table of the index's photos, or those of both indexes that are fused.

        Raises:
            Moved: a writer has changed the index since the stage saw it.
        """
        ...

    @property
    def state(self) -> str:
        """A name of the state that is searched; another state of this index has another one."""
        ...

    @property
    def encoder(self) -> Encoder:
        """The model that made the index, which encodes pictures.

        Raises:
            ModelError: no model did, or it cannot be loaded.
        """
        ...

    def read(self, query: Query) -> Query:
        """Return a query as this index understands its negations: as words to leave out, or as text."""
        ...

    def encode(self, query: str | Query) -> Any:
        """Return a query as `search` takes it; `encoder.encode_image` returns a picture so.

        A string is a sentence as it stands.

        Raises:
            QueryError: the query has marks, and the index does not know words.
        """
        ...

    def unknown(self, query: str | Query) -> list[str]:
        """Return the words of a query that the index cannot know."""
        ...

    def near(self, word: str, number: int) -> list[str]:
        """Return words that photos have and that are spelled most like one that the index cannot know."""
        ...

    def unread(self, query: str | Query) -> str:
        """Return the end of a sentence that is too long for the model to read; "" if it reads all."""
        ...

    def search(self, queries: Sequence[Any], k: int, allowed: Any = None) -> Results:
        """Return the ids and scores of the k best photos for each query.

        Args:
            queries: as `encode` returns them.
            k: photos of each query.
            allowed: those that may be found, as `allow` returns them; None: all.
        """
        ...

    def terms(self, query: Any) -> dict[str, float]:
        """Return the words of an encoded query with their weights, heaviest first, if the index has words."""
        ...

    def matches(self, query: Any, ids: Sequence[str]) -> list[dict[str, float]]:
        """Return for each photo what each shared word added to its score, heaviest first."""
        ...

    def weights(self, id: str) -> dict[str, float]:
        """Return the words of a photo with their weights, heaviest first, if the index has words.

        Raises:
            UnknownId: the index does not hold the photo.
        """
        ...

    def suggestions(
        self, query: Any, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        """Return words that an encoded query lacks, and that tell the photos that it found from others."""
        ...

    @property
    def seen(self) -> int:
        """The number of hits whose scores `ends` looks at."""
        ...

    def ends(
        self, query: Query, encoded: Any, ids: Sequence[str], scores: Scores, allowed: Any = None
    ) -> Ends:
        """Return where hits stop to fit a sentence well, and to have to do with it, if it is known.

        Args:
            query: the sentence.
            encoded: the same, as `encode` returns it.
            ids, scores: the best hits, `seen` or more unless there are fewer.
            allowed: among which photos they were found; see `search`.
        """
        ...

    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = ()) -> Any:
        """Return a set of photos for `search`.

        Args:
            ids: those that may be found; None: all.
            without: words that they must not hold.
        """
        ...

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        """Return the photos that hold at least one of some words."""
        ...

    def like(self, id: str) -> Any:
        """Return what the index stores of a photo, as a query.

        Raises:
            UnknownId: the index does not hold the photo.
            ModelError: nothing that is stored can search.
        """
        ...

    def of_vector(self, vector: csr_matrix) -> Any:
        """Return a vector of the index's model, [1, V], as `search` takes it."""
        ...

    def hold(self) -> AbstractContextManager[FirstStage]:
        """Give this stage as it is now, for one answer: a refresh meanwhile changes nothing in it.

        Raises:
            Moved: its parts are of two states of an index.
        """
        ...

    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one."""
        ...

    def close(self) -> None:
        """Close the index."""
        ...


def table_of(index: Path, metadata: IndexHeader) -> PhotoTable:
    """Open the table that an index has, or had when it said so about itself.

    Raises:
        Moved: a writer has changed the index since then.
    """
    table = open_photos(index, metadata)
    file = index / metadata.directory / metadata.extra.get("photos", "")
    if not isinstance(table, OldPhotoTable) and table.file != file:
        table.close()
        raise Moved(f"{index} was updated between a look at it and one at its table")
    return table


class WithoutWords:
    """What stages have in common whose index does not know the words of photos; see `FirstStage`."""

    index: Path
    metadata: IndexHeader

    @property
    def state(self) -> str:
        return f"{self.metadata.created} {self.metadata.directory}"

    def tables(self) -> list[PhotoTable]:
        return [table_of(self.index, self.metadata)]

    def read(self, query: Query) -> Query:
        return replace(query.with_negations({}), sentence=query.text) if query.negations else query

    def unknown(self, query: str | Query) -> list[str]:
        return []

    def near(self, word: str, number: int) -> list[str]:
        return []

    def unread(self, query: str | Query) -> str:
        return ""

    def terms(self, query: Any) -> dict[str, float]:
        return {}

    def matches(self, query: Any, ids: Sequence[str]) -> list[dict[str, float]]:
        return [{} for _ in ids]

    def weights(self, id: str) -> dict[str, float]:
        return {}

    def suggestions(
        self, query: Any, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        return []

    @property
    def seen(self) -> int:
        return 0

    def ends(
        self, query: Query, encoded: Any, ids: Sequence[str], scores: Scores, allowed: Any = None
    ) -> Ends:
        return NO_ENDS

    def of_vector(self, vector: csr_matrix) -> Any:
        return vector

    def sentence(self, query: str | Query) -> str:
        """Return a query without marks as a sentence.

        Raises:
            QueryError: it has marks.
        """
        if isinstance(query, str):
            return query
        if query.marked:
            raise QueryError(self._no_words(f"+ - and ^ ({' '.join(query.words)})"))
        return query.sentence

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        if words:
            raise QueryError(self._no_words(f"leaving out {', '.join(words)}"))
        return frozenset()

    def _no_words(self, what: str) -> str:
        return f"{what} is for an index of words, and {self.index} was made with {self.metadata.encoder}"


def no_stored_query(index: Path, what: str) -> ModelError:
    """Return the error to raise if a photo of an index cannot search for similar ones."""
    return ModelError(f"the index {index} holds {what}, which cannot search for similar photos")
