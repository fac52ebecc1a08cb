"""`lexlip bench serve`: a server under load, as its callers see it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lexlip.bench.clocks import percentiles
from lexlip.errors import DataError, ModelError
from lexlip.machine import resources

if TYPE_CHECKING:
    import httpx2

PERCENTILES = (50, 95, 99)
WORDS = 30  # that queries are made of
START = 120.0  # seconds that a server has to start

Call = Callable[["httpx2.AsyncClient", int], Awaitable["httpx2.Response"]]
Ask = Callable[[int, float], Coroutine[Any, Any, None]]
"""Makes a request, given its number and when it is due."""


def measure_server(
    index: Path | None, url: str | None, seconds: float, clients: int, rate: float, k: int
) -> dict[str, Any]:
    """Measure a server: its start, its memory, and the milliseconds of its answers.

    Queries are sentences of two of the index's own words each. "closed" is a number of clients that each ask
    again as soon as they have an answer, so that the server is never idle: its rate is the most that it can
    do. "open" is requests at a fixed rate, whether or not earlier ones are answered; a latency counts from
    the moment at which the request was due.

    `lexlip serve` is started on an index, or a server at a URL is asked.
    Each load lasts for so many seconds.

    Returns:
        {"conditions", "start_s", "first_ms", "memory_mb" (these three of an own server only), "searches"
        and "thumbnails": {load: {"p50", …, "max" (ms), "rate" (answers in a second), "errors"}}}

    Raises:
        ModelError: httpx2 is not installed.
        DataError: the server does not start, or does not answer.
    """
    needs_httpx()
    import httpx2

    with running_server(index, url) as (address, pid, started):
        try:
            report: dict[str, Any] = {"conditions": {"clients": clients, "rate": rate, "k": k}}
            report["conditions"].update(resources.describe())
            with httpx2.Client(base_url=address, timeout=60) as client:
                if pid is not None:
                    client.get("/api/health").raise_for_status()
                    report["start_s"] = time.perf_counter() - started
                first, search, thumbnail = _ask_first(client, k)
                if pid is not None:
                    report["first_ms"] = first
                report["conditions"]["documents"] = client.get("/api/status").json()["documents"]
            report["searches"] = asyncio.run(_loads(address, search, seconds, clients, rate))
            report["thumbnails"] = asyncio.run(_loads(address, thumbnail, seconds, clients, rate))
        except httpx2.HTTPError as error:
            raise DataError(f"the server at {address} does not answer: {error}") from error
        if pid is not None:
            report["memory_mb"] = resources.status_mb("VmRSS", pid)
    return report


def needs_httpx() -> None:
    """Raise ModelError if httpx2 is not installed."""
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise ModelError("lexlip bench serve needs httpx2: pip install 'lexlip[bench]'") from error


@contextmanager
def running_server(
    index: Path | None, url: str | None, options: Sequence[str] = ()
) -> Iterator[tuple[str, int | None, float]]:
    """Give the address of a server, the process that was started for it, and when."""
    if index is None:
        yield str(url), None, 0.0
        return
    started = time.perf_counter()
    command = [sys.executable, "-m", "lexlip", "serve", "--index", str(index), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            _, errors = process.communicate(timeout=START)
            raise DataError(f"the server did not start: {errors.strip().removeprefix('Error: ')}")
        yield found[0], process.pid, started
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _ask_first(client: httpx2.Client, k: int) -> tuple[float, Call, Call]:
    """Return the milliseconds of the first search of all, and calls for searches and for thumbnails."""
    started = time.perf_counter()
    client.get("/api/search", params={"q": "a photo of the sea", "k": k}).raise_for_status()
    first = 1000 * (time.perf_counter() - started)
    found = client.get("/api/telling", params={"limit": WORDS}).raise_for_status().json()["words"]
    words = [word["word"] for word in found] or ["dog", "snow", "man", "beach", "red", "street"]
    queries = [f"a photo of {one} and {other}" for one, other in permutations(words, 2)] or words
    answer = client.get("/api/search", params={"q": queries[0], "k": k}).raise_for_status().json()
    keys = [hit["key"] for hit in answer["hits"]]

    def search(client: httpx2.AsyncClient, number: int) -> Awaitable[httpx2.Response]:
        return client.get("/api/search", params={"q": queries[number % len(queries)], "k": k})

    def thumbnail(client: httpx2.AsyncClient, number: int) -> Awaitable[httpx2.Response]:
        return client.get(f"/api/photos/{keys[number % len(keys)]}/thumbnail")

    return first, search, thumbnail


async def _loads(address: str, call: Call, seconds: float, clients: int, rate: float) -> dict[str, Any]:
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=1000)
    async with httpx2.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await _Load(client, call).closed(seconds / 5, clients)  # warms up
        return {
            "closed": await _Load(client, call).closed(seconds, clients),
            "open": await _Load(client, call).open(seconds, rate),
        }


class _Load:
    """Calls by their number, and what becomes of them."""

    def __init__(self, client: httpx2.AsyncClient, call: Call) -> None:
        self.client, self.call = client, call
        self.times: list[float] = []
        self.errors: Counter[str] = Counter()

    async def closed(self, seconds: float, clients: int) -> dict[str, Any]:
        return self._report(await ask_without_pause(self._ask, seconds, clients))

    async def open(self, seconds: float, rate: float) -> dict[str, Any]:
        return self._report(await ask_at_a_rate(self._ask, range(round(seconds * rate)), rate))

    async def _ask(self, number: int, due: float) -> None:
        """Ask once; note the seconds since it was due, or the error."""
        import httpx2

        try:
            answer = await self.call(self.client, number)
        except httpx2.HTTPError as error:
            self.errors[type(error).__name__] += 1
            return
        if answer.status_code == 200:
            self.times.append(time.perf_counter() - due)
        else:
            self.errors[str(answer.status_code)] += 1

    def _report(self, seconds: float) -> dict[str, Any]:
        rate, errors = len(self.times) / seconds, dict(self.errors)
        return {**milliseconds(self.times), "rate": rate, "errors": errors}


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Return percentiles and the longest of times; NaN if there are none."""
    measured = np.array(seconds or [np.nan])
    return {**percentiles(measured, PERCENTILES, 1000), "max": float(1000 * measured.max())}


async def ask_without_pause(ask: Ask, seconds: float, clients: int) -> float:
    """Have so many clients ask one request after another; return the seconds until all were answered."""
    numbers, begun = count(), time.perf_counter()

    async def client() -> None:
        while (now := time.perf_counter()) < begun + seconds:
            await ask(next(numbers), now)

    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - begun


async def ask_at_a_rate(ask: Ask, numbers: Iterable[int], rate: float) -> float:
    """Ask so often in a second, whether or not earlier requests are answered; return the seconds of all."""
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in numbers:
            due = begun + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(ask(number, due))
    return time.perf_counter() - begun
