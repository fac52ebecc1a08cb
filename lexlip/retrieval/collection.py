"""What an index stores about its photos, in `extra` of index.json: which they are, and where they lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from anserini_bridge import CorruptIndex, IndexHeader, IndexMetadata
from anserini_bridge.given_files import check_form
from anserini_bridge.storage import METADATA_FILE
from lexlip.data.files import mount_points
from lexlip.errors import DataError

if TYPE_CHECKING:
    from lexlip.data import Given, Source


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
    text: int
    mounts: dict[str, str]
    seal: _Seal


class _Quantization(TypedDict):
    scheme: str
    scale: float


def check_stored(index: Path, header: IndexHeader) -> None:
    """Raise CorruptIndex if what an index of photos stores has another form; older ones lack some of it."""
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


def describe_collection(source: Source, index: Path, listed: float) -> dict[str, Any]:
    """Return what an index stores about its source, whose listing began at `listed`, in seconds since 1970.

    Returns:
        "listed", "source" (what the user gave), and "given", see `store_given`. If ids are paths below one
        folder, "root", that folder, with "relative": whether source and root are relative to the index, as
        they are if it lies below the root. "mounts", if disks are mounted among the photos.

    Raises:
        DataError: a name is not UTF-8, so the index cannot store it.
    """
    root = source.path(0).removesuffix(source.items[0].id)
    given = str(Path(source.name).expanduser().absolute())
    try:
        "".join([root, given, str(index.absolute()), *source.roots]).encode()
    except UnicodeEncodeError:
        raise DataError(f"a folder above {source.name} or {index} has a name that is not UTF-8") from None
    named = {} if source.given is None else {"given": store_given(source.given, index)}
    if mounts := mount_points(map(source.file_id, range(len(source)))):
        named["mounts"] = mounts
    if any(source.path(number) != root + item.id for number, item in enumerate(source.items)):
        return {"listed": listed, "source": given, **named}
    relative = bool(root) and index.resolve().is_relative_to(Path(root).resolve())
    if relative:
        given, root = (os.path.relpath(Path(path).resolve(), index.resolve()) for path in (given, root))
    return {"listed": listed, "source": given, "root": root, "relative": relative, **named}


def store_place(path: str, index: Path) -> tuple[str, str]:
    """Return a path as an index stores it: as it is, absolute, and relative to the index."""
    absolute = str(Path(path).expanduser().absolute())
    try:
        return absolute, os.path.relpath(os.path.realpath(absolute), index.resolve())
    except ValueError:  # another drive of Windows
        return absolute, absolute


def place_now(absolute: str, relative: str, index: Path) -> str:
    """Return where a path that an index stores is now.

    If there is something at the place relative to the index, that counts, so that an index can be moved with
    its photos; otherwise the absolute path does, so that it can be moved alone.
    """
    beside = os.path.normpath(index.resolve() / relative)
    try:
        moved = os.path.exists(beside) and not (  # noqa: PTH110
            os.path.exists(absolute) and os.path.samefile(beside, absolute)  # noqa: PTH110, PTH121
        )
    except OSError:
        moved = False
    return beside if moved else absolute


def given_again(extra: dict[str, Any], index: Path) -> Given:
    """Return what an index was made of, given what it stores; DataError: it is too old to tell."""
    from lexlip.data import Given

    if "given" in extra:
        stored = extra["given"]
        images = stored["images"]
        return Given(
            tuple(_named_now(place, index) for place in stored["sources"]),
            None if images is None else _named_now(images, index),
            stored["split"],
            tuple(stored["exclude"]),
            tuple(stored.get("include", ())),
        )
    if "source" not in extra:
        raise DataError(f"the index {index} is too old to say what it was made of: give its SOURCE")
    return Given((_place(extra, "source", index),))


def store_given(given: Given, index: Path) -> dict[str, Any]:
    """Return what a user named as an index stores it."""
    return {
        "sources": [_store_name(source, index) for source in given.sources],
        "images": None if given.images is None else _store_name(given.images, index),
        "split": given.split,
        "exclude": list(given.exclude),
        "include": list(given.include),
    }


def _store_name(name: str, index: Path) -> list[str]:
    """Return a source as an index stores it: a folder and what of it, as patterns name no file."""
    path = Path(name).expanduser()
    if not path.exists() and not path.parent.is_dir():  # a pattern of folders
        return [str(path.absolute())]
    if not path.exists() and name.startswith("scenes:"):
        return [name]
    folder, rest = (path, "") if path.is_dir() else (path.parent, path.name)
    return [*store_place(str(folder), index), rest]


def _named_now(stored: list[str], index: Path) -> str:
    if len(stored) == 1:
        return stored[0]
    absolute, relative, rest = stored
    folder = place_now(absolute, relative, index)
    return str(Path(folder) / rest) if rest else folder


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
    if "given" in extra and "given" in described:
        was, now = (given_again(one, index) for one in (extra, described))
        pairs = [(was.sources, now.sources), (_images(was), _images(now))]
    else:
        names = ("source", "root")
        pairs = [((_place(extra, name, index),), (_place(described, name, index),)) for name in names]
    for one, other in pairs:
        if [*map(os.path.realpath, one)] != [*map(os.path.realpath, other)]:
            raise DataError(
                f"the index {index} was made from {' '.join(one)}, not from {' '.join(other)}: update it from"
                " there, or index without --update"
            )


def _images(given: Given) -> tuple[str, ...]:
    return () if given.images is None else (given.images,)


def root_of(extra: dict[str, Any], index: Path) -> str:
    """Return the folder below which all ids of an index are paths, where it is now; "" if there is none."""
    root: str = extra.get("root", "")
    if not root:
        return ""
    for stored in () if extra["relative"] else extra.get("given", {}).get("sources", ()):
        if len(stored) == 3 and f"{root}/".startswith(f"{stored[0]}/"):
            root = place_now(stored[0], stored[1], index) + root.removeprefix(stored[0])
            break
    return str((index.resolve() / root).resolve())


def check_same_photos(first: dict[str, Any], second: dict[str, Any], index: Path, other: Path) -> None:
    """Raise DataError if an id means other photos in a second index: it is a path below another folder."""
    one, two = (root_of(*of) or "several folders" for of in ((first, index), (second, other)))
    if one != two:
        raise DataError(
            f"{index} and {other} are not indexes of the same photos: the ids of the first are paths below"
            f" {one}, those of the second paths below {two}"
        )


def _place(extra: dict[str, Any], name: str, index: Path) -> str:
    """Return the source or the root that an index stores."""
    return str((index.resolve() / extra[name]).resolve()) if name in extra else "several folders"
