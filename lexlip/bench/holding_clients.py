"""Clients that hold a server up: they say nothing, half of something, or hang up in the middle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

_SEARCH = b"GET /api/search?q=dog HTTP/1.1\r\nHost: localhost\r\n"
_PICTURE = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
KINDS = {
    "silent": b"",
    "half_head": _SEARCH + b"X-Half: ",
    "slow_body": _PICTURE + b"Content-Length: 1000000\r\n\r\n",
    "hanging_up": _PICTURE + b"Content-Length: 1000000\r\n\r\nhalf of it",
}
"""What each sends; those that are slow go on with single bytes."""

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
