"""Updates an index of words: encodes new and changed photos, and deletes those that are gone.

What loads torch is imported only if photos have to be encoded, so an update without changes is quick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anserini_bridge import (
    ImpactSearcher,
    IndexMetadata,
    IndexNotFound,
    folder_megabytes,
    read_header,
    read_metadata,
    update_index,
)
from lexlip.data import Source
from lexlip.errors import ConfigError, DataError
from lexlip.indexing.changes import Changes, find_changes
from lexlip.indexing.report import Updated, writing_to
from lexlip.indexing.table_writer import TableWriter, remove_old_tables
from lexlip.models.model_folder import lasting_name
from lexlip.retrieval.collection import check_same_collection, describe_collection
from lexlip.retrieval.photo_table import open_photos
from lexlip.sparse.quantize import Scheme

if TYPE_CHECKING:
    from lexlip.indexing.impact import Impacts
    from lexlip.photo_vectors import PhotoVectors


def update_photos(
    source: Source,
    listed: float,
    index: str | Path,
    model_name: str | None = None,
    topk_words: int | None = None,
    scheme: Scheme | None = None,
    workers: int = 2,
    device: str = "auto",
    progress: bool = False,
) -> Updated:
    """Make an index of words match its source again, in one commit.

    Searches see all changes at once, after a refresh. An update that fails or is interrupted changes nothing.

    Args:
        source, listed, index, workers, progress: see `lexlip.indexing.impact.index_photos`.
        model_name: where the model is now; None is where it was.
        topk_words, scheme: None takes those that the index was made with; others are refused.

    Raises:
        DataError: there is no index, it is of another source, or the folder cannot be written.
        ConfigError: the index was made with other settings.
        ModelError: the model that made the index does not exist, or another one is named.
        BridgeError: no Java, or the index cannot be read (see anserini_bridge.errors).
    """
    started = time.perf_counter()
    index = Path(index)
    metadata = _made_with(index, topk_words, scheme)
    described = describe_collection(source, index, listed)
    check_same_collection(metadata.extra, described, index)
    model = metadata.extra.get("model") if model_name is None else lasting_name(model_name)
    extra = {"model": model, **described}
    writer = update_index(index)
    with ImpactSearcher(index) as searcher:
        changes = find_changes(source, searcher.ids(), _with_paths(index, metadata))

    photos: PhotoVectors | None = None
    batches: Iterator[Impacts] = iter(())
    if changes.new or changes.changed or model_name is not None:
        photos, batches = _encode(index, metadata, model_name, source, changes, workers, device, progress)
    batch = next(batches, None)  # before anything is written
    encoded: set[str] = set()
    changed = {source.items[number].id for number in changes.changed}
    gone = set(changes.gone)
    if batch is not None or changed or gone or model != metadata.extra.get("model"):
        with writing_to(index), writer:
            held = read_metadata(index).extra.get("photos")
            remove_old_tables(writer.folder, keep=held)
            with TableWriter(writer.folder, index, source, held) as table:
                while batch is not None and photos is not None:
                    writer.upsert(*batch)
                    encoded.update(batch[0])
                    table.add(photos.take_facts(batch[0]))
                    batch = next(batches, None)
                gone |= changed - encoded  # those that cannot be read any more
                writer.delete(sorted(gone))
                table.delete(gone)
                opened = {*changes.new, *changes.changed}
                table.refresh(number for number in range(len(source)) if number not in opened)
            writer.set_extra({**extra, "photos": table.name})
    return Updated(
        index=str(index),
        added=len(encoded - changed),
        changed=len(encoded & changed),
        deleted=len(gone),
        unchanged=changes.unchanged,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *(photos.skipped if photos else ())],
    )


def _encode(
    index: Path,
    metadata: IndexMetadata,
    model_name: str | None,
    source: Source,
    changes: Changes,
    workers: int,
    device: str,
    progress: bool,
) -> tuple[PhotoVectors, Iterator[Impacts]]:
    from lexlip.indexing.impact import impacts
    from lexlip.photo_vectors import PhotoVectors
    from lexlip.search.stages.index_model import load_encoder

    encoder = load_encoder(index, metadata, model_name, device)
    photos = PhotoVectors(
        encoder,
        source,
        workers=workers,
        progress="index" if progress else None,
        indices=sorted([*changes.new, *changes.changed]),
        facts=True,
    )
    return photos, impacts(photos, metadata.topk, metadata.quantization["scheme"])


def _with_paths(index: Path, metadata: IndexMetadata) -> dict[str, Any]:
    """Return what an index stores about its source, with where photos are, unless their ids say it."""
    extra = metadata.extra
    if "paths" in extra or "root" in extra:
        return extra
    with open_photos(index, metadata) as table:
        return {**extra, "paths": table.paths()}


def _made_with(index: Path, topk_words: int | None, scheme: Scheme | None) -> IndexMetadata:
    """Return what an index of words says about itself, if it was made with these settings; None is any."""
    try:
        header = read_header(index)
    except IndexNotFound:
        raise DataError(f"there is no index {index} to update: index once without --update") from None
    if header.kind != IndexMetadata.kind:
        raise ConfigError(
            f"the index {index} was made with {header.encoder}, and only an index of words can be updated:"
            " index without --update"
        )
    metadata = read_metadata(index)
    for option, was, given in (
        ("--topk", metadata.topk, topk_words),
        ("--quantization", metadata.quantization.get("scheme"), scheme),
    ):
        if given is not None and given != was:
            raise ConfigError(
                f"the index {index} was made with {option} {was}, not {given}: leave {option} out,"
                " or index without --update"
            )
    return metadata
