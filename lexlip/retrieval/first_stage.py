"""A first stage finds photos in an index of any kind: words in Lucene, vectors in Faiss, captions in BM25."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, IndexHeader
from lexlip.queries.query_language import Query, QueryError
from lexlip.retrieval.answer import NO_ENDS, Ends
from lexlip.retrieval.engine import Results, Scores
from lexlip.retrieval.photo_table import OldPhotoTable, PhotoTable, open_photos
from lexlip.retrieval.states import Closable, Renewed

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder
    from lexlip.queries.photo_encoder import PhotoEncoder

Header = TypeVar("Header", bound=IndexHeader)
Engine = TypeVar("Engine", bound=Closable)


class Moved(Exception):
    """A writer has changed the index between two looks at it: refresh, and look again."""


class FirstStage(ABC):
    """An open index with what encodes queries for it.

    What has a body here is so in every index that does not know the words of photos.

    Attributes:
        index: the index's folder.
        seen: the number of hits whose scores `ends` looks at.
    """

    index: Path
    seen: int = 0

    @property
    @abstractmethod
    def metadata(self) -> IndexHeader:
        """What the index says about itself; `metadata.kind` is a key of `lexlip.registry.INDEXES`."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder | PhotoEncoder:
        """The model that made the index, which encodes pictures.

        Raises:
            ModelError: no model did, or it cannot be loaded.
        """

    @property
    def state(self) -> str:
        """A name of the state that is searched; another state of this index has another one."""
        return f"{self.metadata.created} {self.metadata.directory}"

    def tables(self) -> list[PhotoTable]:
        """Open the table of the index's photos, or those of both indexes that are fused.

        Raises:
            Moved: a writer has changed the index since the stage saw it.
        """
        table = open_photos(self.index, self.metadata)
        file = self.index / self.metadata.directory / self.metadata.extra.get("photos", "")
        if not isinstance(table, OldPhotoTable) and table.file != file:
            table.close()
            raise Moved(f"{self.index} was updated between a look at it and one at its table")
        return [table]

    # ---- queries ----

    def read(self, query: Query) -> Query:
        """Return a query as this index understands its negations: as words to leave out, or as text."""
        return replace(query.with_negations({}), sentence=query.text) if query.negations else query

    @abstractmethod
    def encode(self, query: str | Query) -> Any:
        """Return a query, or a sentence as it stands, as `search` takes it.

        Raises:
            QueryError: the query has marks, and the index does not know words.
        """

    def of_vector(self, vector: csr_matrix) -> Any:
        """Return a vector of the index's model, [1, V], as `search` takes it."""
        return vector

    @abstractmethod
    def like(self, id: str) -> Any:
        """Return what the index stores of a photo, as a query.

        Raises:
            UnknownId, ModelError: the index does not hold the photo; or nothing that it stores can search.
        """

    def unknown(self, query: str | Query) -> list[str]:
        """Return the words of a query that the index cannot know."""
        return []

    def near(self, word: str, number: int) -> list[str]:
        """Return words that photos have and that are spelled most like one that the index cannot know."""
        return []

    def unread(self, query: str | Query) -> str:
        """Return the end of a sentence that is too long for the model to read; "" if it reads all."""
        return ""

    def sentence(self, query: str | Query) -> str:
        """Return a query without marks as a sentence; QueryError: it has marks."""
        if isinstance(query, str):
            return query
        if query.marked:
            raise QueryError(self._no_words(f"+ - and ^ ({' '.join(query.words)})"))
        return query.sentence

    # ---- answers ----

    @abstractmethod
    def search(self, queries: Sequence[Any], k: int, allowed: Any = None) -> Results:
        """Return the ids and scores of the k best photos for each query, as `encode` returns them.

        Of all photos, or of those that `allow` returned.
        """

    @abstractmethod
    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = ()) -> Any:
        """Return, for `search`, the photos with these ids (None: all) that hold none of some words."""

    def holding(self, words: Sequence[str]) -> frozenset[str]:
        """Return the photos that hold at least one of some words."""
        if words:
            raise QueryError(self._no_words(f"leaving out {', '.join(words)}"))
        return frozenset()

    def ends(
        self, query: Query, encoded: Any, ids: Sequence[str], scores: Scores, allowed: Any = None
    ) -> Ends:
        """Return where hits stop to fit a sentence well, and to have to do with it, if it is known.

        Args:
            query, encoded: the sentence, and what `encode` returns for it.
            ids, scores: the best hits, `seen` or more unless there are fewer.
            allowed: among which photos they were found; see `search`.
        """
        return NO_ENDS

    def terms(self, query: Any) -> dict[str, float]:
        """Return the words of an encoded query with their weights, heaviest first, if the index has words."""
        return {}

    def matches(self, query: Any, ids: Sequence[str]) -> list[dict[str, float]]:
        """Return for each photo what each shared word added to its score, heaviest first."""
        return [{} for _ in ids]

    def weights(self, id: str) -> dict[str, float]:
        """Return the words of a photo with their weights, heaviest first; UnknownId: the index lacks it."""
        return {}

    def suggestions(
        self, query: Any, ids: Sequence[str], number: int, without: Sequence[str] = ()
    ) -> list[str]:
        """Return words that an encoded query lacks, and that tell the photos that it found from others."""
        return []

    # ---- states ----

    @abstractmethod
    def hold(self) -> AbstractContextManager[FirstStage]:
        """Give this stage as it is now, for one answer: a refresh meanwhile changes nothing in it.

        Raises:
            Moved: its parts are of two states of an index.
        """

    @abstractmethod
    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one."""

    @abstractmethod
    def close(self) -> None:
        """Close the index."""

    def _no_words(self, what: str) -> str:
        return f"{what} is for an index of words, and {self.index} was made with {self.metadata.encoder}"


@dataclass(frozen=True)
class Opened(Generic[Header, Engine]):
    """A state of an index: what it says about itself, and what searches it."""

    metadata: Header
    engine: Engine

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()


class ReopenedStage(Renewed[Opened[Header, Engine]], FirstStage, Generic[Header, Engine]):
    """A first stage that opens every state of its index anew."""

    def __init__(self, index: Path) -> None:
        self.index = index
        super().__init__(self._newest())

    @abstractmethod
    def read_header(self) -> Header:
        """Return what the index says about itself now."""

    @abstractmethod
    def open_engine(self, header: Header) -> Engine:
        """Return what searches a state of the index.

        Raises:
            BridgeError: it cannot be read; if a writer has replaced it meanwhile, the next state is opened.
        """

    @property
    def metadata(self) -> Header:
        return self._now.value.metadata

    @property
    def engine(self) -> Engine:
        """What searches the state of now."""
        return self._now.value.engine

    def _newest(self) -> Opened[Header, Engine]:
        while True:
            header = self.read_header()
            try:
                return Opened(header, self.open_engine(header))
            except BridgeError:
                if self.read_header() == header:
                    raise

    def refresh(self) -> bool:
        if self.read_header() == self.metadata:
            return False
        self.move(self._newest())
        return True
