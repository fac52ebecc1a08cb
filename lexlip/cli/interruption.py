"""What Ctrl-C says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


class Interrupted(click.ClickException):
    exit_code = 130  # as shells have it for a command that Ctrl-C ended


@contextmanager
def interruptible(way_on: str) -> Iterator[None]:
    """Ends on Ctrl-C with a sentence that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {way_on}") from None
