"""Where the photos of an index are watched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from anserini_bridge.storage import METADATA_FILE
from lexlip.data.folder import holds_index
from lexlip.retrieval.collection import given_again


def watched_places(index: Path, extra: dict[str, Any]) -> list[Path]:
    """Return the folders in which something may happen to the photos of an index.

    Raises:
        DataError: the index is too old to say which photos these are.
    """
    given = given_again(extra, index)
    names = (*given.sources, *(() if given.images is None else (given.images,)))
    return list(dict.fromkeys(map(_folder, names)))


def _folder(name: str) -> Path:
    """Return the folder that a source is, or is in; what it is in may be patterns too."""
    place = Path(name).expanduser()
    while not place.is_dir() and (place.suffix or re.search(r"[*?\[{]", place.name)):
        place = place.parent
    return place


def is_ignored(path: Path, index: Path) -> bool:
    """Return whether a change has nothing to do with photos: hidden, or of an index, such as thumbnails."""
    if path.name.startswith(".") or path.suffix == ".tmp" or path.is_relative_to(index):
        return True
    return any(
        folder.name.startswith(".") or ((folder / METADATA_FILE).is_file() and holds_index(folder))
        for folder in path.parents
    )
