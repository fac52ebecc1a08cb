"""The photos behind an index: where they lie, and what has changed there since they were listed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lexlip.data import Source
from lexlip.errors import DataError


def describe_collection(source: Source, index: Path, listed: float) -> dict[str, Any]:
    """What an index stores of its source.

    listed:   when the listing of the photos began, in seconds since 1970
    source:   what the user gave
    root:     the folder that ids are paths below; else paths: {id: path}
    relative: whether source and root are paths from the index on, as they are where the index lies below
              the root, so that all can be moved together

    Raises:
        DataError: a name that is not UTF-8, which the index could not store.
    """
    paths = {item.id: source.path(number) for number, item in enumerate(source.items)}
    first_id, first_path = next(iter(paths.items()))
    root = first_path.removesuffix(first_id)
    given = str(Path(source.name).expanduser().absolute())
    try:
        f"{root}{given}{index.absolute()}".encode()
    except UnicodeEncodeError:
        raise DataError(f"a folder above {source.name} or {index} has a name that is not UTF-8") from None
    if any(path != root + id for id, path in paths.items()):
        return {"listed": listed, "source": given, "paths": paths}
    relative = bool(root) and index.resolve().is_relative_to(Path(root).resolve())
    if relative:
        given, root = (os.path.relpath(Path(path).resolve(), index.resolve()) for path in (given, root))
    return {"listed": listed, "source": given, "root": root, "relative": relative}


def locate(id: str, extra: dict[str, Any], index: Path) -> str:
    """The path of an indexed photo, from what `describe_collection` returned."""
    if "paths" in extra:
        return str(extra["paths"].get(id, id))
    root = (index.resolve() / extra["root"]).resolve() if extra["relative"] else Path(extra["root"])
    return str(root / id)


def check_same_collection(extra: dict[str, Any], described: dict[str, Any], index: Path) -> None:
    """Compares what an index has stored of its source with what `describe_collection` says now.

    Raises:
        DataError: it is another source, or the index is too old to tell.
    """
    if "listed" not in extra:
        raise DataError(
            f"the index {index} does not say when its photos were listed, as older ones do not:"
            " index once without --update"
        )
    for name in ("source", "root"):
        was, now = (_place(place, name, index) for place in (extra, described))
        if was != now:
            raise DataError(
                f"the index {index} was made of {was}, not of {now}: update it from there,"
                " or index without --update"
            )


def check_same_photos(first: dict[str, Any], second: dict[str, Any], index: Path, other: Path) -> None:
    """Compares what two indexes have stored of their sources, by which an id is the same photo in both.

    Raises:
        DataError: ids are paths below different folders.
    """
    one, two = _place(first, "root", index), _place(second, "root", other)
    if one != two:
        raise DataError(
            f"{index} and {other} are no indexes of the same photos: these are named from {one} in the one,"
            f" and from {two} in the other"
        )


def _place(extra: dict[str, Any], name: str, index: Path) -> Path | str:
    """The source or the root that an index has stored."""
    return (index.resolve() / extra[name]).resolve() if name in extra else "several folders"


@dataclass(frozen=True)
class Changes:
    """Photos of a source by their index there, and what an index holds besides."""

    new: list[int]
    changed: list[int]
    gone: list[str]  # ids
    unchanged: int


def find_changes(source: Source, held: Iterable[str], extra: dict[str, Any]) -> Changes:
    """Compares a source with the ids that an index holds and what it has stored of the source.

    A photo has changed if its file, or the tar that it is in, has, as `make` sees it; it is not opened.
    """
    newer = cache(lambda file: _changed_after(file, extra["listed"]))
    paths = extra.get("paths", {})
    gone = set(held)
    new, changed, unchanged = [], [], 0
    for number, item in enumerate(source.items):
        if item.id not in gone:
            new.append(number)
            continue
        gone.remove(item.id)
        moved = item.id in paths and paths[item.id] != source.path(number)
        if moved or newer(source.file(number)):
            changed.append(number)
        else:
            unchanged += 1
    return Changes(new, changed, sorted(gone), unchanged)


def _changed_after(file: str, time: float) -> bool:
    """Whether a file, or a link to it, was written later, or put in its place with an older date."""
    try:
        found = (os.stat(file), os.lstat(file))  # noqa: PTH116 (a Path for each file is slow)
    except OSError:  # reading it says why
        return True
    return max(max(status.st_mtime, status.st_ctime) for status in found) > time
