"""An index of photos on an OpenSearch server: its documents are written, counted, listed and asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from anserini_bridge.sparse_rows import Rows
from lexlip.errors import ConfigError
from lexlip.machine.progress import ProgressBar
from lexlip.opensearch.photo_documents import ABOUT, MAPPING, About, rows_of, vector
from lexlip.opensearch.photo_queries import A_PHOTO, Condition, all_of, any_of
from lexlip.other_engines.ask import Later, NoIndex, Server, TooLarge
from lexlip.other_engines.engine_contract import FIELD, Document, EngineError, compact
from lexlip.other_engines.servers import OpenSearch
from lexlip.words.plain_text import counted

PAGE = 10_000  # hits of one answer: OpenSearch gives no more by default
_FEW = 1_000  # documents that are asked for together by their keys
WAITS = (1, 2, 4, 8, 16, 30, 30, 30)
"""Seconds before a request is tried again while an index is written: a node needs half a minute to start."""

Action = tuple[str, dict[str, Any] | None]
"""A key, and the document that it has from now on; None deletes it."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class PhotoIndex:
    """An index on a server, of photos or not.

    Its methods raise what `Server.send` does, and DataError for an answer that is none of such an index.
    """

    server: Server
    engine: OpenSearch

    @classmethod
    def at(cls, address: str) -> PhotoIndex:
        """Return the index that an address names; ConfigError: see `Server.of`, or it is another engine's."""
        server = Server.of(address)
        if not isinstance(server.engine, OpenSearch):
            raise ConfigError(
                f"photos are indexed into opensearch, not into {server.engine.name}: write the address as"
                f" opensearch+https://HOST/INDEX, or load a `lexlip export {server.engine.name}`"
            )
        server.engine.check_name(server.index)
        return cls(server, server.engine)

    def __str__(self) -> str:
        return f"{self.engine.name}+{self.server.url}/{self.server.index}"

    def understood(self) -> AbstractContextManager[None]:
        """Raise DataError if a `with` block does not find in an answer what such an index has."""
        return self.server.understood("the index was made by `lexlip index --server`")

    # ---- what it is ----

    def about(self) -> About | None:
        """Return what the index says about itself; None if it holds other documents, such as an export."""
        try:
            found = self._ask("GET", f"_doc/{ABOUT}")
        except NoIndex as error:
            if error.found:
                return None
            raise
        with self.understood():
            version = (found[name] for name in ("_index", "_primary_term", "_seq_no"))  # of an alias, too
            return About.of(found["_source"], "-".join(map(str, version)))

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
        with self.understood():
            status = str(
                self.server.send("GET", f"/_cluster/health/{self.server.index}?timeout=1s")["status"]
            )
            if status not in ("green", "yellow", "red"):
                raise ValueError(f"its health is {status!r:.20}")
        return status

    def is_empty(self) -> bool:
        """Return whether the index, which is there, holds no document at all."""
        answer = self._ask("GET", "_count")
        with self.understood():
            return int(answer["count"]) == 0

    def make(self, there: bool) -> None:
        """Make the index, without documents; or an empty one that is there ready for them."""
        if there:
            self._ask("PUT", "_mapping", MAPPING, "make")
        else:
            self._ask("PUT", "", {"mappings": MAPPING}, "make")

    def say(self, about: About) -> None:
        """Write what the index says about itself."""
        _patiently(lambda: self._ask("PUT", f"_doc/{ABOUT}", about.stored(), "write"))

    def megabytes(self) -> float:
        """Return the size of the index without its replicas, in 10^6 bytes."""
        path = "_stats/segments?include_segment_file_sizes=true"  # the size of its store lags behind
        found = self._ask("GET", path, to="see the size of")
        with self.understood():
            files = found["_all"]["primaries"]["segments"]["file_sizes"].values()
            return sum(int(file["size_in_bytes"]) for file in files) / 1e6

    # ---- writing ----

    def write(self, actions: Sequence[Action]) -> None:
        """Write documents, and delete others; what the server is too busy for is tried again.

        DataError: it refuses one, or was too busy for all of WAITS; the others may be written.
        """
        if not actions:
            return
        lines = "".join(f"{line}\n" for action in actions for line in _lines(action))
        try:
            refused = _patiently(partial(self._write, lines.encode()))
        except TooLarge:
            if len(actions) == 1:
                raise
            half = len(actions) // 2
            self.write(actions[:half])
            self.write(actions[half:])
            return
        for waits in WAITS:
            if not refused:
                return
            time.sleep(waits)
            again = "".join(f"{line}\n" for key in refused for line in _lines(_of(actions, key)))
            refused = _patiently(partial(self._write, again.encode()))
        if refused:
            raise Later(
                f"{self.server.url} is too busy to write {counted(len(refused), 'photo')}: go on later"
            )

    def _write(self, lines: bytes) -> list[str]:
        """Send actions; return the keys of those that the server is too busy for."""
        path = "_bulk?filter_path=errors,items.*._id,items.*.status,items.*.error"
        answer = self._send("POST", path, lines, "write")
        with self.understood():
            results = [result for item in answer["items"] for result in item.values()]
            failed = [one for one in results if one.get("error")] if answer["errors"] else []
            busy = [str(one["_id"]) for one in failed if one["status"] in (429, 503)]
            for one in failed:
                if one["status"] not in (429, 503):
                    raise EngineError(f"refuses a photo ({one['error'].get('reason', one['error'])})")
        return busy

    def refresh(self) -> None:
        """Let searches see what was written."""
        _patiently(lambda: self._ask("POST", "_refresh", to="write"))

    # ---- asking ----

    def search(self, body: dict[str, Any], patient: bool = False) -> Any:
        """Return the answer to a search, which covers all documents; patient: try again for a while."""

        def ask() -> Any:
            path = "_search?allow_partial_search_results=false"
            answer = self._ask("POST", path, {"track_total_hits": False, **body})
            with self.understood():
                self.engine.hits(answer)
            return answer

        return _patiently(ask) if patient else ask()

    def count(self, condition: Condition = A_PHOTO) -> int:
        """Return the number of photos that meet a condition."""
        (number,) = self.counts([condition])
        return number

    def counts(self, conditions: Sequence[Condition]) -> list[int]:
        """Return the number of photos that meet each of some conditions."""
        if not conditions:
            return []
        filters = {str(place): all_of([one]) for place, one in enumerate(conditions)}
        aggregated = {"each": {"filters": {"filters": filters}}}
        answer = self.search({"size": 0, "query": A_PHOTO, "aggs": aggregated})
        with self.understood():
            found = answer["aggregations"]["each"]["buckets"]
            return [int(found[str(place)]["doc_count"]) for place in range(len(conditions))]

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the photos that meet a condition, in their order."""
        return [id for id, _ in self._listed(condition, False)]

    def facts(self, progress: bool = False) -> Iterator[Any]:
        """Yield the documents of all photos without what is searched, by id."""
        with ProgressBar(
            total=self.count(), desc="compare", unit="photo", disable=not progress, delay=2
        ) as bar:
            for _, hit in self._listed(A_PHOTO, ["id", "facts"], patient=True):
                bar.update()
                yield hit["_source"]

    def _listed(
        self, condition: Condition, source: list[str] | bool, patient: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Yield the ids and hits of photos that meet a condition, by id."""
        body = {"size": PAGE, "_source": source, "sort": [{"id": "asc"}], "query": all_of([condition])}
        for hits in self._pages(body, patient):
            with self.understood():
                found = [(str(hit["sort"][0]), hit) for hit in hits]
            yield from found

    def _pages(self, body: dict[str, Any], patient: bool = False) -> Iterator[Any]:
        """Yield the hits of one answer after another."""
        while True:
            answer = self.search(body, patient)
            with self.understood():
                hits = self.engine.hits(answer)
                after = hits[-1]["sort"] if hits else None
            if after is None:
                return
            yield hits
            if len(hits) < body["size"]:
                return
            body = {**body, "search_after": after}

    def best(self, query: Sequence[Condition], k: int, allowed: Condition | None) -> list[tuple[str, float]]:
        """Return the ids and scores of the k best photos; equal ones come by id.

        Args:
            query: its parts, whose scores are added; a photo that meets none is not found.
            k: how many.
            allowed: what they must meet.
        """
        if not query or k < 1:
            return []
        asked = any_of(query)
        if allowed is not None:
            asked["bool"]["filter"] = [allowed]
        body = {
            "size": min(k, PAGE),
            "_source": False,
            "sort": ["_score", {"id": "asc"}],
            "query": asked,
        }
        found: list[tuple[str, float]] = []
        for hits in self._pages(body):
            with self.understood():
                found += [(str(hit["sort"][1]), _score(hit["sort"][0])) for hit in hits]
            if len(found) >= k:
                break
        return found[:k]

    def terms(self, field: str, pattern: str, number: int) -> dict[str, int]:
        """Return the most frequent terms of a field that fit Lucene's regular expression, with counts."""
        asked = {"found": {"terms": {"field": field, "include": pattern, "size": number}}}
        answer = self.search({"size": 0, "query": A_PHOTO, "aggs": asked})
        with self.understood():
            buckets = answer["aggregations"]["found"]["buckets"]
            return {str(bucket["key"]): int(bucket["doc_count"]) for bucket in buckets}

    def first(self, field: str, order: str) -> str | None:
        """Return the first value of a field by an order, "asc" or "desc"; None: no photo has one."""
        body = {"size": 1, "_source": False, "sort": [{field: order}], "query": {"exists": {"field": field}}}
        answer = self.search(body)
        with self.understood():
            return next((str(hit["sort"][0]) for hit in self.engine.hits(answer)), None)

    def get(self, ids: Sequence[str], fields: Sequence[str] = ()) -> list[Any]:
        """Return the documents of photos, or some of their fields; None for those that are not there."""
        found: list[Any] = []
        for start in range(0, len(ids), _FEW):
            some = ids[start : start + _FEW]
            path = f"_mget?_source_includes={quote(','.join(fields))}" if fields else "_mget"
            answer = self._ask("POST", path, {"ids": [key_of(id) for id in some]})
            with self.understood():
                if failed := next((one["error"] for one in answer["docs"] if "error" in one), None):
                    raise EngineError(f"refuses ({failed.get('reason', failed)})")
                documents = [one["_source"] if one["found"] else None for one in answer["docs"]]
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

    # ---- HTTP ----

    def _ask(self, method: str, path: str, body: Any = None, to: str = "search") -> Any:
        return self._send(method, path, None if body is None else compact(body).encode(), to)

    def _send(self, method: str, path: str, body: bytes | None, to: str) -> Any:
        with self.understood():
            return self.server.send(method, f"/{self.server.index}/{path}".rstrip("/"), body, to)


def key_of(id: str) -> str:
    """Return the key of a photo's document."""
    return Document(id, [], []).key


def _score(value: Any) -> float:
    """Return the score of a hit; ValueError: it cannot be one."""
    if isinstance(value, bool) or not 0 < value < 2**53:
        raise ValueError(f"a hit has the score {value!r:.20}")
    return float(value)


def _of(actions: Sequence[Action], wanted: str) -> Action:
    return next(action for action in actions if action[0] == wanted)


def _lines(action: Action) -> list[str]:
    """Return the lines of a bulk for an action."""
    key, document = action
    if document is None:
        return [json.dumps({"delete": {"_id": key}})]
    return [json.dumps({"index": {"_id": key}}), compact(document)]


def _patiently(ask: Callable[[], Answer]) -> Answer:
    """Return an answer; while the server may have one later, ask again."""
    for wait in WAITS:
        try:
            return ask()
        except Later:
            time.sleep(wait)
    return ask()
