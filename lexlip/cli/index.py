"""lexlip index"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lexlip.cli import options
from lexlip.cli.failures import interruptible

if TYPE_CHECKING:
    from lexlip.data import Skipped
    from lexlip.models.lexlip import LexLIP
    from lexlip.search.indexing import Indexed, Updated
    from lexlip.sparse.quantize import Scheme

SHOWN = 10  # skipped files named on the screen


@click.command()
@click.argument("source", default=".")
@options.topk_option
@options.index_option
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@options.quantization_option
@click.option(
    "--update",
    is_flag=True,
    help="Encode only photos that are new or changed since the last time, and delete those that are gone.",
)
@click.option(
    "--pseudo-documents", metavar="FILE", help="Write the documents for Anserini too (JsonVectorCollection)."
)
@options.images_option
@options.split_option
@options.workers_option
@options.json_option
@click.pass_context
def index(
    context: click.Context,
    source: str,
    topk: int,
    index_folder: str,
    model: str,
    quantization: Scheme,
    update: bool,
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

    With --update the index that is there follows its SOURCE, with the model and the settings that it was
    made with. A photo has changed if its file, or the tar that it is in, was changed (mtime or ctime) after
    the last indexing began.
    """
    import time

    from anserini_bridge import find_jar, find_java
    from lexlip.data import open_source

    if update and pseudo_documents is not None:
        raise click.UsageError("--pseudo-documents writes all documents: not together with --update.")
    with interruptible(
        f"nothing was changed; run the same command again to {'update' if update else 'index'}"
    ):
        find_java(), find_jar()  # fail before the work, and before the seconds that loading torch takes
        listed = time.time()  # before the listing: a photo that changes from now on is taken next time
        photos = open_source(source, images, split)

        from lexlip.search.indexing import index_photos, update_photos

        done: Indexed | Updated
        if update:
            done = update_photos(
                photos,
                listed,
                index_folder,
                model_name=_given(context, "model"),
                topk_terms=_given(context, "topk"),
                scheme=_given(context, "quantization"),
                workers=workers,
                progress=not as_json,
            )
        else:
            encoder, model_name = _load(model)
            done = index_photos(
                encoder,
                model_name,
                photos,
                listed,
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
    click.echo(_summary(done))


def _given(context: click.Context, option: str) -> Any:
    """What the user gave for an option; None if it has its default."""
    by_default = context.get_parameter_source(option) is ParameterSource.DEFAULT
    return None if by_default else context.params[option]


def _load(model: str) -> tuple[LexLIP, str]:
    """A model, and the name by which a search finds it: a folder's place, a packaged one's name."""
    from pathlib import Path

    from lexlip.models.folder import model_folder
    from lexlip.models.lexlip import LexLIP

    folder = model_folder(model)
    encoder = LexLIP.from_pretrained(folder).fold_batch_norms()
    return encoder, str(folder.resolve()) if folder == Path(model) else model


def _summary(done: Indexed | Updated) -> str:
    from lexlip.search.indexing import Updated

    if isinstance(done, Updated):
        encoded = done.added + done.changed
        what = (
            f"{done.added} added, {done.changed} changed, {done.deleted} deleted, {done.unchanged} unchanged"
        )
    else:
        encoded = done.photos
        what = f"{done.photos} photos, {done.postings} postings"
    size = f"{done.megabytes:.1f} MB" if done.megabytes >= 1 else f"{1000 * done.megabytes:.0f} kB"
    rate = f" ({encoded / done.seconds:.0f} photos/s)" if encoded else ""
    return f"{what}, {size} in {done.index}, {done.seconds:.1f} s{rate}"


def show_skipped(skipped: Sequence[Skipped], hint: str = "") -> None:
    """Say on stderr which files were left out, and why."""
    if not skipped:
        return
    click.echo(f"{len(skipped)} skipped:", err=True)
    for id, reason in skipped[:SHOWN]:
        click.echo(f"  {id}: {reason}", err=True)
    if len(skipped) > SHOWN:
        click.echo(f"  … and {len(skipped) - SHOWN} more{hint}", err=True)
