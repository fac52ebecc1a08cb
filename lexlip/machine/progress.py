"""How far long work is, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Lock, RLock, Timer
from typing import Any, Self

from tqdm import tqdm

EVERY = 5.0  # seconds between two lines
LONG = 2.0  # seconds of a wait after which it is told


class ProgressBar(tqdm):
    """A bar of tqdm on a terminal; into a pipe or a log a line every few seconds, without the bar.

    `disable` hides the lines, too.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        if not sys.stderr.isatty():
            options |= {"file": _Lines(), "ncols": 0, "mininterval": 1, "miniters": 1, "position": 0}
        super().__init__(*args, **options)


# tqdm's own lock has a semaphore of the system, which a process that is killed leaves
ProgressBar.set_lock(RLock())


class _Lines:
    """A file for tqdm, which would write over what it wrote before: shows a part of that, as lines."""

    def __init__(self) -> None:
        self._shown = time.monotonic()

    def write(self, text: str) -> None:
        line, now = text.strip(), time.monotonic()
        if line and now - self._shown >= EVERY:
            self._shown = now
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Lines are flushed when they are written."""


class Wait:
    """A `with` block that waits for something, which is told if that takes over two seconds.

    They begin when there is a line to tell. If another line is there later, that is told, too, once.

    Args:
        tell: is given the lines, perhaps in another thread, but none after the block; None: nobody is told.
        what: the first line, see `now`.
    """

    def __init__(self, tell: Callable[[str], object] | None, what: str = "") -> None:
        self._tell, self._what = tell, what
        self._told: list[str] = []
        self._long, self._lock = False, Lock()
        self._timer: Timer | None = None

    def __enter__(self) -> Self:
        if self._what:
            self.now(self._what)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._tell = None
        if self._timer is not None:
            self._timer.cancel()

    def now(self, what: str) -> None:
        """Say what is waited for from now on."""
        with self._lock:
            self._what = what
            if self._timer is None and self._tell is not None:
                self._timer = Timer(LONG, self._is_long)
                self._timer.daemon = True
                self._timer.start()
            self._say()

    def _is_long(self) -> None:
        with self._lock:
            self._long = True
            self._say()

    def _say(self) -> None:
        if self._tell is not None and self._long and len(self._told) < 2 and self._what not in self._told:
            self._told.append(self._what)
            self._tell(self._what)


def tell(line: str) -> None:
    """Show a line on stderr, above the bar if there is one."""
    ProgressBar.write(line, sys.stderr)
