"""What indexing did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lexlip.data import Skipped


class _Report:
    skipped: list[Skipped]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries and lists, as `lexlip index --json` prints it."""
        return {**vars(self), "skipped": [skip._asdict() for skip in self.skipped]}


@dataclass(frozen=True)
class Indexed(_Report):
    """A new index.

    Attributes:
        index: its folder.
        photos: in the index.
        postings: pairs of a photo and a word; None for a dense index.
        megabytes: on disk, in 10^6 bytes.
        seconds: that it took.
        skipped: photos that are not in the index, with the reason.
    """

    index: str
    photos: int
    postings: int | None
    megabytes: float
    seconds: float
    skipped: list[Skipped]


@dataclass(frozen=True)
class Updated(_Report):
    """An updated index: numbers of photos, and its size now, as in `Indexed`.

    Attributes:
        moved: photos that have another name or place now, with the same content; they are neither added nor
            deleted.
        described: unchanged photos that have other captions now.
    """

    index: str
    added: int
    changed: int
    deleted: int
    unchanged: int
    megabytes: float
    seconds: float
    skipped: list[Skipped]
    moved: int = 0
    described: int = 0
