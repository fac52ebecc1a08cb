"""How a command ends that cannot go on: errors that a user can fix are one sentence, with an exit code."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from anserini_bridge.errors import BridgeError
from lexlip.errors import MORE_FILES, FixableError, limit_reached, what_is_missing
from lexlip.machine.resources import LEAST, NEEDED, check_memory
from lexlip.words.plain_text import readable

_NOT_OF_A_SHELL = "[\ud800-\udc7f\udd00-\udfff]"  # surrogates that stand for no byte
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # the disk is full, or read-only


class UserError(click.ClickException):
    """An error that the user can fix."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ctrl-C, or SIGTERM."""

    exit_code = 130  # as shells have it


@contextmanager
def interruptible(way_on: str | Callable[[], str]) -> Iterator[None]:
    """End on Ctrl-C or SIGTERM with a sentence that says how to go on, or with what a function says then."""
    try:
        with terminated_as_interrupted():
            yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {way_on if isinstance(way_on, str) else way_on()}") from None


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does: it prints what it knows and leaves no process behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Commands(click.Group):
    """Prints errors that the user can fix as one sentence, and exits with 2.

    Args:
        names: of the commands; each is loaded from the module of its name when it is used.
    """

    def __init__(self, *args: Any, names: Sequence[str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.commands: dict[str, Any] = dict.fromkeys(names)  # click lists them, and says which one is meant

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in self.commands and self.commands[name] is None:
            self.commands[name] = getattr(import_module(f"lexlip.cli.{name}"), name)
        return self.commands.get(name)

    def main(self, *args: Any, **extra: Any) -> Any:
        with _open_streams():
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                    stream.reconfigure(errors="replace")  # names may have letters that the encoding lacks
            return super().main(*args, **extra)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        for arg in args:
            try:
                arg.encode()
            except UnicodeEncodeError:
                of_a_shell = not re.search(_NOT_OF_A_SHELL, arg)
                raw = arg.encode(errors="surrogateescape" if of_a_shell else "surrogatepass")
                shown = raw.decode("utf-8", "backslashreplace")
                encoding = sys.getfilesystemencoding()
                why = "UTF-8" if encoding == "utf-8" else f"{encoding}, as Python expects: set PYTHONUTF8=1"
                raise click.UsageError(f"'{shown}' is not {why}", context) from None
        return super().parse_args(context, args)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        check_memory(f"`lexlip {args[0]}`", *NEEDED.get(args[0], LEAST))
        return super().resolve_command(context, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _told_to_users():
            return super().make_context(*args, **extra)  # which also prints --help

    def invoke(self, context: click.Context) -> object:
        with _told_to_users():
            return super().invoke(context)


class _Told(io.FileIO):
    """Standard error; what cannot be written there, as its disk is full or nobody reads it, is lost.

    So no work fails because of what is told beside it.
    """

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data) or len(data)  # None: nobody reads fast enough
        return len(data)


@contextmanager
def _open_streams() -> Iterator[None]:
    """Let standard output and standard error be there, though they may be closed, full or without a reader.

    The numbers of those that are closed are taken by the null device, else the next file that is opened, such
    as one of an index, would get what libraries print.
    """
    given, own = (sys.stdout, sys.stderr), sys.stderr is sys.__stderr__
    with suppress(OSError):
        while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(spare, True)
        os.close(spare)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    elif own and sys.platform != "win32":  # whose terminals are no files
        with suppress(OSError):
            sys.stderr.flush()
        told = io.BufferedWriter(_Told(2, "w", closefd=False))
        through = getattr(sys.stderr, "write_through", False)
        sys.stderr = io.TextIOWrapper(
            told, sys.stderr.encoding, "backslashreplace", line_buffering=True, write_through=through
        )
    try:
        yield
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        sys.stdout, sys.stderr = given


@contextmanager
def _told_to_users() -> Iterator[None]:
    """Raise errors of a `with` block that the user can fix, and Ctrl-C, as click prints them."""
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    except Exception as error:
        said = _for_users(error)
        if said is None:
            raise
        raise UserError(said) from error


def _for_users(error: Exception) -> str | None:
    """Return the sentence of an error that a user can fix; None of others."""
    limit = limit_reached(error)
    if isinstance(error, FixableError) and not (limit == MORE_FILES and isinstance(error, BridgeError)):
        return readable(str(error))
    if isinstance(error, ModuleNotFoundError):
        return what_is_missing(error)
    if limit is not None:
        return limit
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return "the folder that you are in was removed: go to another one"
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENAMETOOLONG:
        return f"{readable(str(error.filename))} is too long for a name: give a shorter one"
    if error.errno not in CANNOT_WRITE:
        return None
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is in the buffer
    return f"cannot write {readable(str(error.filename or 'the output'))}: {error.strerror}"


def _is_nowhere() -> bool:
    """Return whether the folder that this process is in was removed."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return True
    return False
