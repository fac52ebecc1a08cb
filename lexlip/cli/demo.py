"""The command `lexlip demo`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from lexlip.cli.index import index
from lexlip.cli.search import search
from lexlip.data.files import cache_folder
from lexlip.errors import writing_index

PHOTOS = Path(__file__).parents[1] / "photos"  # those that ship, with their licences
QUERIES = (
    "a cup of coffee on a table",
    "a cat with big eyes",
    "a person wearing a uniform",
    "an orange flower",
    "lights in a dark sky",
)


@click.command()
@click.argument("source", required=False, metavar="[SOURCE]")
@click.option(
    "--index",
    "index_folder",
    metavar="DIR",
    help="The folder for the index.  [default: $XDG_CACHE_HOME/lexlip/demo, or ~/.cache/lexlip/demo; the"
    " next demo replaces it]",
)
def demo(source: str | None, index_folder: str | None) -> None:
    """Index a few photos and search them.

    SOURCE is a folder of your own photos; without one, fifteen photos that LexLIP brings along.
    """
    if index_folder is None:
        with writing_index("of the demo"):
            index_folder = str(cache_folder() / "demo")
    _run(index, source or str(PHOTOS), "--topk", "32", "--index", index_folder)
    for query in QUERIES:
        _run(search, query, "--index", index_folder, "-k", "3")
    click.echo(f"\nTo search in the browser: {shlex.join(['lexlip', 'serve', '--index', index_folder])}")


def _run(command: click.Command, *arguments: str) -> None:
    """Run a command in this process, so that torch is loaded once, and show it as it is typed."""
    click.echo(f"\n$ {shlex.join(['lexlip', str(command.name), *arguments])}")
    command.main(list(arguments), prog_name=f"lexlip {command.name}", standalone_mode=False)
