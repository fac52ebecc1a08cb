"""How a command ends that cannot go on: one sentence, and its exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from lexlip.errors import LexLIPError


class UserError(click.ClickException):
    """An error that the user can fix."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ctrl-C."""

    exit_code = 130  # as shells have it


def is_for_the_user(error: Exception) -> bool:
    """Return whether an error is a sentence for the user, rather than a fault of the program."""
    bridge = sys.modules.get("anserini_bridge.errors")  # not loaded: then it did not raise
    return isinstance(error, LexLIPError) or (bridge is not None and isinstance(error, bridge.BridgeError))


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
