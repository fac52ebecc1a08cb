"""The captions and keywords of an index's photos in BM25, to be searched along with the photos' words.

DIR/data-<n>/captions-<m>/, a plain Lucene index; `extra["captions"]` of index.json says which:
{"folder": "captions-1", "language": "en", "documents": 12}. Without captions and keywords there is none.
Without Anserini they cannot be indexed: `extra["captions_left_out"]` says of how many photos.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from anserini_bridge.bm25 import write_bm25_index
from anserini_bridge.runtime import has_anserini
from lexlip.retrieval.photo_table import PhotoTable

LANGUAGE = "en"
_FOLDER = re.compile(r"captions-([1-9][0-9]*)")


def write_caption_index(
    folder: Path, index: Path, extra: dict[str, Any], old: dict[str, Any]
) -> dict[str, Any]:
    """Index captions and keywords as a new table of photos has them; one whose texts are the same stays.

    Args:
        folder: the index's data folder.
        index: the index's folder.
        extra: what index.json will say, the table's name included.
        old: what it says now.

    Returns:
        What index.json will say, with "captions" if there are any, or "captions_left_out".
    """
    ids, texts = _texts(folder, index, extra)
    if not ids:
        return extra
    if {"captions", "photos"} <= old.keys() and (ids, texts) == _texts(folder, index, old):
        return {**extra, "captions": old["captions"]}
    return {**extra, **write_texts(folder, ids, texts)}


def write_texts(folder: Path, ids: list[str], texts: list[str]) -> dict[str, Any]:
    """Index the captions and keywords of photos, each one text.

    Returns:
        What index.json will say: "captions", or "captions_left_out"; nothing without texts.
    """
    if not ids:
        return {}
    if not has_anserini():
        return {"captions_left_out": len(ids)}
    found = [_FOLDER.fullmatch(path.name) for path in folder.glob("captions-*")]
    name = f"captions-{max((int(match[1]) for match in found if match), default=0) + 1}"
    write_bm25_index(folder / name, ids, texts, LANGUAGE)
    return {"captions": {"folder": name, "language": LANGUAGE, "documents": len(ids)}}


def remove_old_captions(folder: Path, keep: str | None) -> None:
    """Delete the indexes of captions that index.json does not name; the caller holds the index's lock."""
    for path in folder.glob("captions-*"):
        if _FOLDER.fullmatch(path.name) and path.name != keep:
            shutil.rmtree(path, ignore_errors=True)


def _texts(folder: Path, index: Path, extra: dict[str, Any]) -> tuple[list[str], list[str]]:
    with PhotoTable(index, folder / extra["photos"]) as table:
        return table.texts()
