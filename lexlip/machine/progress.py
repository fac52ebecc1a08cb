"""How far long work is, on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any

from tqdm import tqdm

EVERY = 5.0  # seconds between two lines


class ProgressBar(tqdm):
    """A bar of tqdm on a terminal; into a pipe or a log a line every few seconds, without the bar.

    `disable` hides the lines, too.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        if not sys.stderr.isatty():
            options |= {"file": _Lines(), "ncols": 0, "mininterval": 1, "miniters": 1, "position": 0}
        super().__init__(*args, **options)


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
