"""The photos behind an index: which ones they are, and where they lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lexlip.data import Source
from lexlip.errors import DataError


def describe_collection(source: Source, index: Path, listed: float) -> dict[str, Any]:
    """Return what an index stores about its source.

    Args:
        source: the photos.
        index: the index's folder.
        listed: when the listing of the photos began, in seconds since 1970.

    Returns:
        "listed" and "source" (what the user gave). Then, if ids are paths below one folder, "root", that
        folder, with "relative": whether source and root are relative to the index. They are if the index
        lies below the root. Where each photo is, its table says (`lexlip.retrieval.photo_table`).

    Raises:
        DataError: a name is not UTF-8, so the index cannot store it.
    """
    root = source.path(0).removesuffix(source.items[0].id)
    given = str(Path(source.name).expanduser().absolute())
    try:
        "".join([root, given, str(index.absolute()), *source.roots]).encode()
    except UnicodeEncodeError:
        raise DataError(f"a folder above {source.name} or {index} has a name that is not UTF-8") from None
    if any(source.path(number) != root + item.id for number, item in enumerate(source.items)):
        return {"listed": listed, "source": given}
    relative = bool(root) and index.resolve().is_relative_to(Path(root).resolve())
    if relative:
        given, root = (os.path.relpath(Path(path).resolve(), index.resolve()) for path in (given, root))
    return {"listed": listed, "source": given, "root": root, "relative": relative}


def locate(id: str, extra: dict[str, Any], index: Path) -> str:
    """Return the path of a photo of an index without a table, or whose ids are paths below one folder."""
    if "paths" in extra or "root" not in extra:
        return str(extra.get("paths", {}).get(id, id))
    root = (index.resolve() / extra["root"]).resolve() if extra["relative"] else Path(extra["root"])
    return str(root / id)


def check_same_collection(extra: dict[str, Any], described: dict[str, Any], index: Path) -> None:
    """Compare what an index stores about its source with what `describe_collection` returns now.

    Raises:
        DataError: it is another source, or the index is too old to tell.
    """
    if "listed" not in extra:
        raise DataError(
            f"the index {index} is too old to say when its photos were listed: index once without --update"
        )
    for name in ("source", "root"):
        was, now = (_place(place, name, index) for place in (extra, described))
        if was != now:
            raise DataError(
                f"the index {index} was made from {was}, not from {now}: update it from there,"
                " or index without --update"
            )


def check_same_photos(first: dict[str, Any], second: dict[str, Any], index: Path, other: Path) -> None:
    """Check that an id means the same photo in two indexes.

    Raises:
        DataError: ids are paths below different folders.
    """
    one, two = _place(first, "root", index), _place(second, "root", other)
    if one != two:
        raise DataError(
            f"{index} and {other} are not indexes of the same photos: the ids of the first are paths below"
            f" {one}, those of the second paths below {two}"
        )


def _place(extra: dict[str, Any], name: str, index: Path) -> Path | str:
    """Return the source or the root that an index stores."""
    return (index.resolve() / extra[name]).resolve() if name in extra else "several folders"
