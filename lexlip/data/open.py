"""Opens photos by what the user names: a folder, tars, a file of captions, or drawn scenes."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lexlip.config import RegionsConfig, SourceConfig
from lexlip.data.caption_files import SUFFIXES as OF_CAPTIONS
from lexlip.data.caption_files import CaptionedSource, FurtherTexts, read_entries
from lexlip.data.files import path_of, reason_of
from lexlip.data.folder import FolderSource, Listing, Matches, same_photos, walk, why_left_out
from lexlip.data.images import ENDINGS, SUFFIXES
from lexlip.data.region_files import WithRegions
from lexlip.data.scenes import Scenes
from lexlip.data.source import Concat, Given, Skipped, Source, Subset
from lexlip.data.tar_shards import WebDatasetSource, match_tars
from lexlip.errors import DataError
from lexlip.words.plain_text import composed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MOST_SCENES = 1_000_000
_PATTERN = re.compile(r"[*?\[{]")


def open_sources(configs: Sequence[SourceConfig], wanted: RegionsConfig | None = None) -> Source:
    """List the photos of all sources of a config as one; DataError: a source is missing or has no photos.

    With `wanted`, each source has regions, and those of its first photo are read, to see whether they fit.
    """
    sources: list[Source] = []
    for config in configs:
        source = open_source(config.path, config.images, config.split)
        further = config.captions or config.words
        source = FurtherTexts(source, config.captions, config.words) if further else source
        sources.append(source if config.regions is None else WithRegions(source, config.regions))
        if wanted is not None:
            sources[-1].regions(0, wanted)
    return sources[0] if len(sources) == 1 else Concat(sources)


def open_source(
    spec: str | Path,
    images: str | Path | None = None,
    split: str | None = None,
    excluded: Matches | None = None,
    included: Matches | None = None,
    damaged: Collection[str] = (),
) -> Source:
    """List photos and their captions.

    `spec` is a folder of photos, or of webdataset tars, with everything below it; a tar, or a pattern of tars
    ("train-{0000..0002}.tar", "*.tar"); a file of captions, either a table (.tsv, .csv, .txt) or JSON (.json,
    .jsonl; see `read_json`); one photo; or scenes:COUNT:SEED, which are drawn.

    For files of captions `images` says where the photos are (a folder of photos or of tars, a tar, or a
    pattern of tars; else the folder of the file), and `split` which of them to take (else all). For folders
    `excluded` says what to leave out, `included` what to take that would be left out, see
    `lexlip.data.folder.why_left_out`, and `damaged` which photos stand for no other file, see
    `lexlip.data.folder.walk`.

    DataError: nothing is there, nothing of it can be used, or `images` or `split` do not apply to it.
    """
    name, path = str(spec) or "''", path_of(spec)
    there = _is_there(path, name)
    if not there and name.startswith("scenes:"):
        _refuse(f"{name} is drawn", images, split)
        return _draw_scenes(name)
    if not there and _PATTERN.search(name):
        _refuse(f"{name} is a pattern of tars, which hold their photos themselves", images, split)
        return WebDatasetSource(match_tars(str(path)), name)
    if not there:
        raise DataError(f"{name} does not exist")
    suffix = path.suffix.lower()
    if path.is_file() and suffix in OF_CAPTIONS:
        where = path.parent if images is None else path_of(images)
        if images is not None:
            _is_there(where, str(images))
        skipped: list[Skipped] = []
        return CaptionedSource(name, read_entries(path, name, skipped), where, split, skipped)
    _refuse(f"{name} holds its photos itself", images, split)
    if path.is_dir():
        return _open_folder(path, name, excluded, included, damaged)
    if path.is_file() and suffix == ".tar":
        return WebDatasetSource([path], name)
    if path.is_file() and suffix in SUFFIXES:
        return _open_photo(path, name)
    raise DataError(
        f"{name} is not a folder, a photo, a tar, a table (.tsv, .csv) or captions in JSON (.json, .jsonl)"
    )


def _is_there(path: Path, name: str) -> bool:
    """Return whether a user names something that exists; DataError: unknown, and it is no pattern."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # a ValueError: no path can hold this
        if _PATTERN.search(name):
            return False
        why = reason_of(error) if isinstance(error, OSError) else str(error)
        raise DataError(f"{name} cannot be opened: {why}") from error
    return True


def _refuse(why: str, images: str | Path | None, split: str | None) -> None:
    """Raise DataError if `images` or `split` was given to a source that has neither."""
    for option, value in (("images", images), ("split", split)):
        if value is not None:
            raise DataError(f"{why}: {option} is for tables and JSON files of captions")


def _draw_scenes(name: str) -> Source:
    numbers = re.fullmatch(r"scenes:(\d{1,18}):(\d{1,18})", name)
    if numbers is None or int(numbers[1]) == 0:
        raise DataError(f"{name} is not of the form scenes:COUNT:SEED, such as scenes:4000:0")
    if int(numbers[1]) > MOST_SCENES:
        raise DataError(f"{name} are more pictures than can be listed: draw at most {MOST_SCENES:,}")
    return Scenes(int(numbers[1]), int(numbers[2]))


