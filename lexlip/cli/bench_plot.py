"""The command `lexlip bench plot`."""

from __future__ import annotations

from collections.abc import Sequence

import click


@click.command()
@click.argument("results", nargs=-1, required=True, metavar="RESULT.json…")
@click.option("--out", required=True, metavar="FOLDER", help="Where the pictures go.")
def plot(results: Sequence[str], out: str) -> None:
    """Draw what `lexlip bench engine --json` printed: speed against recall, cost against size.

    The first picture is of the largest collection; the others need results of several sizes.
    """
    from benchmarks.plots import draw, read_results

    for path in draw(read_results(results), out):
        click.echo(path)
