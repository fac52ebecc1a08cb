"""The photos that an index was made of: opened again for an update, and watched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anserini_bridge.storage import LOCK_FILE, METADATA_FILE
from lexlip.data import Source, open_source
from lexlip.errors import DataError


def source_name(index: Path, extra: Mapping[str, Any]) -> str:
    """Return what the user gave when an index was made, as it is found now.

    Raises:
        DataError: the index is too old to say.
    """
    if "source" not in extra:
        raise DataError(f"the index {index} is too old to say which photos it is of: index again")
    name = str(extra["source"])
    return str((index.resolve() / name).resolve()) if extra.get("relative") else name


def open_indexed(index: Path, extra: Mapping[str, Any]) -> Source:
    """List the photos of an index as they are now.

    Raises:
        DataError: see `open_source`.
    """
    return open_source(source_name(index, extra))


def watched_places(index: Path, extra: Mapping[str, Any]) -> list[Path]:
    """Return the folders in which something may happen to the photos of an index."""
    place = Path(source_name(index, extra))
    while re.search(r"[*?\[{]", place.name) or (place.suffix and not place.is_dir()):
        place = place.parent
    return [place]


def is_ignored(path: Path, index: Path) -> bool:
    """Return whether a change has nothing to do with photos: hidden, or of an index, such as thumbnails."""
    if path.name.startswith(".") or path.suffix == ".tmp" or path.is_relative_to(index):
        return True
    return any(
        folder.name.startswith(".") or ((folder / METADATA_FILE).is_file() and (folder / LOCK_FILE).exists())
        for folder in path.parents
    )
