"""One shard of a sharded index: an index of words of its own, whose answers are put together with others'.

DIR/index.json says which shards there are, in their order; DIR/data-<n>/shard-<digest>/ is an index of words
as anserini_bridge.storage describes it. A shard never changes: other photos, another model or other settings
make a shard of another name. An update names other shards, all at once; the data folder before stays until
the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

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
from lexlip.retrieval.collection import check_stored
from lexlip.retrieval.photo_table import open_photos

OF_PHOTOS = frozenset(
    {"get", "paths", "dates", "dates_of", "select", "same_name", "facets", "read", "send_sealed"}
    | {"given_counts", "given", "having", "spelled_like", "held", "places", "located"}
)
"""Methods of `PhotoTable` that a shard is asked for; all others are of `ImpactSearcher`."""


class ShardEntry(TypedDict):
    """What `index.json` says about a shard: its folder, its tar, with which its ids begin, and its photos."""

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
    """Read `index.json` of a sharded index; BridgeError: see `read_metadata_as`."""
    metadata = read_metadata_as(ShardedMetadata, index)
    check_stored(index, metadata)
    for entry in metadata.shards:
        if "/" in entry["folder"] or entry["folder"] in ("", ".", ".."):
            raise CorruptIndex(f"{index} is damaged ({entry['folder']!r} is no name): build the index again")
    return metadata


def read_index_of_words(index: Path) -> IndexMetadata:
    """Read `index.json` of an index of words, whole or in shards; BridgeError: see `read_metadata_as`."""
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

    def is_right(name: str) -> bool:
        try:
            return checksum(folder / name) == files[name]
        except OSError:
            return False

    return [name for name in files if not is_right(name)]


class OpenShard:
    """A shard that answers; everything that goes in and comes out can be sent to another machine.

    `version` is the checksum of the shard's own `index.json`.

    Raises:
        BridgeError: it is another shard than the one that was indexed, or cannot be opened.
    """

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

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the shard's table of photos returns, or one of its searcher."""
        asked = self.photos if method in OF_PHOTOS else self.searcher
        try:
            return getattr(asked, method)(*arguments)
        except UnreadableImage as error:  # which only so can be sent to another machine
            raise UnreadableImage(str(error)) from None
