"""The command `lexlip export`."""

from __future__ import annotations

import json

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.other_engines.known import ENGINES


@click.command()
@click.argument("engine", type=click.Choice(list(ENGINES)))
@options.index_option
@click.option("--output", required=True, metavar="DIR", help="A new folder, or an earlier export.")
@options.json_option
def export(engine: str, index_folder: str, output: str, as_json: bool) -> None:
    """Write an index of words for a search engine that you already have.

    The folder then holds the settings of an index, files of documents, the query to use, the vocabulary, and
    LOAD.txt: the commands that load them, and the server's versions that they are for. OpenSearch and
    Elasticsearch keep nine significant bits of a weight; what that costs is printed. Ask the server with
    `lexlip search QUERY --server`.
    """
    from lexlip.other_engines.export import export as write_export

    with interruptible("nothing was changed; run the same command again"):
        done = write_export(index_folder, engine, output, progress=not as_json)
    if as_json:
        click.echo(json.dumps(done.to_dict()))
        return
    click.echo(
        f"{done.photos} photos, {done.files} file{'s' * (done.files != 1)} of documents,"
        f" {done.megabytes:.1f} MB in {done.output}, {done.seconds:.1f} s"
    )
    if done.recall is None:
        click.echo(f"every weight is exact (the largest is {done.largest})")
    else:
        click.echo(
            f"{done.rounded} weights rounded by at most {done.relative_error:.2%}; of the first 10 hits of"
            f" {done.queries} queries {done.recall:.2%} stay"
        )
    click.echo(f"for {done.versions}: {done.output}/LOAD.txt says how to load it")
