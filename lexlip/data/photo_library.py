"""The photos of an index: one or several sources, less what is excluded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from lexlip.data.concat import Concat
from lexlip.data.files import path_of
from lexlip.data.open import open_source
from lexlip.data.source import Given, Source
from lexlip.data.subset import Subset
from lexlip.errors import DataError
from lexlip.plain_text import composed


def open_library(given: Given) -> Source:
    """List photos and their captions; what is returned has `given` as an attribute.

    Raises:
        DataError: see `open_source`; a folder lies below another one, a pattern is invalid, or no photo is
            left.
    """
    _check_apart(given.sources)
    excluded = _excluder(given.exclude)
    sources = [_open(source, given, excluded) for source in given.sources]
    source = sources[0] if len(sources) == 1 else Concat(sources)
    source.given = given
    return source


def _open(name: str, given: Given, excluded: Callable[[str], bool] | None) -> Source:
    source = open_source(name, given.images, given.split, excluded)
    if excluded is None or path_of(name).is_dir():
        return source
    kept = [number for number, item in enumerate(source.items) if not excluded(item.id)]
    if not kept:
        raise DataError(f"all photos of {name} are excluded: {', '.join(given.exclude)}")
    return source if len(kept) == len(source) else Subset(source, kept)


def _excluder(patterns: Sequence[str]) -> Callable[[str], bool] | None:
    if not patterns:
        return None
    import pathspec

    try:
        spec = pathspec.GitIgnoreSpec.from_lines(map(composed, patterns))
    except ValueError as error:
        raise DataError(f"a pattern of --exclude is invalid: {error}") from error
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
