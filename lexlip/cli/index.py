"""lexlip index"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lexlip.cli import options
from lexlip.cli.failures import interruptible

if TYPE_CHECKING:
    from lexlip.data import Skipped
    from lexlip.sparse.quantize import Scheme

SHOWN = 10  # skipped files named on the screen


@click.command()
@click.argument("source", default=".")
@options.topk_option
@options.index_option
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@options.quantization_option
@click.option(
    "--pseudo-documents", metavar="FILE", help="Write the documents for Anserini too (JsonVectorCollection)."
)
@options.images_option
@options.split_option
@options.workers_option
@options.json_option
def index(
    source: str,
    topk: int,
    index_folder: str,
    model: str,
    quantization: Scheme,
    pseudo_documents: str | None,
    images: str | None,
    split: str | None,
    workers: int,
    as_json: bool,
) -> None:
    """Make photos searchable.

    SOURCE is a folder (searched with all its sub-folders), a tar or a pattern of tars in img2dataset's
    layout, a Karpathy JSON, or a TSV or CSV table. An index that is already there keeps answering
    until the new one is complete.
    """
    from pathlib import Path

    from anserini_bridge import find_jar, find_java
    from lexlip.data import open_source

    with interruptible("nothing was changed; run the same command again to index"):
        find_java(), find_jar()  # fail before the work, and before the seconds that loading torch takes
        photos = open_source(source, images, split)

        from lexlip.models.dual_encoder import model_folder
        from lexlip.models.lexlip import LexLIP
        from lexlip.search.indexing import index_photos

        folder = model_folder(model)
        # a folder is remembered by its place, a packaged model by its name
        remembered = str(folder.resolve()) if folder == Path(model) else model
        encoder = LexLIP.from_pretrained(folder)
        done = index_photos(
            encoder,
            remembered,
            photos,
            index_folder,
            topk,
            quantization,
            pseudo_documents,
            workers,
            progress=not as_json,
        )
    if as_json:
        click.echo(json.dumps(done.to_dict()))
        return
    show_skipped(done.skipped, " (--json lists all)")
    size = f"{done.megabytes:.1f} MB" if done.megabytes >= 1 else f"{1000 * done.megabytes:.0f} kB"
    click.echo(
        f"{done.photos} photos, {done.postings} postings, {size} in {done.index},"
        f" {done.seconds:.1f} s ({done.photos / done.seconds:.0f} photos/s)"
    )


def show_skipped(skipped: Sequence[Skipped], hint: str = "") -> None:
    """Say on stderr which files were left out, and why."""
    if not skipped:
        return
    click.echo(f"{len(skipped)} skipped:", err=True)
    for id, reason in skipped[:SHOWN]:
        click.echo(f"  {id}: {reason}", err=True)
    if len(skipped) > SHOWN:
        click.echo(f"  … and {len(skipped) - SHOWN} more{hint}", err=True)
