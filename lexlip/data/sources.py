"""What a user names -> a source of photos."""

import glob
import re
from collections.abc import Iterator
from pathlib import Path

from lexlip.data.folder import FolderSource, Listing, walk
from lexlip.data.images import SUFFIXES
from lexlip.data.source import Source
from lexlip.data.webdataset import WebDatasetSource
from lexlip.errors import DataError


def open_source(spec: str | Path, images: str | Path | None = None, split: str | None = None) -> Source:
    """Lists photos and their captions.

    spec is one of
    - a folder of photos, or of webdataset tars, with everything below it
    - a tar, or a pattern of tars: "train-{0000..0002}.tar", "*.tar"
    - one photo

    Raises DataError if nothing is there, or nothing that can be used.
    """
    name, path = str(spec), Path(spec).expanduser()
    if images is not None or split is not None:
        raise DataError(f"{name} has no splits and holds its images itself")
    if path.is_dir():
        return _open_folder(path, name)
    if path.is_file() and path.suffix.lower() == ".tar":
        return WebDatasetSource([path], name)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        texts = {path.with_suffix(".txt").name} if path.with_suffix(".txt").is_file() else set()
        return FolderSource(path.parent, Listing([path.name], [], texts, []), name)
    if path.exists():
        raise DataError(f"{name} is not a folder, a tar or a photo")
    if re.search(r"[*?\[{]", name):
        return WebDatasetSource(match_tars(str(path)), name)
    raise DataError(f"{name} does not exist")


def _open_folder(path: Path, name: str) -> Source:
    listing = walk(path)
    if listing.tars and not listing.photos:
        source = WebDatasetSource([path / tar for tar in listing.tars], name)
        source.skipped += listing.skipped
        return source
    if not listing.photos:
        looked_for = ", ".join(SUFFIXES)
        raise DataError(f"no photos below {name}: looked for {looked_for} and .tar")
    return FolderSource(path, listing, name)


def match_tars(pattern: str) -> list[Path]:
    """The tars that a pattern names, in order. Braces may hold a range or a list: {000..012}, {train,val}.

    Raises DataError if there is none, or if one that braces spell out is missing."""
    paths: dict[Path, None] = {}
    for name in expand_braces(pattern):
        found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (a pattern may be absolute)
        if not found and not glob.has_magic(name):
            raise DataError(f"{name} does not exist (named by {pattern})")
        paths.update((Path(path), None) for path in found if path.lower().endswith(".tar"))
    if not paths:
        raise DataError(f"no tar matches {pattern}")
    return list(paths)


def expand_braces(pattern: str) -> Iterator[str]:
    """ "a-{08..10}" -> "a-08", "a-09", "a-10"; "{train,val}.tar" -> "train.tar", "val.tar"."""
    brace = re.search(r"\{([^{}]*)\}", pattern)
    if brace is None:
        yield pattern
        return
    bounds = re.fullmatch(r"(\d+)\.\.(\d+)", brace[1])
    if bounds:
        width = len(bounds[1]) if bounds[1].startswith("0") else 0
        choices = [f"{number:0{width}}" for number in range(int(bounds[1]), int(bounds[2]) + 1)]
    else:
        choices = brace[1].split(",")
    for choice in choices:
        yield from expand_braces(pattern[: brace.start()] + choice + pattern[brace.end() :])
