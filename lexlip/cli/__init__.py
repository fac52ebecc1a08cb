"""The command line: one file a command; whatever is heavy is imported inside the command."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from typing import Any

import click

from lexlip.cli.bench import bench
from lexlip.cli.demo import demo
from lexlip.cli.doctor import doctor
from lexlip.cli.evaluate import evaluate
from lexlip.cli.exit_codes import UserError
from lexlip.cli.explain import explain
from lexlip.cli.export import export
from lexlip.cli.index import index
from lexlip.cli.lexicon import lexicon
from lexlip.cli.mcp import mcp
from lexlip.cli.optimize import optimize
from lexlip.cli.package import package
from lexlip.cli.pretrain import pretrain
from lexlip.cli.search import search
from lexlip.cli.serve import serve
from lexlip.cli.table import table
from lexlip.cli.versions import show_versions
from lexlip.cli.words import words
from lexlip.errors import MORE_MEMORY, FixableError, out_of_memory, what_is_missing
from lexlip.machine.resources import LEAST, NEEDED, check_memory
from lexlip.words.plain_text import readable

_NOT_OF_A_SHELL = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # the disk is full, or read-only


class _Commands(click.Group):
    """Prints errors that the user can fix as one sentence, and exits with 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="replace")  # names may have letters that the encoding lacks
        return super().main(*args, **extra)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        for arg in args:
            try:
                arg.encode()
            except UnicodeEncodeError:
                raw = arg.encode(errors="surrogatepass" if _NOT_OF_A_SHELL.search(arg) else "surrogateescape")
                shown = raw.decode("utf-8", "backslashreplace")
                raise click.UsageError(f"'{shown}' is not UTF-8", context) from None
        return super().parse_args(context, args)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        check_memory(f"`lexlip {args[0]}`", *NEEDED.get(args[0], LEAST))
        return super().resolve_command(context, args)

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            said = _for_users(error)
            if said is None:
                raise
            raise UserError(said) from error


def _for_users(error: Exception) -> str | None:
    """Return the sentence of an error that a user can fix; None of others."""
    if isinstance(error, FixableError):
        return readable(str(error))
    if isinstance(error, ModuleNotFoundError):
        return what_is_missing(error)
    if out_of_memory(error):
        return f"there is too little memory: {MORE_MEMORY}"
    if not isinstance(error, OSError) or error.errno not in CANNOT_WRITE:
        return None
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is in the buffer
    return f"cannot write {readable(str(error.filename or 'the output'))}: {error.strerror}"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_versions,
    help="Show the versions of LexLIP, Lucene, Java and torch, and exit.",
)
def main() -> None:
    """Pictures that are searched like text.

    An image or a caption becomes a few weighted words; an inverted index finds them on a CPU.

    \b
        lexlip index ~/Pictures            make the photos of a folder searchable
        lexlip search "two dogs in snow"   find them
    """  # noqa: D301 (click's mark for lines that are not wrapped)


COMMANDS = (
    *(demo, index, optimize, search, explain, export, serve, mcp, words),
    *(evaluate, table, pretrain, package, lexicon, bench, doctor),
)
for command in COMMANDS:
    main.add_command(command)
