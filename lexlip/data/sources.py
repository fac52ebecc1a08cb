"""What a user names -> a source of photos."""

import re
from pathlib import Path

from lexlip.data import table
from lexlip.data.folder import FolderSource, Listing, walk
from lexlip.data.images import SUFFIXES
from lexlip.data.karpathy import KarpathySource
from lexlip.data.scenes import Scenes
from lexlip.data.source import Source
from lexlip.data.webdataset import WebDatasetSource, match_tars
from lexlip.errors import DataError


def open_source(spec: str | Path, images: str | Path | None = None, split: str | None = None) -> Source:
    """Lists photos and their captions.

    spec is one of
    - a folder of photos, or of webdataset tars, with everything below it
    - a tar, or a pattern of tars: "train-{0000..0002}.tar", "*.tar"
    - a table of photos and captions (.tsv, .csv, .txt), or a split file of Karpathy's (.json)
    - one photo
    - scenes:COUNT:SEED, so many drawn scenes

    images and split are for tables and split files: where the photos are (a folder of photos or of tars, a
    tar, a pattern of tars; default: the folder of the file), and which photos to take (default: all).

    Raises DataError if nothing is there, or nothing that can be used.
    """
    name, path = str(spec), Path(spec).expanduser()
    if name.startswith("scenes:") and not path.exists():
        return _draw_scenes(name, images, split)
    suffix = path.suffix.lower()
    if path.is_file() and suffix in (".json", *table.SUFFIXES):
        kind = KarpathySource if suffix == ".json" else table.TableSource
        return kind(path, Path(images).expanduser() if images is not None else None, split, name)
    if path.exists() and split is not None:
        raise DataError(f"{name} has no splits: only tables and split files (.json) have")
    if path.exists() and images is not None:
        raise DataError(f"{name} holds its photos itself: images is for tables and split files (.json)")
    if path.is_dir():
        return _open_folder(path, name)
    if path.is_file() and suffix == ".tar":
        return WebDatasetSource([path], name)
    if path.is_file() and suffix in SUFFIXES:
        texts = {path.with_suffix(".txt").name} if path.with_suffix(".txt").is_file() else set()
        return FolderSource(path.parent, Listing([path.name], [], texts, []), name)
    if path.exists():
        raise DataError(
            f"{name} is not a folder, a photo, a tar, a table (.tsv, .csv) or a split file (.json)"
        )
    if re.search(r"[*?\[{]", name):
        return WebDatasetSource(match_tars(str(path)), name)
    raise DataError(f"{name} does not exist")


def _draw_scenes(name: str, images: str | Path | None, split: str | None) -> Source:
    if images is not None or split is not None:
        raise DataError(f"{name} is drawn: images and split are for tables and split files (.json)")
    numbers = re.fullmatch(r"scenes:(\d+):(\d+)", name)
    if numbers is None or int(numbers[1]) == 0:
        raise DataError(f"{name} is not of the form scenes:COUNT:SEED, such as scenes:4000:0")
    return Scenes(int(numbers[1]), int(numbers[2]))


def _open_folder(path: Path, name: str) -> Source:
    listing = walk(path)
    if listing.tars and not listing.photos:
        source = WebDatasetSource([path / tar for tar in listing.tars], name)
        source.skipped += listing.skipped
        return source
    if not listing.photos:
        looked_for = ", ".join(SUFFIXES)
        why = f"; {listing.skipped[0].id}: {listing.skipped[0].reason}" if listing.skipped else ""
        raise DataError(f"no photos below {name}: looked for {looked_for} and .tar{why}")
    return FolderSource(path, listing, name)
