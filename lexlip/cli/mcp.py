"""The command `lexlip mcp`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from lexlip.cli import options
from lexlip.errors import ConfigError

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder


@click.command()
@options.index_option
@options.model_option(None, "Model that encodes queries.  [default: the one that made the index]")
@options.query_encoder_option
@options.photos_option
def mcp(
    index_folder: str, model: str | None, query_encoder: QueryEncoder, photo_folders: tuple[str, ...]
) -> None:
    """Let an agent search photos, by the Model Context Protocol over stdin and stdout.

    An agent starts this command itself, and it ends when stdin does. Agents are told in their configuration,
    most of them under mcpServers, with absolute paths:

    \b
        "photos": {"command": "/home/me/venv/bin/lexlip", "args": ["mcp", "--index", "/home/me/photos"]}
    """  # noqa: D301 (click's mark for lines that are not wrapped)
    if sys.stdin is None:
        raise ConfigError("lexlip mcp reads what an agent asks from standard input, which is closed: open it")
    if sys.__stdout__ is None:
        raise ConfigError("lexlip mcp answers an agent on standard output, which is closed: open it")
    output = take_stdout()  # before anything prints
    try:
        from mcp.server import MCPServer  # noqa: F401  (older versions have none)
    except ImportError as error:
        raise ConfigError(
            "lexlip mcp needs the package mcp, version 2 or newer: pip install 'lexlip[mcp]'"
        ) from error

    from anserini_bridge import read_header
    from lexlip.mcp.agent_server import serve
    from lexlip.mcp.photo_tools import PhotoTools
    from lexlip.retrieval.seal import folders_to_send, why_not_sent

    folders = folders_to_send(photo_folders)
    with PhotoTools(index_folder, folders, model=model, query_encoder=query_encoder) as photos:
        if why := why_not_sent(Path(index_folder), read_header(index_folder), folders):
            click.echo(why, err=True)
        # nothing is written, and a read of stdin cannot be woken
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.stdin.isatty():
            click.echo("waiting for an agent, which starts this command itself; Ctrl-C ends", err=True)
        serve(photos, output)


def take_stdout() -> BinaryIO:
    """Return the real standard output; from now on file descriptor 1 is standard error.

    So what Java and libraries print does not get into the protocol, also what is still in a buffer when the
    process ends. Child processes inherit standard error, and not what is returned. Java must start later.
    """
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output
