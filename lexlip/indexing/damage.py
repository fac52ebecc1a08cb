"""Damaged files of an index: which there are, whose photos they hold, and what an update can repair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anserini_bridge import (
    BridgeError,
    CorruptIndex,
    Damaged,
    ImpactSearcher,
    IndexHeader,
    IndexMetadata,
    find_damage,
    read_header,
    read_metadata,
    restore_words,
)
from anserini_bridge.flat import FLAT, flat_file
from anserini_bridge.integrity import LUCENE_FOLDER
from anserini_bridge.metadata import VOCABULARY_FILE
from lexlip.errors import DataError
from lexlip.indexing.table_writer import TABLE
from lexlip.machine.progress import ProgressBar
from lexlip.models.model_folder import model_folder, read_words
from lexlip.registry import BM25, WITH_WORDS
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo_table import open_photos
from lexlip.search.stages.index_model import check_encoder

WORDS = IndexMetadata.kind


@dataclass(frozen=True)
class Damage:
    """The damaged files of an index.

    Attributes:
        header: what `index.json` says; an `IndexMetadata` if it is an index of words.
        unknown: names of files without a checksum, as older versions wrote them.
        megabytes: that were read, in 10^6 bytes.
    """

    index: Path
    header: IndexHeader
    files: list[Damaged]
    unknown: list[str]
    megabytes: float

    @property
    def segments(self) -> list[str]:
        """Lucene's segments of the photos' words that cannot be read."""
        return sorted({file.segment for file in self.files if self._is_in(LUCENE_FOLDER, file)} - {""})

    @property
    def hopeless(self) -> Damaged | None:
        """A file without which nothing can be kept."""
        found = (file for file in self.files if self._is_in(LUCENE_FOLDER, file) and not file.segment)
        return next(found, None)

    def has(self, name: str | None) -> bool:
        """Return whether a file of the data folder, or one in a folder there, is damaged."""
        return name is not None and any(
            self._is_in(name, file) or file.file == self._data / name for file in self.files
        )

    def kept(self, extra: dict[str, Any]) -> dict[str, Any]:
        """Return what `index.json` says beside, without what is damaged: the table and the captions."""
        lost = set()
        if self.has(extra.get("photos")):
            lost = {"photos", "captions"}  # the captions are compared with those of the table
        elif self.has(extra.get("captions", {}).get("folder")):
            lost = {"captions"}
        return {name: value for name, value in extra.items() if name not in lost}

    def photos(self) -> list[str] | None:
        """Return the ids of the photos whose words or vectors are damaged; None if that cannot be told."""
        table = self.header.extra.get("photos")
        beside = {table, VOCABULARY_FILE, self.header.extra.get("captions", {}).get("folder")}
        names = [file.file.relative_to(self._data).parts[0] for file in self.files]
        if all(name in beside or name.startswith(FLAT) for name in names):
            return []
        if self.has(table):
            return None
        try:
            with open_photos(self.index, self.header) as table:
                photos = set(table.select(Filters()))
            if self.header.kind == WORDS and not self.hopeless:
                with ImpactSearcher(self.index, without=self.segments) as searcher:
                    photos -= set(searcher.ids())
        except (BridgeError, DataError):
            return None
        return sorted(photos)

    def way_out(self) -> str:
        """Return a sentence that says how to mend the index."""
        if self.header.kind not in WITH_WORDS or self.hopeless:
            return f"build the index at {self.index} again, with `lexlip index` and its SOURCE"
        return (
            f"only what is damaged is encoded again by `lexlip index --index {self.index} --update --repair`"
        )

    def refuse(self) -> None:
        """Raise CorruptIndex if anything is damaged."""
        if self.files:
            raise CorruptIndex.at(self.index, self.files)

    def prepare_repair(self, model: str | None) -> None:
        """Restore the list of words if it is damaged; an update repairs the rest.

        `model` is where the model is now; None is where it was.

        Raises:
            CorruptIndex: nothing can be kept.
            ModelError: the model, which has the words, is not there or is damaged.
        """
        if self.hopeless is not None:
            raise CorruptIndex(f"{self.hopeless}, and nothing can be kept: build the index again")
        if self.has(VOCABULARY_FILE):
            metadata = read_metadata(self.index)
            words = read_words(model_folder(check_encoder(self.index, metadata, model)) / VOCABULARY_FILE)
            restore_words(self.index, metadata, words)

    @property
    def _data(self) -> Path:
        return self.index / self.header.directory

    def _is_in(self, folder: str, file: Damaged) -> bool:
        return file.file.parent == self._data / folder


def look_for_damage(index: str | Path, progress: bool = False) -> Damage:
    """Read every file of an index of any kind and compare it with its checksum.

    A bar shows the progress if it is wanted, and takes more than two seconds.

    Raises:
        BridgeError: `index.json` is damaged, or there is no index, or no Java.
    """
    index = Path(index)
    while True:
        damage = _look(index, progress)
        if not damage.files or damage.header == _header(index):  # otherwise an update has just replaced files
            return damage


def _look(index: Path, progress: bool) -> Damage:
    header = _header(index)
    data = index / header.directory
    lucene = {LUCENE_FOLDER: header.commit} if isinstance(header, IndexMetadata) else {}
    if header.kind == BM25:
        lucene[LUCENE_FOLDER] = ""
    if "captions" in header.extra:
        lucene[header.extra["captions"]["folder"]] = ""
    names = {path.name for path in data.glob("*") if path.is_file()} - header.files.keys() - {VOCABULARY_FILE}
    used = {header.extra.get("photos"), flat_file(header) if isinstance(header, IndexMetadata) else ""}
    interrupted = {name for name in names - used if TABLE.fullmatch(name) or name.startswith(FLAT)}
    unknown = sorted(names - interrupted)
    total = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    read = 0
    with ProgressBar(
        total=total, unit="B", unit_scale=True, desc="verify", disable=not progress, delay=2
    ) as bar:

        def done(size: int) -> None:
            nonlocal read
            read += size
            bar.update(size)

        files = find_damage(index, header, lucene, done)
    return Damage(index, header, files, unknown, read / 1e6)


def _header(index: Path) -> IndexHeader:
    header = read_header(index)
    return read_metadata(index) if header.kind == WORDS else header
