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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lexlip.bench.latency import percentiles
from lexlip.errors import DataError, ModelError
from lexlip.machine import resources

if TYPE_CHECKING:
    import httpx2

PERCENTILES = (50, 95, 99)
WORDS = 30  # that queries are made of
START = 120.0  # seconds that a server has to start

Call = Callable[["httpx2.AsyncClient", int], Awaitable["httpx2.Response"]]


def measure_server(
    index: Path | None,
    url: str | None,
    seconds: float,
    clients: int,
    rate: float,
    k: int,
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Measure a server: its start, its memory, and the milliseconds of its answers.

    Queries are sentences of two of the index's own words each. "closed" is a number of clients that each ask
    again as soon as they have an answer, so that the server is never idle: its rate is the most that it can
    do. "open" is requests at a fixed rate, whether or not earlier ones are answered; a latency counts from
    the moment at which the request was due.

    Args:
        index: start `lexlip serve` on it, in a process of its own.
        url: or ask this server.
        seconds: of each load.
        clients: of the closed load.
        rate: requests in a second of the open load.
        k: hits of an answer.
        options: further ones of `lexlip serve`.

    Returns:
        {"conditions", "start_s", "first_ms", "memory_mb" (these three of an own server only), "searches"
        and "thumbnails": {load: {"p50", …, "max" (ms), "rate" (answers in a second), "errors"}}}

    Raises:
        ModelError: httpx2 is not installed.
        DataError: the server does not start, or does not answer.
    """
    needs_httpx()
    import httpx2

    with running_server(index, url, options) as (address, pid, started):
        try:
            report: dict[str, Any] = {"conditions": {"clients": clients, "rate": rate, "k": k}}
            report["conditions"].update(resources.describe())
            with httpx2.Client(base_url=address, timeout=60) as client:
                if pid is not None:
                    client.get("/api/health").raise_for_status()
                    report["start_s"] = time.perf_counter() - started
                    report["first_ms"] = _first(client, k)
                queries, keys = _queries(client), _keys(client, k)
                report["conditions"]["documents"] = client.get("/api/status").json()["documents"]
            searches = _searches(queries, k)
            report["searches"] = asyncio.run(_loads(address, searches, seconds, clients, rate))
            report["thumbnails"] = asyncio.run(_loads(address, _thumbnails(keys), seconds, clients, rate))
        except httpx2.HTTPError as error:
            raise DataError(f"the server at {address} does not answer: {error}") from error
        if pid is not None:
            report["memory_mb"] = memory_mb(pid)
    return report


def needs_httpx() -> None:
    """Raise ModelError if httpx2 is not installed."""
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise ModelError("lexlip bench serve needs httpx2: pip install 'lexlip[bench]'") from error


@contextmanager
def running_server(
    index: Path | None, url: str | None, options: Sequence[str]
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


def _first(client: httpx2.Client, k: int) -> float:
    """Return the milliseconds of the first search of all."""
    started = time.perf_counter()
    client.get("/api/search", params={"q": "a photo of the sea", "k": k}).raise_for_status()
    return 1000 * (time.perf_counter() - started)


def _queries(client: httpx2.Client) -> list[str]:
    found = client.get("/api/telling", params={"limit": WORDS}).raise_for_status().json()["words"]
    words = [word["word"] for word in found] or ["dog", "snow", "man", "beach", "red", "street"]
    return [f"a photo of {one} and {other}" for one, other in permutations(words, 2)] or words


def _keys(client: httpx2.Client, k: int) -> list[str]:
    """Return the keys of photos that a first page shows."""
    answer = client.get("/api/search", params={"q": _queries(client)[0], "k": k}).raise_for_status().json()
    return [hit["key"] for hit in answer["hits"]]


def _searches(queries: Sequence[str], k: int) -> Call:
    def call(client: httpx2.AsyncClient, number: int) -> Awaitable[httpx2.Response]:
        return client.get("/api/search", params={"q": queries[number % len(queries)], "k": k})

    return call


def _thumbnails(keys: Sequence[str]) -> Call:
    def call(client: httpx2.AsyncClient, number: int) -> Awaitable[httpx2.Response]:
        return client.get(f"/api/photos/{keys[number % len(keys)]}/thumbnail")

    return call


async def _loads(address: str, call: Call, seconds: float, clients: int, rate: float) -> dict[str, Any]:
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=1000)
    async with httpx2.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await _closed(client, call, seconds / 5, clients)  # warms up
        return {
            "closed": await _closed(client, call, seconds, clients),
            "open": await _open(client, call, seconds, rate),
        }


async def _closed(client: httpx2.AsyncClient, call: Call, seconds: float, clients: int) -> dict[str, Any]:
    """Have so many clients ask one request after another."""
    times: list[float] = []
    errors: Counter[str] = Counter()
    numbers, begun = count(), time.perf_counter()

    async def ask() -> None:
        while (now := time.perf_counter()) < begun + seconds:
            await _ask(client, call, next(numbers), now, times, errors)

    await asyncio.gather(*(ask() for _ in range(clients)))
    return _summary(times, errors, time.perf_counter() - begun)


async def _open(client: httpx2.AsyncClient, call: Call, seconds: float, rate: float) -> dict[str, Any]:
    """Ask at fixed times, whether or not earlier requests are answered."""
    times: list[float] = []
    errors: Counter[str] = Counter()
    begun, tasks = time.perf_counter(), []
    for number in range(round(seconds * rate)):
        due = begun + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(_ask(client, call, number, due, times, errors)))
    await asyncio.gather(*tasks)
    return _summary(times, errors, time.perf_counter() - begun)


async def _ask(
    client: httpx2.AsyncClient, call: Call, number: int, due: float, times: list[float], errors: Counter[str]
) -> None:
    """Ask once; note the seconds since it was due, or the error."""
    import httpx2

    try:
        answer = await call(client, number)
    except httpx2.HTTPError as error:
        errors[type(error).__name__] += 1
        return
    if answer.status_code == 200:
        times.append(time.perf_counter() - due)
    else:
        errors[str(answer.status_code)] += 1


def _summary(times: Sequence[float], errors: Counter[str], seconds: float) -> dict[str, Any]:
    measured = np.array(times or [np.nan])
    return {
        **percentiles(measured, PERCENTILES, 1000),
        "max": float(1000 * measured.max()),
        "rate": len(times) / seconds,
        "errors": dict(errors),
    }


def memory_mb(pid: int) -> float | None:
    """Return the memory of a process in MB; None if the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1e6