def _open_photo(path: Path, name: str) -> Source:
    try:
        beside = os.listdir(path.parent)  # noqa: PTH208
    except OSError:  # a folder may be opened by those who know what is in it
        beside = []
    ends: tuple[tuple[str, ...], ...] = (".txt",), (".xmp", ".json")
    texts, sides = ({other for other in beside if other.lower().endswith(end)} for end in ends)
    photos = sorted(other for other in beside if other.lower().endswith(SUFFIXES))
    same = {other: photo for other, photo in same_photos(photos).items() if photo == path.name}
    return FolderSource(path.parent, Listing([path.name], [], texts, [], sides, [], same=same), name)


def _open_folder(
    path: Path,
    name: str,
    excluded: Matches | None,
    included: Matches | None,
    damaged: Collection[str],
) -> Source:
    listing = walk(path, excluded, included, damaged)
    if listing.tars and not listing.photos:
        source = WebDatasetSource([path / tar for tar in listing.tars], name)
        source.skipped += listing.skipped
        source.left = listing.left
        source.unlisted = [*source.unlisted, *listing.unlisted]
        return source
    if not listing.photos:
        why = f"; {listing.skipped[0].id}: {listing.skipped[0].reason}" if listing.skipped else ""
        why += f"; {hidden} hidden, which --include takes" if (hidden := listing.left["hidden"]) else ""
        left = " that --exclude leaves" if excluded else ""
        raise DataError(f"no photos below {name}{left}: looked for {', '.join(ENDINGS)} and tars{why}")
    return FolderSource(path, listing, name)


def open_library(given: Given, damaged: Collection[str] = ()) -> Source:
    """List photos and their captions; what is returned has `given` as an attribute.

    For the paths of `damaged` photos see `lexlip.data.folder.walk`.

    DataError: see `open_source`; a folder lies below another one, a pattern is invalid, or no photo is left.
    """
    _check_apart(given.sources)
    below = "patterns are of paths below the folder"
    above = f"{below}, and what is hidden above them must be taken, too"
    excluded = _Patterns(given.exclude, "--exclude", "left out nothing", below) if given.exclude else None
    included = _Patterns(given.include, "--include", "took nothing more", above) if given.include else None
    sources = [_open_given(source, given, excluded, included, damaged) for source in given.sources]
    source = sources[0] if len(sources) == 1 else Concat(sources)
    noted = source.noted if isinstance(source, Concat) else source.skipped
    noted[:0] = [skip for patterns in (excluded, included) if patterns for skip in patterns.unused()]
    source.given = given
    return source


def _open_given(
    name: str,
    given: Given,
    excluded: Matches | None,
    included: Matches | None,
    damaged: Collection[str],
) -> Source:
    source = open_source(name, given.images, given.split, excluded, included, damaged)
    if path_of(name).is_dir() and isinstance(source, FolderSource):
        return source
    in_tars = isinstance(source, WebDatasetSource)  # a table names its photos one by one

    def fate(id: str) -> str:
        if in_tars and (why := why_left_out(id, included)):
            return why
        return "excluded" if excluded is not None and excluded(id) else ""

    fates = [fate(item.id) for item in source.items] if in_tars or excluded else []
    kept = [number for number, why in enumerate(fates) if not why]
    if len(kept) == len(fates):
        return source
    if not kept:
        if "excluded" in fates:
            raise DataError(f"all photos of {name} are excluded: {', '.join(given.exclude)}")
        raise DataError(f"all photos of {name} are hidden, thumbnails or deleted files: --include takes them")
    subset = Subset(source, kept)
    subset.left = source.left + Counter(filter(None, fates))
    return subset


class _Patterns:
    """Patterns of an option: called with a path below a source, they say whether one matches it."""

    def __init__(self, patterns: Sequence[str], option: str, what: str, advice: str) -> None:
        self._patterns, self._option, self._what, self._advice = patterns, option, what, advice
        # on a command line, # begins no comment, but #recycle/
        lines = [f"\\{line}" if line.startswith("#") else line for line in map(composed, patterns)]
        for line in lines:
            if not _is_pattern(line):
                raise DataError(f"a pattern of {option} is invalid: '{line}'")
        self._parsed = _parse_patterns(lines)
        self._used: set[int | None] = set()

    def __call__(self, path: str) -> bool:
        found = self._parsed.check_file(composed(path))
        self._used.add(found.index)
        return bool(found.include)

    def unused(self) -> Iterator[Skipped]:
        """Yield what to say of patterns that have matched nothing, or not before another one did."""
        for number, pattern in enumerate(self._patterns):
            if number not in self._used:
                advice = f": {self._advice}" if "/" in pattern.rstrip("/") else ""
                yield Skipped(".", f"{self._option} '{pattern}' {self._what}{advice}")


def _is_pattern(line: str) -> bool:
    """Return whether a line can match anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # of a set in a set, such as [[:alpha:]]
        try:
            return [pattern.include is None for pattern in _parse_patterns([line]).patterns] == [False]
        except (ValueError, re.error, FutureWarning):
            return False


def _parse_patterns(lines: Sequence[str]) -> GitIgnoreSpec:
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(lines)


def _check_apart(sources: Sequence[str]) -> None:
    """Raise DataError if a source is named twice, or lies below another one."""
    places = [os.path.realpath(path_of(source)) for source in sources]
    for number, place in enumerate(places):
        for other, above in enumerate(places):
            if number < other and place == above:
                raise DataError(f"{sources[other]} is given twice: leave it out once")
            if place.startswith(f"{above}/"):
                raise DataError(
                    f"{sources[number]} lies in {sources[other]}, whose photos include it: leave it out"
                )
