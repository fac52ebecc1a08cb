"""Captions in JSON: Karpathy's split files, COCO's annotations, and lists of photos with captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from anserini_bridge.given_files import parse_json
from lexlip.data.captions import CAPTION, PHOTO, SPLIT, Entry, lines_of, read_text, split_name
from lexlip.data.source import Skipped
from lexlip.errors import DataError
from lexlip.words.plain_text import counted

SUFFIXES = (".json", ".jsonl")


def read_json(path: Path, name: str, skipped: list[Skipped]) -> Iterator[Entry]:
    """Yield the photos of a JSON file with their captions; what makes no sense goes to `skipped`.

    What such files look like:

        Karpathy's dataset_coco.json     {"images": [{"filepath", "filename", "split",
                                                      "sentences": [{"raw"}]}]}
        COCO's captions_val2017.json     {"images": [{"id", "file_name"}],
                                          "annotations": [{"image_id", "caption"}]}
        LAVIS' coco_karpathy_train.json  [{"image", "caption"}], where "caption" may be a list
        Hugging Face's metadata.jsonl    {"file_name", "text"} in each line

    The keys of the last two are columns of a table (see `read_table`), or "captions". DataError: the file is
    no such JSON.
    """
    text = read_text(path, name)
    if path.suffix.lower() == ".jsonl":
        yield from _listed(_lines(text, name, skipped), skipped)
        return
    try:
        content = parse_json(text)
    except ValueError as error:
        raise DataError(f"{name} is not JSON: {error}") from error
    if isinstance(content, list) and content:
        places = ((f"{PurePath(name).name}[{number}]", one) for number, one in enumerate(content))
        yield from _listed(places, skipped)
        return
    images: Any = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list):
        raise DataError(f"{name} has no captions: it has no list named images, and is no list of photos")
    annotations = content.get("annotations")
    of_karpathy = any("filename" in image for image in images if isinstance(image, dict))
    if isinstance(annotations, list) and not of_karpathy:
        yield from _annotated(images, annotations, name, skipped)
    else:
        yield from _of_karpathy(images, skipped)


def _lines(text: str, name: str, skipped: list[Skipped]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines_of(text), start=1):
        place = f"{PurePath(name).name}:{number}"
        try:
            if line.strip():
                yield place, parse_json(line)
        except ValueError as error:
            skipped.append(Skipped(place, f"not JSON: {error}"))


def _listed(places: Iterator[tuple[str, Any]], skipped: list[Skipped]) -> Iterator[Entry]:
    for place, given in places:
        keys = {key.lower(): value for key, value in given.items()} if isinstance(given, dict) else {}
        photo, captions, split = (_first(keys, kind) for kind in (PHOTO, (*CAPTION, "captions"), SPLIT))
        captions = [captions] if isinstance(captions, str) else captions
        if isinstance(photo, str) and isinstance(captions, list):
            yield Entry(photo, captions, split_name(split))
        else:
            skipped.append(Skipped(place, "no image, or no caption"))


def _first(given: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((given[key] for key in keys if given.get(key) is not None), None)


def _annotated(
    images: list[Any], annotations: list[Any], name: str, skipped: list[Skipped]
) -> Iterator[Entry]:
    captions: dict[Any, list[str]] = {}
    for number, one in enumerate(annotations):
        try:
            caption, image = one["caption"], one["image_id"]
            captions.setdefault(image, []).append(caption)
        except (KeyError, TypeError):
            skipped.append(Skipped(f"annotations[{number}]", "no image_id, or no caption"))
    if annotations and not captions:
        del skipped[-len(annotations) :]
        raise DataError(f"{name} has no captions: COCO's are in captions_*.json, not in instances_*.json")
    for number, image in enumerate(images):
        try:
            photo, texts = image["file_name"], captions.pop(image["id"], [])
        except (KeyError, TypeError):
            photo = None
        if isinstance(photo, str):
            yield Entry(photo, texts)
        else:
            skipped.append(Skipped(f"images[{number}]", "no file_name, or no id"))
    if captions:
        lost = f"{counted(len(captions), 'image')} that it does not list, such as {next(iter(captions))!r}"
        skipped.append(Skipped(PurePath(name).name, f"annotations of {lost}"))


def _of_karpathy(images: list[Any], skipped: list[Skipped]) -> Iterator[Entry]:
    for number, image in enumerate(images):
        try:
            photo = "/".join(filter(None, (image.get("filepath"), image["filename"])))
            captions = [sentence["raw"] for sentence in image.get("sentences", [])]
        except (AttributeError, KeyError, TypeError):
            skipped.append(Skipped(f"images[{number}]", "no filename, or sentences without raw"))
        else:
            yield Entry(photo, captions, split_name(image.get("split")))
