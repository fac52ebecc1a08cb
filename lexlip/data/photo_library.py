"""The photos of an index: one or several sources, less what is left out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from lexlip.data.concat import Concat
from lexlip.data.files import path_of
from lexlip.data.folder import FolderSource
from lexlip.data.left_out import Matches, why_left_out
from lexlip.data.open import open_source
from lexlip.data.source import Given, Source
from lexlip.data.subset import Subset
from lexlip.data.webdataset import WebDatasetSource
from lexlip.errors import DataError
from lexlip.words.plain_text import composed


def open_library(given: Given) -> Source:
    """List photos and their captions; what is returned has `given` as an attribute.

    Raises:
        DataError: see `open_source`; a folder lies below another one, a pattern is invalid, or no photo is
            left.
    """
    _check_apart(given.sources)
    excluded, included = _matcher(given.exclude, "--exclude"), _matcher(given.include, "--include")
    sources = [_open(source, given, excluded, included) for source in given.sources]
    source = sources[0] if len(sources) == 1 else Concat(sources)
    source.given = given
    return source


def _open(name: str, given: Given, excluded: Matches | None, included: Matches | None) -> Source:
    source = open_source(name, given.images, given.split, excluded, included)
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


def _matcher(patterns: Sequence[str], option: str) -> Matches | None:
    if not patterns:
        return None
    import pathspec

    try:
        spec = pathspec.GitIgnoreSpec.from_lines(map(composed, patterns))
    except ValueError as error:
        raise DataError(f"a pattern of {option} is invalid: {error}") from error
    return lambda path: spec.match_file(composed(path))


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
