"""What an index stores about its photos and its model, in `extra` of index.json: its form."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from anserini_bridge import CorruptIndex, IndexHeader, IndexMetadata
from anserini_bridge.given_files import check_form
from anserini_bridge.storage import METADATA_FILE


class _Sources(TypedDict):
    sources: list[tuple[str] | tuple[str, str, str]]
    images: tuple[str] | tuple[str, str, str] | None
    split: str | None
    exclude: list[str]


class _Given(_Sources, total=False):
    include: list[str]


class _Captions(TypedDict):
    folder: str
    language: str
    documents: int


class _Place(TypedDict):
    root: str
    relative: bool


class _Seal(TypedDict):
    code: str
    tables: dict[str, str]


class _Extra(TypedDict, total=False):
    model: str | None
    listed: float
    source: str
    given: _Given
    photos: str
    reader: int
    paths: dict[str, str]
    captions: _Captions
    captions_left_out: int
    kept: dict[str, float]
    mounts: dict[str, str]
    seal: _Seal


class _Quantization(TypedDict):
    scheme: str
    scale: float


def check_stored(index: Path, header: IndexHeader) -> None:
    """Check the form of what an index of photos stores; older ones lack some of it.

    Raises:
        CorruptIndex: it has another form.
    """
    try:
        check_form(header.extra, _Extra, "extra")
        if "root" in header.extra:
            check_form(header.extra, _Place, "extra")
        for name in (header.extra.get("photos"), header.extra.get("captions", {}).get("folder")):
            if name is not None and ("/" in name or name in ("", ".", "..")):
                raise ValueError(f"{name!r} is no name of a file")
        if isinstance(header, IndexMetadata):
            check_form(header.quantization, _Quantization, "quantization")
    except ValueError as error:
        raise CorruptIndex(f"{index / METADATA_FILE} is damaged ({error}): build the index again") from None
