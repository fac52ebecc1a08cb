"""What an open index is, whatever its kind: words in Lucene, vectors in Faiss, captions in BM25.

An engine searches vectors. A first stage is an open index with what encodes queries for it. Several threads
may search it, while a newer state of the index takes the place of theirs.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from anserini_bridge import BridgeError, IndexHeader
from lexlip.queries.query_language import Query, QueryError, parse_query
from lexlip.retrieval.answer import NO_ENDS, Ends
from lexlip.retrieval.photo_table import OldPhotoTable, PhotoTable, open_photos
from lexlip.words.function_words import looks_foreign
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from lexlip.models.contract import Encoder
    from lexlip.queries.photo_encoder import PhotoEncoder

EngineName = Literal["lucene", "exact", "flat", "hnsw"]

Results = tuple[list[list[str]], list[np.ndarray]]
"""For each query the ids and the scores of its hits, best first.

With sparse vectors only documents that share a word with the query are hits.
"""

Scores = Sequence[float] | NDArray[np.floating]
"""Of the hits of one query."""


class Engine(Protocol):
    """Answers queries."""

    def search(self, queries: csr_matrix, k: int) -> Results:
        """Return the k best documents for each query, [n, V]."""
        ...


EngineOf = Callable[[Sequence[str], "csr_matrix"], AbstractContextManager[Engine]]
"""Makes an engine that holds documents, given their ids and (top-K) vectors."""


class Moved(Exception):
    """A writer has changed the index between two looks at it: refresh, and look again."""


class FirstStage(ABC):
    """An open index with what encodes queries for it.

    What has a body here is so in every index that does not know the words of photos.

    Attributes:
        index: the index's folder.
        seen: the number of hits whose scores `ends` looks at.
        adds_names: whether the words that people gave photos add to the scores, as in an index of words.
    """

    index: Path
    seen: int = 0
    adds_names: bool = True

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
        if not query.negations:
            return query
        return replace(query.with_negations({}), sentence=parse_query(query.text, negations=False).sentence)

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

    def other_languages(self, query: Query) -> Sequence[str]:
        """Return languages in which an English query, if it is a word or phrase, means something else."""
        return ()

    def shown_in(self, query: Query) -> str:
        """Return the language in which the words of a query's answer are shown; "": English."""
        return ""

    def doubtful(self, query: Query) -> Sequence[str]:
        """Return words of a query in another language that may be mistyped."""
        return ()

    def names(self, query: Query) -> Sequence[str]:
        """Return words of a query in another language that may be names, as nothing tells what they mean."""
        return ()

    def is_foreign_word(self, word: str, query: Query) -> bool:
        """Return whether a word that the vocabulary lacks is one of another language, and so no slip."""
        return False

    def is_not_english(self, query: Query, unknown: Sequence[str]) -> bool:
        """Return whether a query whose unknown words are given is read as English, but does not look so."""
        return looks_foreign(query.sentence, unknown)

    def lacks_languages(self) -> str:
        """Return what to install for sentences that are not English; "" if nothing would help."""
        return ""

    def near(self, word: str, number: int, language: str = "") -> list[str]:
        """Return words that photos have and that are spelled most like one that the index cannot know.

        They are in a language, as `shown_in` returns it.
        """
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
    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()) -> Any:
        """Return, for `search`, the photos with these ids (None: all) that hold none of some words.

        Those with the ids `but` are left out, too, by a stage that `adds_names`.
        """

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
        made = f"{self.index} was made with {self.metadata.encoder}"
        return f"{readable(what)} is for an index of words, and {made}"


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)
Header = TypeVar("Header", bound=IndexHeader)
Searcher = TypeVar("Searcher", bound=Closable)


class Shared(Generic[T]):
    """A value that several use, and that the last of them closes; who makes this is the first one."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._users, self._lock = 1, threading.Lock()

    def take(self) -> Self:
        """Become a user, too, while there is one."""
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        """Use it no more."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self.value.close()


class Renewed(Generic[T]):
    """What searches one state of an index and can move to another one, as a whole."""

    def __init__(self, state: T) -> None:
        self._changing = threading.Lock()
        self._now = Shared(state)

    @contextmanager
    def hold(self) -> Iterator[Self]:
        """Give a copy that stays in the state of now, whatever happens to this one."""
        held = copy.copy(self)
        with self._changing:
            held._now = self._now.take()
        try:
            yield held
        finally:
            held._now.release()

    def move(self, state: T) -> None:
        """Search another state from now on."""
        with self._changing:
            old, self._now = self._now, Shared(state)
        old.release()

    def close(self) -> None:
        """Close it; who holds it still searches."""
        self._now.release()


class Opened(NamedTuple, Generic[Header, Searcher]):
    """A state of an index: what it says about itself, and what searches it."""

    metadata: Header
    engine: Searcher

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()


class ReopenedStage(Renewed[Opened[Header, Searcher]], FirstStage, Generic[Header, Searcher]):
    """A first stage that opens every state of its index anew."""

    def __init__(self, index: Path) -> None:
        self.index = index
        super().__init__(self._newest())

    @abstractmethod
    def read_header(self) -> Header:
        """Return what the index says about itself now."""

    @abstractmethod
    def open_engine(self, header: Header) -> Searcher:
        """Return what searches a state of the index.

        Raises:
            BridgeError: it cannot be read; if a writer has replaced it meanwhile, the next state is opened.
        """

    @property
    def metadata(self) -> Header:
        return self._now.value.metadata

    @property
    def engine(self) -> Searcher:
        """What searches the state of now."""
        return self._now.value.engine

    def _newest(self) -> Opened[Header, Searcher]:
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
