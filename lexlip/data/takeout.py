"""JSON files that Google Takeout writes beside photos: their names, and which of them are such."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from anserini_bridge.given_files import parse_json
from lexlip.words.plain_text import composed

_LONGEST = 46  # units of UTF-16 before ".json", and before the number of a photo
_LONGEST_PHOTO = 51  # units of the name of a photo, without its number
_UNUSABLE = str.maketrans(
    dict.fromkeys(map(chr, range(32)), "_") | dict.fromkeys("\"#%&'*+/:;<=>?@\\^`|~", "_")
)
_SUPPLEMENT = "supplemental-metadata"
_NUMBER = re.compile(r"\(\d+\)\Z")


def key_of_json(path: str) -> str:
    """Return by what a JSON file is found: one of the `keys_of_photo` of its photo.

    It is called IMG_1.jpg.json, or IMG_1.jpg.supplemental-metadata.json, of which the end may be cut off. The
    number of IMG_1(1).jpg comes last: IMG_1.jpg(1).json.
    """
    name, number = _without_number(path.rpartition(".")[0])
    photo, dot, end = name.rpartition(".")
    return composed((photo if dot and _SUPPLEMENT.startswith(end) else name) + number)


def keys_of_photo(path: str) -> Iterator[str]:
    """Yield by what the JSON file of a photo may be found, likeliest first.

    That of a photo that came to Google without a suffix has none either: IMG_1.json.
    """
    path = composed(path)
    stem, dot, suffix = path.rpartition(".")
    yield path
    yield _cut(path)
    if stem.endswith(")"):
        bare, number = _without_number(stem)
        yield _cut(bare + dot + suffix) + number
    yield stem


def is_titled(side: str, title: str, photo: str) -> bool:
    """Return whether a JSON file, found by the name of a photo, is of that photo by its title.

    Only a file whose name may be cut off is doubted, as several photos share its beginning. The title is a
    whole name; the photo's own may be cut off, too, and has "_" for what stands in no file's name.
    """
    found_by, _ = _without_number(_name(key_of_json(side)))
    if not _LONGEST - 1 <= _units(found_by) <= _LONGEST:  # one less without half a character
        return True
    stem, dot, suffix = _name(composed(photo)).rpartition(".")
    bare, _ = _without_number(stem)
    is_cut = _LONGEST_PHOTO <= _units(bare + dot + suffix) <= _LONGEST_PHOTO + 1  # or is made a whole one
    bare, stem, title = map(_plain, (bare, stem, title))
    is_same = bool({stem, bare}.intersection((title, title.rpartition(".")[0])))
    return is_same or (is_cut and title.startswith(bare))


def read_takeout(data: bytes) -> dict[str, Any] | None:
    """Return what a JSON file says of a photo; None if it is not of Google Takeout.

    ValueError: it is no JSON, and the text says why.
    """
    try:
        found = parse_json(data)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from error
    told = isinstance(found, dict) and isinstance(found.get("photoTakenTime"), dict) and "title" in found
    return found if told else None


def _without_number(name: str) -> tuple[str, str]:
    """Return a name without a number in brackets at its end, and that."""
    found = _NUMBER.search(name)
    return (name[: found.start()], found[0]) if found else (name, "")


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _units(name: str) -> int:
    return len(name.encode("utf-16-le")) // 2


def _plain(name: str) -> str:
    return composed(name).translate(_UNUSABLE)


def _cut(path: str) -> str:
    """Return a composed path as the name of its JSON file begins, if that is too long for all of it."""
    folder, slash, name = path.rpartition("/")
    if len(name) <= _LONGEST and name.isascii():  # nearly all are
        return path
    return folder + slash + name.encode("utf-16-le")[: 2 * _LONGEST].decode("utf-16-le", "ignore")
