"""An index of photos on a server: its documents are written, counted, listed and asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from anserini_bridge.given_files import check_form
from anserini_bridge.sparse_rows import Rows
from lexlip.errors import ConfigError, DataError
from lexlip.machine.progress import ProgressBar, Wait
from lexlip.other_engines.ask import AlreadyThere, Later, NoIndex, Server, ServerError, TooLarge
from lexlip.other_engines.engine_contract import FIELD
from lexlip.search_servers.opensearch_store import OpenSearchStore
from lexlip.search_servers.photo_documents import ABOUT, About, key_of, rows_of, vector, with_facts
from lexlip.search_servers.photo_queries import A_PHOTO, Condition, Scored
from lexlip.search_servers.photo_store import Action, PhotoStore
from lexlip.search_servers.solr_store import SolrStore
from lexlip.words.plain_text import counted, readable

STORES: dict[str, type[PhotoStore]] = {"opensearch": OpenSearchStore, "solr": SolrStore}
"""The engines that photos are indexed into, by name."""

AT_ONCE = 500  # documents of a bulk
EVERY = 5.0  # seconds after which those are written that wait, however few
PAGE = 10_000  # hits of one answer: OpenSearch gives no more by default
_FEW = 1_000  # documents that are asked for together by their keys
WAITS: Sequence[float] = (1, 2, 4, 8, 16, 30, 30, 30)
"""Seconds before a request is tried again while an index is written: a node needs half a minute to start."""
AGAIN = "for some two minutes"  # WAITS together; answers take some time, too

Add = Callable[[Action], None]
"""Takes what is to be written, see `PhotoIndex.bulks`."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class PhotoIndex:
    """An index on a server, of photos or not.

    Its methods raise what `Server.send` does, and DataError for an answer that is none of such an index.

    Attributes:
        final: kinds of `Later` after which it is not asked again; after others it is for a while.
        tell: is given a line that says what is waited for, if that takes over two seconds.
    """

    server: Server
    store: PhotoStore
    final: tuple[type[Later], ...] = (Later,)
    tell: Callable[[str], object] | None = None

    @classmethod
    def at(cls, address: str, tell: Callable[[str], object] | None = None) -> PhotoIndex:
        """Return the index that an address names; ConfigError: see `Server.of`, or it is another engine's."""
        server = Server.of(address)
        name = server.engine.name
        if name not in STORES:
            raise ConfigError(
                f"photos are indexed into {' or '.join(STORES)}, not into {name}: write the address as"
                f" opensearch+https://HOST/INDEX, or load a `lexlip export {name}`"
            )
        server.engine.check_name(server.index, "--server")
        return cls(server, STORES[name](server), tell=tell)

    def __str__(self) -> str:
        return f"{self.server.engine.name}+{self.store.address}"

    def understood(self) -> AbstractContextManager[None]:
        """Raise DataError if a `with` block does not find in an answer what such an index has."""
        return self.server.understood("the index was made by `lexlip index --server`")

    # ---- what it is ----

    def about(self) -> About | None:
        """Return what the index says about itself; None if it holds other documents, such as an export."""
        found = self._ask(self.store.about)
        with self.understood():
            return None if found is None else About.of(*found)

    def described(self) -> About:
        """Do the same; ConfigError: it does not say what it is."""
        if (about := self.about()) is not None:
            return about
        raise ConfigError(
            f"{self} was not made by `lexlip index --server`, so it says nothing of its photos: it can"
            " be asked by a sentence alone"
        )

    def health(self) -> str:
        """Return what the cluster says of the index: green; yellow, if copies of shards are missing; red."""
        return self._ask(self.store.health)

    def is_empty(self) -> bool:
        """Return whether the index, which is there, holds no document at all."""
        return self._ask(self.store.is_empty)

    def make(self, there: bool) -> None:
        """Make the index, without documents; or an empty one that is there ready for them.

        One that another run makes at the same moment is as good.
        """

        def make() -> None:
            try:
                self.store.make(there)
            except Later:
                raise
            except ServerError:
                if there or not self._is_there():
                    raise

        try:
            self._ask(make)
        except NoIndex:
            raise DataError(
                f"{self.server.url} does not answer as {self.server.engine.name} does (404): check the"
                " address"
            ) from None

    def _is_there(self) -> bool:
        try:
            self.store.about()
        except NoIndex:
            return False
        return True

    def begin(self, about: About) -> About:
        """Write what the index says about itself, unless another run has; return what it says."""
        with suppress(AlreadyThere):
            self._ask(partial(self.store.begin, about.stored()))
        return self.described()

    def say(self, about: About) -> None:
        """Write what the index says about itself."""
        self.write([(ABOUT, about.stored())])

    def megabytes(self) -> float:
        """Return the size of the index without its replicas, in 10^6 bytes."""
        return self._ask(self.store.megabytes)

    # ---- writing ----

    def write(self, actions: Sequence[Action]) -> None:
        """Write documents, and delete others; what the server is too busy for is tried again, see `final`.

        DataError: it refuses one, or is too busy; the others may be written.
        """
        if not actions:
            return
        try:
            busy = self._write(actions)
        except TooLarge as error:
            if len(actions) == 1:
                raise TooLarge(f"{_named(actions[0])} is not written: {error}") from None
            half = len(actions) // 2
            self.write(actions[:half])
            self.write(actions[half:])
            return
        with Wait(self.tell) as wait:
            for seconds in self._waits:
                if not busy:
                    return
                wait.now(f"{self._too_busy(busy)}; asking again {AGAIN}")
                time.sleep(seconds)
                busy = self._write([action for action in actions if action[0] in busy])
        if busy:
            raise Later(self._too_busy(busy), "go on later")

    def _too_busy(self, keys: set[str]) -> str:
        return f"{self.server.url} is too busy to write {counted(len(keys), 'document')}"

    def _write(self, actions: Sequence[Action]) -> set[str]:
        """Write; return the keys of those that the server is too busy for."""
        return set(self._ask(partial(self.store.write, actions), told=False))

    @contextmanager
    def bulks(self) -> Iterator[Add]:
        """Give what takes actions, which are written together.

        If the block ends with an error, those that wait are sent once; after `Later`, they are not.
        """
        waiting: list[Action] = []
        written = time.monotonic()

        def write() -> None:
            nonlocal written
            some = waiting.copy()
            waiting.clear()  # what the server refuses is not sent again
            self.write(some)
            written = time.monotonic()

        def add(action: Action) -> None:
            waiting.append(action)
            if len(waiting) >= AT_ONCE or time.monotonic() - written > EVERY:
                write()

        try:
            yield add
        except Later:
            raise
        except BaseException:
            with suppress(ConfigError, DataError):  # the first error is the one to tell
                replace(self, final=(Later,)).write(waiting)
            raise
        write()

    def write_facts(self, facts: Mapping[str, Mapping[str, Any]], add: Add) -> None:
        """Write what is another fact about photos now, by id."""
        ids = list(facts)
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            found = zip(some, self.get(some), strict=True)
            with self.understood():
                changed = [(id, with_facts(one, facts[id])) for id, one in found if one is not None]
            for id, document in changed:
                add((key_of(id), document))

    def refresh(self) -> None:
        """Let searches see what was written."""
        self._ask(self.store.refresh)

    # ---- asking ----

    def count(self, condition: Condition = A_PHOTO) -> int:
        """Return the number of photos that meet a condition."""
        (number,) = self.counts([condition])
        return number

    def counts(self, conditions: Sequence[Condition]) -> list[int]:
        """Return the number of photos that meet each of some conditions."""
        return self._ask(partial(self.store.counts, conditions)) if conditions else []

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the photos that meet a condition, in their order."""
        return [str(one["id"]) for one in self._listed(condition, ["id"])]

    def facts(self, progress: bool = False) -> Iterator[Any]:
        """Yield the documents of all photos without what is searched, by id."""
        with ProgressBar(
            total=self.count(), desc="compare", unit="photo", disable=not progress, delay=2
        ) as bar:
            for document in self._listed(A_PHOTO, ["id", "facts"]):
                bar.update()
                yield document

    def _listed(self, condition: Condition, fields: list[str]) -> Iterator[Any]:
        """Yield documents that meet a condition, in the order of the first of some fields."""
        after = None
        while True:
            found, after = self._ask(partial(self.store.listed, condition, fields, PAGE, after))
            yield from found
            if len(found) < PAGE:
                return

    def entries(self, condition: Condition) -> Iterator[Any]:
        """Yield the entries of albums that meet a condition, in the order in which they were added."""
        with self.understood():
            for entry in self._listed(condition, ["added", "album", "member"]):
                check_form(entry, dict[str, str], "an entry of an album")
                yield {"album": entry["album"], "member": entry["member"]}

    def best(self, query: Sequence[Scored], k: int, allowed: Condition | None) -> list[tuple[str, float]]:
        """Return the ids and scores of the k best photos; equal ones come by id.

        Args:
            query: its parts, whose scores are added; a photo that meets none is not found.
            k: how many.
            allowed: what they must meet.
        """
        found: list[tuple[str, float]] = []
        after, size = None, min(k, PAGE)
        while query and len(found) < k:
            some, after = self._ask(partial(self.store.best, query, allowed, size, after))
            found += some
            if len(some) < size:
                break
        return found[: max(k, 0)]

    def terms(self, field: str, pattern: str, number: int) -> dict[str, int]:
        """Return the most frequent values of a field that fit a regular expression, with counts."""
        return self._ask(partial(self.store.terms, field, pattern, number))

    def first(self, field: str, order: str) -> str | None:
        """Return the first value of a field by an order, "asc" or "desc"; None: no photo has one."""
        return self._ask(partial(self.store.first, field, order))

    def get(self, ids: Sequence[str], fields: Sequence[str] = ()) -> list[Any]:
        """Return the documents of photos, or some of their fields; None for those that are not there."""
        found: list[Any] = []
        for start in range(0, len(ids), _FEW):
            some = ids[start : start + _FEW]
            documents = self._ask(partial(self.store.get, [key_of(id) for id in some], fields))
            with self.understood():
                for id, document in zip(some, documents, strict=True):
                    if document is not None and document["id"] != id:
                        raise ValueError("a document has another key than its photo")
            found += documents
        return found

    def vectors(self, ids: Sequence[str], width: int) -> tuple[Rows, list[str]]:
        """Return the whole weights of photos, [n, width]; and the ids of those that are not there."""
        found = self.get(ids, ["id", FIELD])
        with self.understood():
            vectors = [{} if one is None else vector(one[FIELD], width) for one in found]
        missing = [id for id, one in zip(ids, found, strict=True) if one is None]
        return rows_of(vectors, width), missing

    @property
    def _waits(self) -> Sequence[float]:
        return () if Later in self.final else WAITS

    def _ask(self, ask: Callable[[], Answer], told: bool = True) -> Answer:
        """Return an answer; if the server may have one later, ask again, but after what is `final`.

        `told` says whether `tell` is given a line before the server has refused one, too.
        """
        first = f"waiting for {self.server.url} to answer" if told else ""
        with self.understood(), Wait(self.tell, first) as wait:
            for seconds in self._waits:
                try:
                    return ask()
                except self.final:
                    raise
                except Later as error:
                    wait.now(f"{error.what}; asking again {AGAIN}")
                    time.sleep(seconds)
            try:
                return ask()
            except self.final:
                raise
            except Later as error:
                raise type(error)(f"{error.what}; it was asked again {AGAIN}", error.way_on) from None


def _named(action: Action) -> str:
    """Return what an action is about, for people."""
    key, document = action
    if document and "id" in document:
        return f"the photo {readable(document['id'])!r}"
    if document and "album" in document:
        return f"the photo {readable(document['member'])!r} of the album {readable(document['album'])!r}"
    return f"the document {key}"
