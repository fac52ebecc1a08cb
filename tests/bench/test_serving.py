import asyncio
from types import SimpleNamespace
from typing import Any

from lexlip.bench.serving import _Load


class Slow:
    """A client whose answers take a known time; one at a time, as with a server of one thread."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked = seconds, 0
        self.lock = asyncio.Lock()

    async def get(self, number: int) -> Any:
        self.asked += 1
        async with self.lock:
            await asyncio.sleep(self.seconds)
        return SimpleNamespace(status_code=503 if number % 10 == 9 else 200)


def call(client: Any, number: int) -> Any:
    return client.get(number)


def test_a_closed_load_keeps_the_server_busy() -> None:
    async def main() -> None:
        client = Slow(0.01)
        report = await _Load(client, call).closed(0.5, 4)  # type: ignore[arg-type]
        answered = round(report["rate"] * 0.5)
        assert 10 <= answered + sum(report["errors"].values()) <= client.asked + 4
        assert set(report["errors"]) == {"503"}
        assert report["p50"] >= 4 * 10 - 5  # each waits for three others
        assert report["p50"] <= report["p95"] <= report["p99"] <= report["max"]

    asyncio.run(main())


def test_an_open_load_counts_from_when_a_request_was_due() -> None:
    async def main() -> None:
        client = Slow(0.05)  # 20 in a second, asked for 100 in a second
        report = await _Load(client, call).open(0.3, 100)  # type: ignore[arg-type]
        assert client.asked == 30
        assert report["max"] >= 10 * 1000 * client.seconds  # the last one waited for most of the queue
        assert report["errors"] == {"503": 3}

    asyncio.run(main())
