"""The command `lexlip export`."""

from __future__ import annotations

import json
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.other_engines.engine_contract import ENGINES
from lexlip.words.plain_text import counted


@click.command()
@click.argument("engine", type=click.Choice(list(ENGINES)))
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@options.index_option
@click.option("--output", required=True, metavar="DIR", help="A new folder, or an earlier export.")
@click.option("--name", default="photos", metavar="NAME", help="The index's name there.")
@options.model_option(options.DEFAULT_MODEL, "Model of words that encodes the photos of SOURCE.")
@options.topk_option(all_words=True)
@options.quantization_option
@options.patterns_options
@options.reading_options
@click.pass_context
def export(
    context: click.Context,
    engine: str,
    sources: tuple[str, ...],
    index_folder: str,
    output: str,
    name: str,
    as_json: bool,
    **of_photos: Any,
) -> None:
    """Write an index of words, or the photos of a SOURCE, for a search engine that you already have.

    The folder then holds the settings of an index, files of documents, the query to use, the vocabulary, and
    LOAD.txt: a script that loads them, for the server's versions that it names. OpenSearch and
    Elasticsearch keep nine significant bits of a weight; what that costs is printed. Ask the server with
    `lexlip search QUERY --server`.

    Without SOURCE an index is written that is there already. With SOURCE, which `lexlip index` describes, the
    same is written as if its photos had been indexed first, and no index stays.
    """
    from lexlip.other_engines.export import export as write_export

    if sources and options.given(context, "index_folder") is not None:
        raise click.UsageError("--index is an index to export: leave it or SOURCE out")
    if not sources:
        options.refuse(context, of_photos, "is for a SOURCE, and none is given")
    how: dict[str, Any] = {"name": name, "progress": not as_json}
    with interruptible(f"nothing was changed; run the same command again{' to go on' if sources else ''}"):
        if sources:
            from lexlip.indexing.api import export_photos

            done = export_photos(sources, engine, output, **of_photos, **how)
        else:
            done = write_export(index_folder, engine, output, **how)
    if as_json:
        click.echo(json.dumps(done.to_dict()))
        return
    click.echo(
        f"{counted(done.photos, 'photo')}, {counted(done.files, 'file')} of documents,"
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
