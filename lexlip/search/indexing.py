"""Builds an index of words, and makes it follow its photos: encode, keep the K heaviest, quantise, write.

What loads torch is imported where photos are encoded: an update with nothing to encode answers at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_matrix, vstack

from anserini_bridge import (
    ImpactSearcher,
    ImpactWriter,
    IndexMetadata,
    IndexNotFound,
    folder_megabytes,
    read_header,
    read_metadata,
    update_index,
    write_json_vectors,
)
from lexlip.data import Skipped, Source
from lexlip.errors import ConfigError, DataError
from lexlip.search.collection import check_same_collection, describe_collection, find_changes
from lexlip.search.engines import describe
from lexlip.sparse.quantize import Scheme, quantize
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from lexlip.encoding import PhotoVectors
    from lexlip.models.lexlip import LexLIP

Batch = tuple[list[str], csr_matrix]  # ids, whole weights [n, V]


class _Report:
    skipped: list[Skipped]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "skipped": [skip._asdict() for skip in self.skipped]}


@dataclass(frozen=True)
class Indexed(_Report):
    """What was written; a dense index has no postings."""

    index: str
    photos: int
    postings: int | None
    megabytes: float
    seconds: float
    skipped: list[Skipped]


@dataclass(frozen=True)
class Updated(_Report):
    """What an update did: numbers of photos, and how the index is now."""

    index: str
    added: int
    changed: int
    deleted: int
    unchanged: int
    megabytes: float
    seconds: float
    skipped: list[Skipped]


def index_photos(
    model: LexLIP,
    model_name: str,
    source: Source,
    listed: float,
    index: str | Path,
    topk_terms: int | None = 32,
    scheme: Scheme = "unit",
    pseudo_documents: str | Path | None = None,
    workers: int = 2,
    progress: bool = False,
) -> Indexed:
    """Index the photos of a source; an index that is already there answers until the new one is complete.

    Args:
        model: the encoder.
        model_name: by which a search finds the model again.
        source: the photos.
        listed: the time before they were listed, in seconds since 1970; what changes later is encoded
            again by an update.
        index: the index's folder.
        topk_terms: words that a photo keeps; None keeps all.
        scheme: see `lexlip.sparse.quantize`.
        pseudo_documents: a .jsonl file to write the same documents to, in the format of Anserini's
            JsonVectorCollection; they are held in memory for it.
        workers: threads that decode photos.
        progress: show a progress bar.

    Raises:
        DataError: none of the photos could be read, or the folder cannot be written; the old index stays.
        BridgeError: no Java, or the folder is not an index (see anserini_bridge.errors).
    """
    from lexlip.encoding import PhotoVectors

    started = time.perf_counter()
    index = Path(index)
    extra = {"model": model_name, **describe_collection(source, index, listed)}
    photos = PhotoVectors(model, source, workers=workers, progress="index" if progress else None)
    batches = _impacts(photos, topk_terms, scheme)
    batch = next(batches, None)  # before anything is written
    if batch is None:
        raise photos.none_read()
    writer = ImpactWriter(
        index,
        model.vocabulary.words,
        encoder=model.identity,
        quantization=describe(scheme),
        topk=topk_terms,
        normalize=scheme == "unit",
        extra=extra,
    )
    documents: list[Batch] = []
    with writing_to(index), writer:
        while batch is not None:
            writer.add(*batch)
            if pseudo_documents is not None:
                documents.append(batch)
            batch = next(batches, None)
        if pseudo_documents is not None:
            _write_pseudo_documents(pseudo_documents, documents, model.vocabulary.words)
    written = read_metadata(index)
    return Indexed(
        index=str(index),
        photos=written.documents,
        postings=written.postings,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *photos.skipped],
    )


def update_photos(
    source: Source,
    listed: float,
    index: str | Path,
    model_name: str | None = None,
    topk_terms: int | None = None,
    scheme: Scheme | None = None,
    workers: int = 2,
    progress: bool = False,
) -> Updated:
    """Make an index follow its source: encode photos that are new or changed, delete those that are gone.

    Searches see all of it at once, after a refresh; an update that fails or ends early changes nothing.

    Args:
        source, listed, index, workers, progress: as for `index_photos`.
        model_name, topk_terms, scheme: None takes those that the index was made with; others are refused.

    Raises:
        DataError: no index, another source, or the folder cannot be written.
        ConfigError: the index was made with other settings.
        ModelError: the model that made the index is not there, or the one named is another.
        BridgeError: no Java, or the index cannot be read (see anserini_bridge.errors).
    """
    started = time.perf_counter()
    index = Path(index)
    metadata = _made_with(index, topk_terms, scheme)
    described = describe_collection(source, index, listed)
    check_same_collection(metadata.extra, described, index)
    writer = update_index(index, extra={"model": metadata.extra.get("model"), **described})
    found = find_changes(source, _ids(index), metadata.extra)

    photos: PhotoVectors | None = None
    batches: Iterator[Batch] = iter(())
    if found.new or found.changed or model_name is not None:
        from lexlip.encoding import PhotoVectors
        from lexlip.search.encoder import load_encoder

        encoder = load_encoder(index, metadata, model_name)
        photos = PhotoVectors(
            encoder,
            source,
            workers=workers,
            progress="index" if progress else None,
            indices=sorted([*found.new, *found.changed]),
        )
        batches = _impacts(photos, metadata.topk, metadata.quantization["scheme"])
    batch = next(batches, None)  # before anything is written
    encoded: set[str] = set()
    changed = {source.items[number].id for number in found.changed}
    gone = set(found.gone)
    if batch is not None or changed or gone:
        with writing_to(index), writer:
            while batch is not None:
                writer.upsert(*batch)
                encoded.update(batch[0])
                batch = next(batches, None)
            gone |= changed - encoded  # they cannot be read any more
            writer.delete(sorted(gone))
    return Updated(
        index=str(index),
        added=len(encoded - changed),
        changed=len(encoded & changed),
        deleted=len(gone),
        unchanged=found.unchanged,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *(photos.skipped if photos else ())],
    )


def _made_with(index: Path, topk_terms: int | None, scheme: Scheme | None) -> IndexMetadata:
    """What an index says about itself, if it is there and was made with these settings; None is any."""
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
        ("--topk", metadata.topk, topk_terms),
        ("--quantization", metadata.quantization.get("scheme"), scheme),
    ):
        if given is not None and given != was:
            raise ConfigError(
                f"the index {index} was made with {option} {was}, not {given}: leave {option} out,"
                " or index without --update"
            )
    return metadata


def _ids(index: Path) -> list[str]:
    with ImpactSearcher(index) as searcher:
        return searcher.ids()


def _impacts(photos: PhotoVectors, topk_terms: int | None, scheme: Scheme) -> Iterator[Batch]:
    for ids, vectors in photos:
        yield ids, quantize(topk(vectors, topk_terms), scheme)


@contextmanager
def writing_to(index: Path) -> Iterator[None]:
    """Says of an index's folder that it cannot be written, where that is so."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write the index {index}: {error.strerror or error}") from error


def _write_pseudo_documents(path: str | Path, documents: list[Batch], words: Sequence[str]) -> None:
    ids = [id for batch, _ in documents for id in batch]
    impacts = vstack([rows for _, rows in documents], format="csr")
    try:
        write_json_vectors(path, ids, impacts, words)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
