"""What indexing did."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from anserini_bridge import folder_megabytes, read_header
from lexlip.data import Skipped, Source, Unlisted
from lexlip.retrieval.seal import why_unsealed


@dataclass(frozen=True)
class Indexed:
    """An index after it was made or updated.

    Attributes:
        index: its folder.
        photos: in the index.
        postings: pairs of a photo and a word, with those of deleted photos until Lucene merges them away;
            None for a dense index.
        megabytes: on disk, in 10^6 bytes.
        seconds: that it took.
        skipped: photos that are not in the index, and files beside photos that cannot be read, with the
            reason.
        resumed: photos that an interrupted run had encoded.
        unlisted: places that could not be listed, so that photos of them may be missing.
        captions_left_out: photos whose captions and keywords are not indexed, as Anserini is missing.
        text_read: photos in which text was looked for.
        with_text: photos of the index in which it was found.
        text_unread: photos that it was not looked for in, as they are out of reach, or RapidOCR is missing.
        text_failed: photos on which RapidOCR failed; it is not asked again.
        unsealed: why no photo of the index will be sent by `lexlip serve` and `lexlip mcp`; "" if they are.
        misplaced: photos that this run has indexed without a place, as their GPS tells one that cannot be.
        files: how many files there are, by what becomes of them, see `lexlip.data.Source.files`.
    """

    index: str
    photos: int
    postings: int | None
    megabytes: float
    seconds: float
    skipped: list[Skipped]
    resumed: int = 0
    unlisted: list[Unlisted] = field(default_factory=list)
    captions_left_out: int = 0
    files: dict[str, int] = field(default_factory=dict)
    unsealed: str = ""
    text_read: int = 0
    with_text: int = 0
    text_unread: int = 0
    text_failed: int = 0
    misplaced: list[str] = field(default_factory=list)

    @property
    def missed(self) -> int | None:
        """How many photos the places hold that could not be listed; None is unknown."""
        known = [place.photos for place in self.unlisted]
        return None if None in known else sum(filter(None, known))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries and lists, as `lexlip index --json` prints it."""
        lists = {name: [one._asdict() for one in getattr(self, name)] for name in ("skipped", "unlisted")}
        return {**vars(self), **lists, "missed": self.missed}


@dataclass(frozen=True, kw_only=True)
class Updated(Indexed):
    """An index that was updated, and how many photos were what.

    Attributes:
        added, changed, deleted, unchanged: since the index was written.
        moved: photos that have another name or place now, with the same content; they are neither added nor
            deleted.
        described: unchanged photos that have other captions now.
        repaired: photos that were encoded again because the index was damaged; they are not changed.
        encoded_anew: photos that have not changed, as another model is packaged now.
        damaged_files: of the index, which were written again.
        kept: photos that stay as they were, because their place could not be listed or their file not be
            opened.
        listed_ahead: seconds by which the listing before lies in the future, as a clock was wrong.
    """

    added: int
    changed: int
    deleted: int
    unchanged: int
    moved: int = 0
    described: int = 0
    repaired: int = 0
    encoded_anew: int = 0
    damaged_files: int = 0
    kept: int = 0
    listed_ahead: float = 0.0


Report = TypeVar("Report", bound=Indexed)


def followed_by(first: Report, then: Updated) -> Report:
    """Return what was done by a run and by an update that took what the first could not know of."""
    now = {
        name: getattr(then, name)
        for name in ("photos", "postings", "megabytes", "skipped", "captions_left_out", "files", "unsealed")
    }
    if isinstance(first, Updated):
        now |= {name: getattr(first, name) + getattr(then, name) for name in ("added", "deleted", "moved")}
    misplaced = [*first.misplaced, *then.misplaced]
    return replace(first, **now, misplaced=misplaced, seconds=first.seconds + then.seconds)


def report(
    kind: type[Report],
    index: Path,
    source: Source,
    started: float,
    postings: int | None,
    skipped: Iterable[Skipped],
    resumed: int = 0,
    **more: Any,
) -> Report:
    """Return what was done since `started`, by `time.perf_counter`, when an index is complete.

    Photos that are skipped could be listed, but not indexed.
    """
    written = read_header(index)
    return kind(
        index=str(index),
        photos=written.documents,
        postings=postings,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *skipped],
        resumed=resumed,
        unlisted=list(source.unlisted),
        captions_left_out=written.extra.get("captions_left_out", 0),
        files=source.files(),
        unsealed=why_unsealed(written.extra),
        misplaced=list(source.misplaced),
        **more,
    )
