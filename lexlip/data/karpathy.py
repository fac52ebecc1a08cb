"""Karpathy's split files: dataset_coco.json, dataset_flickr30k.json, dataset_flickr8k.json."""

from pathlib import Path
from typing import Any

from anserini_bridge.given_files import parse_json
from lexlip.data.caption_files import CaptionedSource, Entry, read_text, split_name
from lexlip.data.source import Skipped
from lexlip.errors import DataError


class KarpathySource(CaptionedSource):
    """Photos that images[].filename names, with an optional filepath (folder), split and sentences[].raw.

    The split `train` includes `restval`.

    Args:
        path: the JSON file.
        images: where the photos are, see `CaptionedSource`; None is the folder of the JSON file.
        split: the one to take; None takes all.
        name: what the user gave.

    Raises:
        DataError: the file is not such a JSON, or see `CaptionedSource`.
    """

    def __init__(self, path: Path, images: Path | None, split: str | None, name: str) -> None:
        entries, skipped = [], []
        for number, image in enumerate(_images(path, name)):
            try:
                photo = "/".join(filter(None, (image.get("filepath"), image["filename"])))
                captions = [sentence["raw"] for sentence in image.get("sentences", [])]
                entries.append(Entry(photo, captions, split_name(image.get("split"))))
            except (AttributeError, KeyError, TypeError):
                skipped.append(Skipped(f"images[{number}]", "no filename, or sentences without raw"))
        super().__init__(name, entries, images or path.parent, split, skipped)


def _images(path: Path, name: str) -> list[Any]:
    try:
        content = parse_json(read_text(path, name))
    except ValueError as error:
        raise DataError(f"{name} is not JSON: {error}") from error
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list):
        raise DataError(f"{name} is not a split file of Karpathy's: it has no list named images")
    return images
