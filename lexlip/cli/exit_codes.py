"""How a command ends that cannot go on: one sentence, and its exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click


class UserError(click.ClickException):
    """An error that the user can fix."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ctrl-C."""

    exit_code = 130  # as shells have it


@contextmanager
def interruptible(way_on: str) -> Iterator[None]:
    """End on Ctrl-C with a sentence that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {way_on}") from None


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does: it prints what it knows and leaves no process behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
