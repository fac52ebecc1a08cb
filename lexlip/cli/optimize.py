"""The command `lexlip optimize`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.words.plain_text import counted


@click.command()
@options.index_option
@click.option(
    "--memory",
    "memory_mb",
    type=options.Number(min=1),
    default=512,
    metavar="MB",
    help="Memory for the photos of one segment: with more memory there are fewer segments, and searches are"
    " faster.",
)
@options.json_option
def optimize(index_folder: str, memory_mb: float, as_json: bool) -> None:
    """Make an index that was updated many times as small and fast as a new one.

    It keeps answering meanwhile; open searches see the new state after a refresh. Of an index in shards those
    are rewritten that have several segments, as large tars make.
    """
    import time

    from anserini_bridge import folder_megabytes, read_header, update_index
    from lexlip.cluster.shard_indexing import megabytes_of
    from lexlip.errors import writing

    started = time.perf_counter()
    index = Path(index_folder)
    again = "nothing was changed; run the same command again to optimize"
    with interruptible(again), writing(f"the index {index}"):
        sharded = read_header(index).kind == "sharded"
        size: Callable[[Path], float] = megabytes_of if sharded else folder_megabytes
        before = size(index)
        if sharded:
            from lexlip.cluster.shard_updating import optimize_shards

            optimize_shards(index, memory_mb)
        else:
            with update_index(index, memory_mb) as writer:
                writer.optimize()
    photos = read_header(index).documents
    done = {
        "index": index_folder,
        "photos": photos,
        "megabytes_before": before,
        "megabytes": size(index),
        "seconds": time.perf_counter() - started,
    }
    if as_json:
        click.echo(json.dumps(done))
        return
    click.echo(
        f"{counted(photos, 'photo')} in {index_folder}: {before:.2f} MB before,"
        f" {done['megabytes']:.2f} MB now, {done['seconds']:.1f} s"
    )
