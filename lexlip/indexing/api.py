"""Indexes photos and updates indexes by the names of things, as the command line does."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lexlip.errors import ConfigError, needing_extras
from lexlip.machine.device import check_device
from lexlip.registry import BM25, MODELS

if TYPE_CHECKING:
    from lexlip.data import Given, Source
    from lexlip.indexing.report import Indexed, Report, Updated
    from lexlip.other_engines.export import Exported
    from lexlip.queries.photo_vectors import Progress
    from lexlip.search.engines.faiss_index import Ann
    from lexlip.sparse.quantize import Scheme

Names = str | Path | Sequence[str | Path]


@needing_extras()
def index(
    source: Names,
    index: str | Path = ".lexlip",
    model: str | Path = "mini",
    *,
    topk: int | None = 32,
    quantization: Scheme | None = None,
    ann: Ann = "flat",
    language: str = "en",
    images: str | Path | None = None,
    split: str | None = None,
    regions: str | Path | None = None,
    exclude: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    pseudo_documents: str | Path | None = None,
    anew: bool = False,
    prune: bool = False,
    text: bool | None = None,
    workers: int = 2,
    device: str = "auto",
    progress: bool = False,
) -> Indexed:
    """Make photos searchable: build an index, or bring up to date the one that was built so.

    An index of words that was made of the same source, with the same model and the same options, is updated
    as by `lexlip.update`. Any other one, and one that is damaged, is built anew; the old one answers until
    the new one is complete.

    Args:
        source: a folder, tars or a table, see `lexlip.data.open_source`; or several, which make one index.
        index: the index's folder.
        model: packaged name, folder, training run or hub name of a model, also of a CLIP; or "bm25" for the
            words of captions.
        topk: words that a photo keeps, at least 1; None keeps all. For models of words.
        quantization: how their weights become whole numbers, "balanced", "unit", "paper" or "dot"; None
            is as the model ranks: "dot", "balanced" if it can, or else "unit".
        pseudo_documents: a file to which the documents are also written, for Anserini; of models of words.
            They are all documents, so the index is built anew.
        anew: build a new index in any case.
        prune: see `lexlip.update`; a new index holds only what is there.
        text: also read the text in photos, of models of words; None is as it was before, False forgets it.
        ann: how the vectors of a dense model are searched: "flat", exactly, or "hnsw", in a graph.
        language: for bm25, see `lexlip.indexing.bm25.index_captions`.
        images, split: for files of captions, see `lexlip.data.open_source`.
        regions: for models that take what a detector found in the photos, see `lexlip.data.region_files`.
        exclude: files and folders to leave out, by patterns as in a .gitignore; or one pattern.
        include: hidden files, and folders of thumbnails and deleted files, to take all the same.
        workers: threads that decode photos.
        device: see `lexlip.machine.device.pick_device`.
        progress: show a progress bar.

    Returns:
        What is in the index, and which photos were skipped; an `Updated` if the index was updated.

    Raises:
        ConfigError: an argument has a value that it cannot have, or there is no such device.
        DataError: there are no photos, none could be read, too many of the index are gone, or the folder
            cannot be written.
        ModelError: there is no such model.
        MissingPackage: the model needs a package that an extra brings, such as torch.
        BridgeError: no Java, or the folder is not an index (see anserini_bridge.errors).
    """
    _check_settings(topk, workers, quantization, ann)
    if not names_of(source):
        raise ConfigError("there is no SOURCE: name a folder of photos, or another place of them")
    from anserini_bridge import (
        CorruptIndex,
        IndexMismatch,
        IndexVersion,
        find_anserini,
        find_jar,
        find_java,
        read_header,
    )
    from anserini_bridge.storage import check_writable
    from lexlip.data import open_library
    from lexlip.errors import writing_index
    from lexlip.indexing.reading import check_reader, with_text
    from lexlip.indexing.update import is_made_so
    from lexlip.machine.output_files import check_output
    from lexlip.models.load import check_regions, load_model
    from lexlip.models.model_folder import keep_checkpoint, kind_of, lasting_name

    kind = kind_of(model)
    words = kind in MODELS and MODELS[kind].words
    if text and not words:
        raise ConfigError(f"the text in photos is for models of words, and '{model}' is none: leave text out")
    check_reader(text)
    check_regions(regions, [model])
    if words or kind == BM25:
        find_java(), find_anserini() if kind == BM25 else find_jar()  # fail before the work
    with writing_index(index):
        check_writable(Path(index))
    if pseudo_documents is not None:
        check_output(pseudo_documents)
    given = _given(source, images, split, exclude, include)
    same = words and not anew and pseudo_documents is None
    if same and is_made_so(Path(index), "impact", given, model, topk, quantization):
        moved = lasting_name(str(model)) != read_header(index).extra.get("model")
        with suppress(CorruptIndex, IndexMismatch, IndexVersion):  # nothing was changed
            return update(
                index,
                model=model if moved else None,  # which would be loaded even if there is nothing to encode
                prune=prune,
                workers=workers,
                device=device,
                progress=progress,
                text=text,
                typed=True,
            )
    listed = time.time()  # before the listing: an update takes a photo that changes from now on
    photos = open_library(given)
    if kind == BM25:
        from lexlip.indexing.bm25 import index_captions

        return index_captions(photos, listed, index, language)

    from lexlip.data.region_files import WithRegions
    from lexlip.models.model_folder import check_model
    from lexlip.queries.photo_encoder import open_encoder

    if regions is not None:
        photos = WithRegions(photos, str(regions))
    check_model(model)
    keep_checkpoint(model)
    encoder: Any = open_encoder(model, device) if words else load_model(model, device).fold_batch_norms()
    name = lasting_name(str(model))
    if encoder.vocabulary is None:
        from lexlip.indexing.dense import index_vectors

        return index_vectors(encoder, name, photos, listed, index, ann, workers, progress)
    from lexlip.indexing.impact import index_photos

    of_words = topk, quantization, pseudo_documents
    done = index_photos(encoder, name, photos, listed, index, *of_words, workers, progress)
    done = _with_hidden(done, photos, listed, workers=workers, device=device, progress=progress, typed=True)
    return with_text(done, text, workers, progress)


@needing_extras()
def update(
    index: str | Path = ".lexlip",
    source: Names = (),
    model: str | Path | None = None,
    *,
    topk: int | Literal["all"] | None = None,
    quantization: Scheme | None = None,
    images: str | Path | None = None,
    split: str | None = None,
    exclude: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    prune: bool = False,
    repair: bool = False,
    text: bool | None = None,
    workers: int = 2,
    device: str = "auto",
    progress: bool | Progress = False,
    typed: bool = False,
) -> Updated:
    """Update an index of words that is not in shards; see `lexlip.update`, which takes both.

    `progress` and `typed` are those of `lexlip.indexing.update.update_photos`; a source that is given is
    typed.
    """
    from anserini_bridge import find_jar, find_java
    from anserini_bridge.storage import check_writable
    from lexlip.data import Given, open_library
    from lexlip.errors import writing_index
    from lexlip.indexing.changes import damaged_copies
    from lexlip.indexing.reading import check_reader, with_text
    from lexlip.indexing.update import header_to_update, update_photos
    from lexlip.retrieval.collection import given_again

    _check_settings(None if topk == "all" else topk, workers, quantization)
    check_reader(text)
    find_java(), find_jar()
    header = header_to_update(Path(index))
    with writing_index(index):
        check_writable(Path(index), header.directory)
    given = _given(source, images, split, exclude, include)
    named = bool(given.sources)
    if not given.sources or "given" in header.extra:
        before = given_again(header.extra, Path(index))
        named = named and (images is not None or before.images is None)
        given = Given(
            given.sources or before.sources,
            given.images or before.images,
            given.split or before.split,
            given.exclude or before.exclude,
            given.include or before.include,
        )
    check_device(device)  # also where nothing is to be encoded
    listed = time.time()
    photos = open_library(given)
    if damaged := damaged_copies(Path(index), photos):
        photos = open_library(given, damaged)
    how: dict[str, Any] = {
        "model_name": None if model is None else str(model),
        "workers": workers,
        "device": device,
        "progress": progress,
        "prune": prune,
        "typed": typed or named,
    }
    done = update_photos(photos, listed, index, topk_words=topk, scheme=quantization, repair=repair, **how)
    done = _with_hidden(done, photos, listed, damaged, **how)
    return with_text(done, text, workers, progress)


def _with_hidden(
    done: Report, photos: Source, listed: float, damaged: Collection[str] = (), **how: Any
) -> Report:
    """Also index the files of photos that the run found to be damaged in the file that people look at.

    Args:
        done: what the run did.
        photos, listed: what it has indexed, see `lexlip.indexing.update.update_photos`, and `how`.
        damaged: such photos that were known before it.
    """
    from lexlip.data import open_library
    from lexlip.indexing.changes import damaged_copies
    from lexlip.indexing.report import followed_by
    from lexlip.indexing.update import update_photos

    assert photos.given is not None
    damaged = set(damaged)
    while found := damaged_copies(Path(done.index), photos):
        damaged |= found
        photos = open_library(photos.given, damaged)
        done = followed_by(done, update_photos(photos, listed, done.index, **how))
    return done


def export_photos(
    source: Names,
    engine: str,
    output: str | Path,
    model: str | Path = "mini",
    *,
    name: str,
    progress: bool = False,
    **how: Any,
) -> Exported:
    """Index photos in a hidden folder beside the export, export them, and delete the index.

    An interrupted run leaves that folder, so that the same call goes on where it was.

    Args:
        source, model, how: see `lexlip.indexing.api.index`; the model is one of words.
        engine, output, name: see `lexlip.other_engines.export.export`.

    Raises:
        ConfigError: the model is not one of words, or the engine takes no such name.
    """
    from lexlip.errors import writing
    from lexlip.models.model_folder import kind_of
    from lexlip.other_engines.engine_contract import other_engine
    from lexlip.other_engines.export import check_folder, export

    other_engine(engine).check_name(name)
    kind = kind_of(model)
    if kind == BM25 or kind not in MODELS or not MODELS[kind].words:
        raise ConfigError(f"only words are exported, and '{model}' is not a model of words")
    output = Path(output)
    check_folder(output)
    folder = output.absolute().with_name(f".{output.absolute().name}.indexing")
    index(source, folder, model, progress=progress, **how)
    done = export(folder, engine, output, progress, name)
    with writing(str(folder)):
        shutil.rmtree(folder)
    return done


def _check_settings(
    topk: int | None, workers: int, quantization: Scheme | None = None, ann: Ann = "flat"
) -> None:
    """Raise ConfigError unless these can be used."""
    from lexlip.sparse.quantize import SCHEMES

    for name, number, least, or_none in (
        ("topk", topk, 1, ", or None for all words"),
        ("workers", workers, 0, ""),
    ):
        if number is not None and (not isinstance(number, Integral) or number < least):
            raise ConfigError(f"{name} is {number!r}: give a whole number of at least {least}{or_none}")
    if quantization not in (None, *SCHEMES):
        raise ConfigError(f"quantization is {quantization!r}: give one of {', '.join(SCHEMES)}")
    if ann not in ("flat", "hnsw"):
        raise ConfigError(f"ann is {ann!r}: give flat or hnsw")


def _given(
    source: Names, images: str | Path | None, split: str | None, exclude: Names, include: Names
) -> Given:
    from lexlip.data import Given

    where = None if images is None else str(images)
    return Given(names_of(source), where, split, names_of(exclude), names_of(include))


def names_of(source: Names) -> tuple[str, ...]:
    """Return the names of sources, given one or several."""
    return (str(source),) if isinstance(source, str | Path) else tuple(map(str, source))
