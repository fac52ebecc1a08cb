"""Threads for what takes long, so that the event loop never waits; too many requests at once are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from lexlip.server.problems import busy

P = ParamSpec("P")
T = TypeVar("T")


class Gate:
    """Lets so many in at once, on the event loop.

    Args:
        what: they do.
        most: at once.
    """

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most, self.inside = what, most, 0

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Hold one of the places.

        Raises:
            Problem: 503, there is none.
        """
        if self.inside >= self.most:
            raise busy(self.what)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1


class Threads:
    """A fixed number of threads with a queue of fixed length.

    Args:
        what: they do.
        number: of threads.
        most: calls that run or wait.
    """

    def __init__(self, what: str, number: int, most: int) -> None:
        self._pool = ThreadPoolExecutor(number, f"lexlip {what}")
        self._gate = Gate(what, most)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one of the threads.

        Raises:
            Problem: 503, the queue is full.
        """
        with self._gate.enter():
            return await asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))

    def close(self) -> None:
        """Leave out what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
