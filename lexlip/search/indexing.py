"""Builds an index of photos: encode, keep the K heaviest words, quantise, write."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.sparse import csr_matrix, vstack

from anserini_bridge import ImpactWriter, folder_megabytes, read_metadata, write_json_vectors
from lexlip.data import Skipped, Source
from lexlip.encoding import PhotoVectors
from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP
from lexlip.search.engines import describe
from lexlip.sparse.quantize import Scheme, quantize
from lexlip.sparse.topk import topk


@dataclass(frozen=True)
class Indexed:
    """What was written."""

    index: str
    photos: int
    postings: int
    megabytes: float
    seconds: float
    skipped: list[Skipped]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "skipped": [skip._asdict() for skip in self.skipped]}


def index_photos(
    model: LexLIP,
    model_name: str,
    source: Source,
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
        index: the index's folder.
        topk_terms: words that a photo keeps; None keeps all.
        scheme: see `lexlip.sparse.quantize`.
        pseudo_documents: a .jsonl file to write the same documents to, in the format of Anserini's
            JsonVectorCollection; they are held in memory for it.
        workers: processes that decode photos.
        progress: show a progress bar.

    Raises:
        DataError: none of the photos could be read, or the folder cannot be written; the old index stays.
        BridgeError: no Java, or the folder is not an index (see anserini_bridge.errors).
    """
    started = time.perf_counter()
    index = Path(index)
    extra = {"model": model_name, **locations(source, index)}
    photos = PhotoVectors(model, source, workers=workers, progress="index" if progress else None)
    batches = iter(photos)
    batch = next(batches, None)  # forks the workers, before the writer starts a JVM
    if batch is None:
        id, reason = photos.skipped[0]
        raise DataError(f"no photo in {source.name} can be read ({len(source)} tried; {id}: {reason})")
    try:
        with ImpactWriter(
            index,
            model.vocabulary.words,
            encoder=model.identity,
            quantization=describe(scheme),
            topk=topk_terms,
            normalize=scheme == "unit",
            extra=extra,
        ) as writer:
            documents: list[tuple[list[str], csr_matrix]] = []
            while batch is not None:
                ids, vectors = batch
                impacts = quantize(topk(vectors, topk_terms), scheme)
                writer.add(ids, impacts)
                if pseudo_documents is not None:
                    documents.append((ids, impacts))
                batch = next(batches, None)
            if pseudo_documents is not None:
                _write_pseudo_documents(pseudo_documents, documents, model.vocabulary.words)
    except OSError as error:
        raise DataError(f"cannot write the index {index}: {error.strerror or error}") from error
    written = read_metadata(index)
    return Indexed(
        index=str(index),
        photos=written.documents,
        postings=written.postings,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *photos.skipped],
    )


def _write_pseudo_documents(
    path: str | Path, documents: list[tuple[list[str], csr_matrix]], words: Sequence[str]
) -> None:
    ids = [id for batch, _ in documents for id in batch]
    impacts = vstack([rows for _, rows in documents], format="csr")
    try:
        write_json_vectors(path, ids, impacts, words)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def locations(source: Source, index: Path) -> dict[str, Any]:
    """Where each photo of a source lies: {"root": folder} where ids are paths below it, else {"paths": ...}.

    The root is relative to the index where the index lies below it, so that both can be moved together.

    Raises:
        DataError: a name that is not UTF-8, which the index could not store.
    """
    paths = {item.id: source.path(number) for number, item in enumerate(source.items)}
    first_id, first_path = next(iter(paths.items()))
    root = first_path.removesuffix(first_id)
    try:
        f"{root}{index.absolute()}".encode()
    except UnicodeEncodeError:
        raise DataError(f"a folder above {source.name} or {index} has a name that is not UTF-8") from None
    if any(path != root + id for id, path in paths.items()):
        return {"paths": paths}
    if root and index.resolve().is_relative_to(Path(root).resolve()):
        return {"root": os.path.relpath(Path(root).resolve(), index.resolve()), "relative": True}
    return {"root": root, "relative": False}


def locate(id: str, extra: dict[str, Any], index: Path) -> str:
    """The path of an indexed photo, from what `locations` stored."""
    if "paths" in extra:
        return str(extra["paths"].get(id, id))
    root = (index.resolve() / extra["root"]).resolve() if extra["relative"] else Path(extra["root"])
    return str(root / id)
