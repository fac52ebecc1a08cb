"""One shard of a sharded index: an index of words of its own, whose answers are put together with others'.

DIR/index.json says which shards there are, in their order; DIR/data-<n>/shard-<digest>/ is an index of words
as anserini_bridge.storage describes it. A shard never changes: other photos, another model or other settings
make a shard of another name. An update names other shards, all at once; the data folder before stays until
the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from anserini_bridge import (
    CorruptIndex,
    ImpactSearcher,
    IndexMetadata,
    read_header,
    read_metadata,
    read_metadata_as,
)
from anserini_bridge.storage import METADATA_FILE, checksum
from lexlip.data import UnreadableImage
from lexlip.retrieval.engine import Results
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo_table import Photo, open_photos
from lexlip.retrieval.sending import Allowed
from lexlip.retrieval.stored_facts import check_stored


class ShardEntry(TypedDict):
    """What `index.json` says about a shard.

    Attributes:
        folder: its name in the data folder.
        tar: its tar, with which the ids of its photos begin.
        documents: how many it holds.
    """

    folder: str
    tar: str
    documents: int


@dataclass(frozen=True, kw_only=True)
class ShardedMetadata(IndexMetadata):
    """What `index.json` says about a sharded index; `files` has the checksums of all files of all shards.

    Attributes:
        shards: in the order in which equal scores come.
    """

    kind: str = "sharded"
    shards: list[ShardEntry]


def read_sharded(index: Path) -> ShardedMetadata:
    """Read `index.json` of a sharded index.

    Raises:
        BridgeError: see `read_metadata_as`.
    """
    metadata = read_metadata_as(ShardedMetadata, index)
    check_stored(index, metadata)
    for entry in metadata.shards:
        if "/" in entry["folder"] or entry["folder"] in ("", ".", ".."):
            raise CorruptIndex(f"{index} is damaged ({entry['folder']!r} is no name): build the index again")
    return metadata


def read_index_of_words(index: Path) -> IndexMetadata:
    """Read `index.json` of an index of words, whole or in shards.

    Raises:
        BridgeError: see `read_metadata_as`.
    """
    return read_sharded(index) if read_header(index).kind == "sharded" else read_metadata(index)


def files_of(metadata: ShardedMetadata, shard: ShardEntry) -> dict[str, str]:
    """Return the checksums of a shard's files, by their path in the shard's folder."""
    within = f"{shard['folder']}/"
    return {name.removeprefix(within): sum for name, sum in metadata.files.items() if name.startswith(within)}


def version_of(shard: ShardEntry, files: Mapping[str, str]) -> str:
    """Return what tells a shard from every other one, given the checksums of its files."""
    return f"{shard['folder']}-{files[METADATA_FILE]}"


def wrong_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Return the names of files in a shard's folder that are missing, or differ from their checksums."""
    wrong = []
    for name, sum in files.items():
        try:
            if checksum(folder / name) != sum:
                wrong.append(name)
        except OSError:
            wrong.append(name)
    return wrong


class OpenShard:
    """A shard that answers; everything that goes in and comes out can be sent to another machine.

    Args:
        folder: the shard's.
        version: the checksum of the shard's own `index.json`.

    Raises:
        CorruptIndex: it is another shard than the one that was indexed.
        BridgeError: it cannot be opened.

    Attributes:
        users: states of the index that share it; for those who open it.
    """

    users = 0

    def __init__(self, folder: Path, version: str) -> None:
        metadata = read_metadata(folder)
        if checksum(folder / METADATA_FILE) != version:
            raise CorruptIndex(
                f"{folder} is not the shard that was indexed: copy it again, or mend it with"
                " `lexlip index --update --repair`"
            )
        self.searcher = ImpactSearcher(folder)
        try:
            self.photos = open_photos(folder, metadata)
        except BaseException:
            self.searcher.close()
            raise

    def close(self) -> None:
        """Close the index and the table."""
        self.photos.close()
        self.searcher.close()

    # ---- the index; see `ImpactSearcher` ----

    def search(
        self, queries: csr_matrix, k: int, threads: int, alpha: float, allowed: NDArray[np.bool_] | None
    ) -> Results:
        return self.searcher.search(queries, k, threads, alpha, allowed)

    def contributions(self, query: csr_matrix, ids: Sequence[str]) -> csr_matrix:
        return self.searcher.contributions(query, ids)

    def vectors(self, ids: Sequence[str]) -> csr_matrix:
        return self.searcher.vectors(ids)

    def numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        return self.searcher.numbers(ids)

    def holding(self, columns: Sequence[int]) -> NDArray[np.bool_]:
        return self.searcher.holding(columns)

    def frequencies(self) -> NDArray[np.int64]:
        return self.searcher.frequencies()

    def ids(self) -> list[str]:
        return self.searcher.ids()

    def words(self) -> tuple[str, ...]:
        return self.searcher.vocabulary

    # ---- the table; see `PhotoTable` ----

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        return self.photos.get(ids)

    def paths(self) -> dict[str, str]:
        return self.photos.paths()

    def taken(self, ids: Sequence[str]) -> list[str | None]:
        return self.photos.taken(ids)

    def select(self, filters: Filters) -> list[str]:
        return self.photos.select(filters)

    def same_name(self, id: str) -> list[str]:
        return self.photos.same_name(id)

    def facets(self) -> dict[str, Any]:
        return self.photos.facets()

    def read(self, id: str) -> bytes:
        with _pickled():
            return self.photos.read(id)

    def send_allowed(self, id: str, allowed: Allowed) -> bytes:
        with _pickled():
            return self.photos.send_allowed(id, allowed)


@contextmanager
def _pickled() -> Iterator[None]:
    """Raise an error about a photo as one that can be sent to another machine."""
    try:
        yield
    except UnreadableImage as error:
        raise UnreadableImage(str(error)) from None
