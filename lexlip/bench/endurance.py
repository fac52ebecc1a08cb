"""`lexlip bench serve --endurance`: a server for a long time, as good and bad callers see it.

The photos are drawn, so it needs no data. Some of them come and go all the time, and the server follows. So
an answer is right if it is that of the index with them, or of the index without.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import permutations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from lexlip.bench.serving import (
    ask_at_a_rate,
    ask_without_pause,
    milliseconds,
    needs_httpx,
    running_server,
)
from lexlip.machine import resources
from lexlip.machine.progress import ProgressBar

if TYPE_CHECKING:
    import httpx2

    from lexlip.search.photo_search import PhotoSearch

PHOTOS, COMING = 1000, 12  # drawn; of these come and go
K, QUERIES = 50, 100
HOLDING, HELD_SECONDS = 200, 60.0  # clients of each kind that hold the server up; longest connection
SEED = 0  # of the requests
CHANGE = 20.0  # seconds between changes of the photos
IDLE_RATE, IDLE_SECONDS, CLOSED_SECONDS, OVERLOAD_SECONDS = 2.0, 20.0, 10.0, 30.0
BAD: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("GET", "/api/search", {"params": {"q": ""}}),
    ("GET", "/api/search", {"params": {"q": "dog " * 5000}}),
    ("GET", "/api/search", {"params": {"q": "a dog", "k": 10**9}}),
    ("GET", "/api/search", {"params": {"q": "a dog", "cursor": "nonsense"}}),
    ("GET", "/api/search", {"params": {"q": "a dog", "after": "yesterday"}}),
    ("GET", "/api/photos/nobody/thumbnail", {}),
    ("GET", "/api/photos/..%2F..%2Fetc%2Fpasswd/original", {}),
    ("GET", "/api/nothing", {}),
    ("PUT", "/api/search", {"json": {}}),
    ("POST", "/api/search", {"content": b"{", "headers": {"content-type": "application/json"}}),
    ("POST", "/api/search", {"content": b"[" * 10**5, "headers": {"content-type": "application/json"}}),
    ("POST", "/api/search", {"json": {"terms": {"dog": "heavy"}}}),
    ("POST", "/api/search", {"json": {"q": "a dog", "like": "nobody"}}),
    ("POST", "/api/search", {"content": b"no form", "headers": {"content-type": "text/plain"}}),
)
"""Calls that must be refused: method, path, and what httpx2 takes."""

Answers = dict[str, dict[str, float]]
"""By query, the scores of all photos that are found, by id."""


def measure_endurance(minutes: float, clients: int) -> dict[str, Any]:
    """Serve drawn photos under requests good and bad, while photos come and go; then ask for too much.

    For so many minutes the rate is half of what `clients` that are never idle get, beside others that hold
    the server up; then four times as much for half a minute. At last the server is killed in the middle of an
    update, and started again.

    Returns:
        {"conditions", "capacity" (requests in a second), "idle", "load", "overload" (each: "p50" … "max" (ms)
        of searches, "requests", "statuses", "refused" (share of good requests), "wrong" (what was wrong, at
        most ten sentences), "faults" (how many)}, "held" (by kind of clients that hold the server up: see
        `Held`), "updates" (seen by an answer), "memory_mb" ("early": after a sixth of the time, "end"),
        "recovered_s" (from overload to an idle server's p99 × 3), "restart": {"documents", "expected"}}

    Raises:
        ModelError: httpx2 is not installed.
        DataError: the server does not start.
    """
    needs_httpx()
    with tempfile.TemporaryDirectory(prefix="lexlip-endurance-") as folder:
        library = _Library(Path(folder))
        report: dict[str, Any] = {"conditions": {"minutes": minutes, "photos": PHOTOS, "coming": COMING}}
        report["conditions"].update(resources.describe(), clients=clients, seed=SEED)
        with running_server(library.index, None, ["--watch"]) as (address, pid, _):
            assert pid is not None
            report.update(asyncio.run(_Bench(address, pid, library).run(minutes, clients)))
            library.change()
            time.sleep(2.0)  # in the middle of an update
            os.kill(pid, signal.SIGKILL)
        with running_server(library.index, None, ["--watch"]) as (address, _, _):
            report["restart"] = _documents(address, library)
    return report


class _Library:
    """Drawn photos with an index, and what searches find with and without those that come and go."""

    def __init__(self, folder: Path) -> None:
        from lexlip.data import open_source
        from lexlip.indexing.api import index, update
        from lexlip.search.photo_search import PhotoSearch

        self.photos, self.away, self.index = folder / "photos", folder / "away", folder / "index"
        self.photos.mkdir()
        self.away.mkdir()
        source = open_source(f"scenes:{PHOTOS}:1")
        for number in range(PHOTOS):
            source.image(number).save(self.photos / _id(number))
        index(self.photos, self.index, "mini")
        with PhotoSearch(self.index) as search:
            self.all = _answers(search, _queries(search))
            self.queries = list(self.all)
            best = [max(found, key=found.__getitem__) for found in self.all.values()]
            self.coming = list(dict.fromkeys(best))[:COMING]
            self._move(self.photos, self.away)
            update(self.index, prune=True)
            search.refresh()
            self.some = _answers(search, self.queries)
        self._move(self.away, self.photos)
        update(self.index)
        self.here = True

    def change(self) -> None:
        """Let the photos come, or go."""
        self._move(*((self.photos, self.away) if self.here else (self.away, self.photos)))
        self.here = not self.here

    @property
    def documents(self) -> int:
        return PHOTOS - (0 if self.here else len(self.coming))

    def is_right(self, query: str, hits: Sequence[dict[str, Any]]) -> bool:
        """Return whether these are the K best with the photos that come and go, or without."""
        found = [(hit["id"], hit["score"]) for hit in hits]
        return any(_are_best(found, answers[query]) for answers in (self.all, self.some))

    def _move(self, source: Path, target: Path) -> None:
        for name in self.coming:
            shutil.move(source / name, target / name)


def _queries(search: PhotoSearch) -> list[str]:
    """Return sentences of two of the collection's commonest heavy words each, which find something."""
    heavy = Counter(word for number in range(PHOTOS) for word in [*search.photo_words(_id(number))][:5])
    words = [word for word, _ in heavy.most_common(20)]
    sentences = [f"a picture of {one} and {other}" for one, other in permutations(words, 2)]
    return [sentence for sentence in sentences if search.text(sentence).hits][:QUERIES]


def _id(number: int) -> str:
    return f"{number:04}.jpg"


def _answers(search: PhotoSearch, queries: Sequence[str]) -> Answers:
    return {query: {hit.id: hit.score for hit in search.text(query, k=PHOTOS).hits} for query in queries}


def _are_best(found: Sequence[tuple[str, float]], scores: dict[str, float]) -> bool:
    best = sorted(scores.values(), reverse=True)[:K]
    same = len(found) == len(best) and np.allclose([score for _, score in found], best, rtol=1e-6)
    return same and all(np.isclose(scores.get(id, -1.0), score, rtol=1e-6) for id, score in found)


@dataclass
class _Tally:
    """What became of requests."""

    seconds: list[float] = field(default_factory=list)  # of searches that were answered
    statuses: Counter[str] = field(default_factory=Counter)
    good: int = 0
    refused: int = 0  # of the good ones: 429 and 503
    wrong: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            **milliseconds(self.seconds),
            "requests": self.statuses.total(),
            "statuses": dict(self.statuses),
            "refused": self.refused / max(1, self.good),
            "wrong": self.wrong[:10],
            "faults": len(self.wrong),
        }


class _Bench:
    """The phases, one after another."""

    def __init__(self, address: str, pid: int, library: _Library) -> None:
        self.address, self.pid, self.library = address, pid, library
        self.random = Random(SEED)
        self.keys: list[str] = []
        self.updates, self.seen = 0, True

    async def run(self, minutes: float, clients: int) -> dict[str, Any]:
        import httpx2

        limits = httpx2.Limits(max_connections=None, keepalive_expiry=2.0)  # before the server's
        async with httpx2.AsyncClient(base_url=self.address, timeout=60, limits=limits) as self.client:
            await self._closed(CLOSED_SECONDS, clients)  # warms up
            idle = await self._open("idle", IDLE_SECONDS, IDLE_RATE, bad=False)
            capacity = await self._closed(CLOSED_SECONDS, clients)
            memory: dict[str, float | None] = {}
            changing = asyncio.create_task(self._change(minutes * 60, memory))
            async with holding(self.address, HOLDING) as held:
                load = await self._open("half load", minutes * 60, capacity / 2)
            for kind, connections in held.items():
                if connections.longest > HELD_SECONDS:
                    load["faults"] += 1
                    load["wrong"].append(f"a {kind} connection stayed for {connections.longest:.0f} s")
            await changing
            memory["end"] = resources.status_mb("VmRSS", self.pid)
            overload = await self._open("overload", OVERLOAD_SECONDS, 4 * capacity)
            recovered = await self._recover(3 * idle["p99"])
        return {
            "capacity": capacity,
            "idle": idle,
            "load": load,
            "held": {kind: asdict(connections) for kind, connections in held.items()},
            "overload": overload,
            "recovered_s": recovered,
            "updates": self.updates,
            "memory_mb": memory,
        }

    async def _change(self, seconds: float, memory: dict[str, float | None]) -> None:
        """Let photos come and go, and note the memory after a sixth of the time."""
        begun = time.perf_counter()
        while (now := time.perf_counter()) < begun + seconds:
            if "early" not in memory and now > begun + seconds / 6:
                memory["early"] = resources.status_mb("VmRSS", self.pid)
            if self.seen:
                await asyncio.to_thread(self.library.change)
                self.seen = False
            until = time.perf_counter() + CHANGE
            while time.perf_counter() < min(until, begun + seconds):
                await asyncio.sleep(1.0)
                await self._look()

    async def _look(self) -> None:
        """Note whether the server has seen the last change."""
        answer = await self.client.get("/api/status")
        if not self.seen and answer.json()["documents"] == self.library.documents:
            self.seen = True
            self.updates += 1

    async def _closed(self, seconds: float, clients: int) -> float:
        """Return how many requests in a second are answered if none waits for another client."""
        tally = _Tally()
        taken = await ask_without_pause(lambda _, due: self._ask(tally, due, bad=True), seconds, clients)
        return tally.statuses.total() / taken

    async def _open(self, what: str, seconds: float, rate: float, bad: bool = True) -> dict[str, Any]:
        """Ask at fixed times, whether or not earlier requests are answered."""
        tally = _Tally()
        numbers = ProgressBar(range(round(seconds * rate)), what, unit="request")
        await ask_at_a_rate(lambda _, due: self._ask(tally, due, bad), numbers, rate)
        return tally.to_dict()

    async def _ask(self, tally: _Tally, due: float, bad: bool) -> None:
        """Make one request of a random kind, and look at its answer."""
        import httpx2

        method, path, given, query = self._draw(bad)
        try:
            answer = await self.client.request(method, path, **given)
        except httpx2.HTTPError as error:
            tally.statuses[type(error).__name__] += 1
            tally.wrong.append(f"{method} {path} {query or ''}: {type(error).__name__} {error}")
            return
        tally.statuses[str(answer.status_code)] += 1
        expected = self._is_expected(answer, path, query)
        tally.good += expected is not None
        tally.refused += expected is not None and answer.status_code in (429, 503)
        if query is not None and answer.status_code == 200:
            tally.seconds.append(time.perf_counter() - due)
        if expected is False or answer.status_code in (500, 502, 504):
            tally.wrong.append(f"{method} {path} {query or ''}: {answer.status_code} {answer.text[:200]}")

    def _draw(self, bad: bool) -> tuple[str, str, dict[str, Any], str | None]:
        """Return a method, a path, what httpx2 takes, and the query if it is a search."""
        draw = self.random.random()
        if bad and draw < 0.1:
            return *self.random.choice(BAD), None
        if draw < 0.2 and self.keys:
            return "GET", f"/api/photos/{self.random.choice(self.keys)}/thumbnail", {}, None
        if draw < 0.23:
            return "GET", self.random.choice(["/api/facets", "/api/words?prefix=s", "/api/status"]), {}, None
        query = self.random.choice(self.library.queries)
        return "GET", "/api/search", {"params": {"q": query, "k": K}}, query

    def _is_expected(self, answer: httpx2.Response, path: str, query: str | None) -> bool | None:
        """Return whether a good request got what it should; None for a bad one that was refused."""
        status = answer.status_code
        if query is not None:
            if status != 200:
                return status in (429, 503)
            hits = answer.json()["hits"]
            self.keys = [hit["key"] for hit in hits] or self.keys
            return self.library.is_right(query, hits)
        if "thumbnail" in path and "nobody" not in path:
            return status in (200, 404, 410, 429, 503)  # the photo may just have gone
        if path.partition("?")[0] in ("/api/facets", "/api/words", "/api/status"):
            return status in (200, 429, 503)
        return None if 400 <= status < 500 or status == 503 else False

    async def _recover(self, within: float) -> float:
        """Return the seconds until ten searches in a row take at most so many milliseconds each."""
        begun, row = time.perf_counter(), 0
        while row < 10 and time.perf_counter() < begun + 60:
            tally = _Tally()
            await self._ask(tally, time.perf_counter(), bad=False)
            if tally.seconds:
                row = row + 1 if 1000 * tally.seconds[0] <= within else 0
            await asyncio.sleep(0.05)
        return time.perf_counter() - begun


def _documents(address: str, library: _Library) -> dict[str, int]:
    """Return how many documents a restarted server has, once it has caught up, and should have."""
    import httpx2

    found, until = -1, time.perf_counter() + 60
    with httpx2.Client(base_url=address, timeout=60) as client:
        while found != library.documents and time.perf_counter() < until:
            time.sleep(0.5)
            found = client.get("/api/status").raise_for_status().json()["documents"]
    return {"documents": found, "expected": library.documents}


# ---- clients that hold the server up: they say nothing, half of something, or hang up in the middle ----

_SEARCH = b"GET /api/search?q=dog HTTP/1.1\r\nHost: localhost\r\n"
_PICTURE = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
KINDS = {
    "silent": b"",
    "half_head": _SEARCH + b"X-Half: ",
    "slow_body": _PICTURE + b"Content-Length: 1000000\r\n\r\n",
    "hanging_up": _PICTURE + b"Content-Length: 1000000\r\n\r\nhalf of it",
}
"""What clients that hold a server up send; those that are slow go on with single bytes."""

SLOW, PAUSE = 2.0, 3.0  # seconds between bytes, and between connections of a client


@dataclass
class Held:
    """What became of the connections of one kind."""

    opened: int = 0
    closed: int = 0  # by the server
    refused: int = 0  # there was none
    longest: float = 0.0  # seconds for which one of them was open


@asynccontextmanager
async def holding(address: str, each: int) -> AsyncIterator[dict[str, Held]]:
    """Hold a server up during the block, with so many clients of each kind, and give what becomes of them."""
    report = {kind: Held() for kind in KINDS}
    tasks = [
        asyncio.create_task(_hold(address, kind, held)) for kind, held in report.items() for _ in range(each)
    ]
    try:
        yield report
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hold(address: str, kind: str, held: Held) -> None:
    """Open one connection after another."""
    where = urlsplit(address)
    while True:
        try:
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
        except OSError:
            held.refused += 1
        else:
            held.opened += 1
            begun = time.monotonic()
            try:
                closed = await _wait(reader, writer, kind)
                held.closed += closed
            finally:
                held.longest = max(held.longest, time.monotonic() - begun)
                writer.transport.abort()
        await asyncio.sleep(PAUSE)


async def _wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: str) -> bool:
    """Wait until the server closes a connection; return whether it does, or the client hangs up."""
    writer.write(KINDS[kind])
    if kind == "hanging_up":
        await asyncio.sleep(0.1)
        return False
    with suppress(OSError):
        while not reader.at_eof():
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1 << 16), SLOW)
            if kind != "silent":
                writer.write(b"x")
    return True
