"""Facts about a photo that are stored with an index: its size, and what cameras and people wrote into it.

They write EXIF, IPTC and XMP, and files beside photos: XMP, and the JSON of Google Takeout. What is damaged
there, or larger than a person writes, is left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from PIL import Image, IptcImagePlugin

from lexlip.data.files import by_the_clock
from lexlip.data.images import decode_opened, open_image, quiet, upright_size
from lexlip.data.nearness import is_place
from lexlip.data.side_files import OWN, read_xmp
from lexlip.data.takeout import read_takeout
from lexlip.words.plain_text import whole

LONGEST_TEXT = 5000  # characters of a caption
MOST_TEXTS = 500  # captions, and keywords

_EXIF_FOLDER, _TAKEN, _DIGITIZED = 0x8769, 0x9003, 0x9004
_MAKE, _MODEL, _XP_KEYWORDS = 0x010F, 0x0110, 0x9C9E
_GPS, _LATITUDE_REF, _LONGITUDE_REF = 0x8825, 1, 3  # each is followed by degrees, minutes and seconds
_IPTC_KEYWORDS, _IPTC_CAPTION = (2, 25), (2, 120)
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_OWN = f"{{{OWN}}}"
_XMP_EXIF = "{http://ns.adobe.com/exif/1.0/}"
_XMP_DATES = (
    f"{_XMP_EXIF}DateTimeOriginal",
    "{http://ns.adobe.com/photoshop/1.0/}DateCreated",
    "{http://ns.adobe.com/xap/1.0/}CreateDate",
)
_OF_INTEREST = (_DC, _OWN, f"{_XMP_EXIF}GPSL", *_XMP_DATES)  # beginnings of elements
_DATE = re.compile(
    r"(\d{4})[ :/.-]+(\d\d?)[ :/.-]+(\d\d?)(?!\d)(?:[ T]+(\d\d?)[ :.]+(\d\d?)(?:[ :.]+(\d\d?))?)?", re.ASCII
)


class Embedded(NamedTuple):
    """What a file says about its photo.

    It was taken by the camera's clock: "2019-07-01T12:30:00". The camera is its maker and model; captions are
    IPTC's, and XMP's descriptions in every language; keywords those of EXIF, IPTC and XMP; Google Takeout's
    description and people are among them. The place, by GPS, is degrees north and degrees east (WGS 84);
    `misplaced` if EXIF or XMP tell one that cannot be, and nothing tells another.
    """

    taken: str | None = None
    camera: str | None = None
    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    place: tuple[float, float] | None = None
    misplaced: bool = False


class Side(NamedTuple):
    """What a file beside a photo says; `title` is how JSON of Google Takeout calls the photo, None in XMP."""

    said: Embedded
    title: str | None = None


def read_side(data: bytes, is_json: bool) -> Side | None:
    """Return what a file beside a photo says: JSON, or XMP; None if it is other JSON than Google Takeout's.

    ValueError: it is no JSON, or no XMP, and the text says why.
    """
    if not is_json:
        return Side(_of_xmp(read_xmp(data)))
    told = read_takeout(data)
    return None if told is None else Side(_of_takeout(told), str(told["title"]))


def read_embedded(image: Image.Image, sides: Iterable[bytes | Side] = ()) -> Embedded:
    """Return what a file says about its photo, inside `lexlip.data.images.quiet`.

    The date is EXIF's DateTimeOriginal, else its CreateDate, else XMP's; the place is EXIF's, else XMP's. XMP
    files beside the photo come first, as people correct in them what the camera wrote; JSON of Google Takeout
    comes last. `sides` are such files, or what `read_side` returns of them. The image need not be loaded.
    """
    read = [side if isinstance(side, Side) else _side(side) for side in sides]
    xmp = [side.said for side in read if side.title is None]
    takeout = [side.said for side in read if side.title is not None]
    own = _xmp(image.info.get("xmp") or image.info.get("XML:com.adobe.xmp"))
    exif = _exif(image)
    iptc = _iptc(image)
    parts = (*xmp, exif, iptc, own, *takeout)
    return Embedded(
        next((part.taken for part in parts if part.taken), None),
        exif.camera,
        _distinct(caption for part in parts for caption in part.captions),
        _distinct(keyword for part in parts for keyword in part.keywords),
        place := next((part.place for part in parts if part.place), None),
        place is None and any(part.misplaced for part in parts),
    )


def _side(data: bytes) -> Side:
    with suppress(ValueError):
        return read_side(data, data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")) or Side(Embedded())
    return Side(Embedded())


def _exif(image: Image.Image) -> Embedded:
    try:
        exif = image.getexif()
        if not exif:
            return Embedded()
        inner = exif.get_ifd(_EXIF_FOLDER)
        taken = _date(inner.get(_TAKEN)) or _date(inner.get(_DIGITIZED))
        make, model = _text(exif.get(_MAKE)), _text(exif.get(_MODEL))
        camera = model if model.lower().startswith(make.lower()) else f"{make} {model}".strip()
        keywords = exif.get(_XP_KEYWORDS) or b""
        if isinstance(keywords, tuple):
            keywords = bytes(keywords)
        texts = _text(keywords.decode("utf-16-le", "ignore"), 10 * LONGEST_TEXT).split(";")
        return Embedded(taken, camera or None, (), _distinct(map(_text, texts)), *_exif_place(exif))
    except Exception:  # Pillow raises nearly anything for broken EXIF
        return Embedded()


def _exif_place(exif: Image.Exif) -> tuple[tuple[float, float] | None, bool]:
    """Return the place, and whether one is told that cannot be."""
    place, told = None, False
    with suppress(Exception):  # the rest of EXIF counts all the same
        tags = exif.get_ifd(_GPS)
        told = _LATITUDE_REF + 1 in tags and _LONGITUDE_REF + 1 in tags
        place = _place(*(_degrees(tags[of + 1], _text(tags[of])) for of in (_LATITUDE_REF, _LONGITUDE_REF)))
    return place, told and place is None


def _degrees(parts: Iterable[Any], letter: str) -> float:
    """Return degrees, given with their minutes and seconds, and N, S, E or W."""
    degrees = sum(float(part) / 60**place for place, part in enumerate(parts))
    return degrees * {"N": 1, "S": -1, "E": 1, "W": -1}[letter.strip().upper()]


def _place(north: float, east: float) -> tuple[float, float] | None:
    """Return a place; None if there is none, or it is 0, 0, which devices write that do not know theirs."""
    place = round(north, 6), round(east, 6)
    return place if is_place(*place) and place != (0, 0) else None


def _iptc(image: Image.Image) -> Embedded:
    try:
        records: dict[Any, Any] = IptcImagePlugin.getiptcinfo(image) or {}  # type: ignore[no-untyped-call,arg-type]
        captions, keywords = (
            _distinct(map(_text, values if isinstance(values, list) else [values]))
            for values in (records.get(_IPTC_CAPTION, b""), records.get(_IPTC_KEYWORDS, b""))
        )
        return Embedded(None, None, captions, keywords)
    except Exception:  # and for broken IPTC
        return Embedded()


def _xmp(packet: object) -> Embedded:
    """Return what XMP in a photo says; nothing if it is damaged."""
    data = packet.encode() if isinstance(packet, str) else packet
    if not isinstance(data, bytes) or not data:
        return Embedded()
    with suppress(ValueError):
        return _of_xmp(read_xmp(data))
    return Embedded()


def _of_xmp(root: Any) -> Embedded:
    """Return what XMP says, of which this is the root element."""
    found: dict[str, list[str]] = {}
    for element in root.iter():
        for name, value in element.attrib.items():
            found.setdefault(name, []).append(value)
        if isinstance(element.tag, str) and element.tag.startswith(_OF_INTEREST):
            found.setdefault(element.tag, []).extend(_values(element))
    taken = next((date for name in _XMP_DATES for date in map(_date, found.get(name, ())) if date), None)
    captions, keywords = (
        _distinct(map(_text, found.get(_DC + name, ()))) for name in ("description", "subject")
    )
    own = set(map(_text, found.get(f"{_OWN}words", ())))  # which `lexlip keywords` wrote
    place = None
    told = [found.get(f"{_XMP_EXIF}GPS{name}") for name in ("Latitude", "Longitude")]
    with suppress(ValueError, ArithmeticError, LookupError, TypeError):
        sides = (_text(sides[0]) for sides in told if sides)
        place = _place(*(_degrees(side[:-1].split(","), side[-1]) for side in sides))
    keywords = tuple(word for word in keywords if word not in own)
    return Embedded(taken, None, captions, keywords, place, place is None and all(told))


def _of_takeout(told: dict[str, Any]) -> Embedded:
    """Return what JSON of Google Takeout says; its time is UTC, and becomes that of this machine's clock."""
    people = told.get("people")
    names = [one.get("name") for one in people if isinstance(one, dict)] if isinstance(people, list) else []
    places = map(_takeout_place, (told.get("geoData"), told.get("geoDataExif")))
    return Embedded(
        _takeout_time(told["photoTakenTime"].get("timestamp")),
        None,
        _distinct([_text(told.get("description"))]),
        _distinct(map(_text, names)),
        next(filter(None, places), None),
    )


def _takeout_time(seconds: object) -> str | None:
    """Return a time; 0 is none that is known."""
    with suppress(ValueError, OverflowError):
        return by_the_clock(int(float(_text(str(seconds)))) or None)
    return None


def _takeout_place(degrees: Any) -> tuple[float, float] | None:
    with suppress(ValueError, ArithmeticError, LookupError, TypeError):
        return _place(float(degrees["latitude"]), float(degrees["longitude"]))
    return None


def _values(element: Any) -> list[str]:
    """Return the texts of a property: its own, or those of its list."""
    return [item.text or "" for item in list(element.iter(f"{_RDF}li")) or [element]]


def _date(value: object) -> str | None:
    """Return a date of EXIF's or ISO's form as ISO 8601, to the second; None if it is none.

    Of a time that no clock shows, such as 24:00:00 or 12:30:60, what is valid is kept.
    """
    found = _DATE.match(_text(value))
    numbers = [int(part or 0) for part in found.groups()] if found else []
    for valid in (6, 5, 3):
        with suppress(ValueError, TypeError):
            return datetime(*numbers[:valid]).isoformat()  # type: ignore[arg-type]
    return None


def _text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return a text with single spaces, in whatever form a file has it; at most `longest` characters."""
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
    else:
        text = value if isinstance(value, str) else ""
    text = text.replace("\0", " ")
    return " ".join(whole(text[: 2 * longest]).split())[:longest]


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))[:MOST_TEXTS]


SIDE = 32  # fields of a row or column, of which the DCT is taken
KEPT = 8  # its lowest frequencies, in each direction
_DCT = np.cos(np.pi / SIDE * np.outer(np.arange(KEPT), np.arange(SIDE) + 0.5))
_WEIGHTS = np.uint64(1) << np.arange(63, -1, -1, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one photo, upright; the defaults say that nothing is known.

    For taken, camera, captions, keywords, place and misplaced see `Embedded`. Size and digest are of the
    file's bytes; the state that of the file when it was read, see `lexlip.data.Source.state`, or "".
    """

    width: int = 0
    height: int = 0
    taken: str | None = None
    camera: str | None = None
    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    size: int | None = None
    digest: str = ""
    fingerprint: int | None = None
    state: str = ""
    place: tuple[float, float] | None = None
    misplaced: bool = False


def digest(data: bytes) -> str:
    """Return what identifies a file's content: BLAKE2b of 128 bits, hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def decode_with_facts(
    data: bytes, size: int | None = None, sides: Iterable[bytes | Side] = ()
) -> tuple[Image.Image, Facts]:
    """Return a photo as `lexlip.data.images.decode` does, and its facts; for `sides` see `read_embedded`."""
    with quiet():
        opened = open_image(data)
        whole = opened.size  # it may be decoded smaller
        image = decode_opened(opened, data, size)
        facts = _facts(opened, whole, sides)
        return image, replace(facts, size=len(data), digest=digest(data), fingerprint=fingerprint(image))


def facts_of_header(file: BinaryIO, sides: Iterable[bytes | Side] = ()) -> Facts:
    """Return what the beginning of a file tells: no digest or fingerprint; UnreadableImage: no image."""
    with quiet():
        opened = open_image(file)
        return _facts(opened, opened.size, sides)


def _facts(opened: Image.Image, size: tuple[int, int], sides: Iterable[bytes | Side]) -> Facts:
    width, height = upright_size(opened, size)
    return Facts(width, height, **read_embedded(opened, sides)._asdict())


def fingerprint(image: Image.Image) -> int:
    """Return the perceptual hash of a picture in RGB, 64 bits.

    Copies share it, though resized, recompressed or cropped a little. Its bits say which of the 8 x 8 lowest
    frequencies of the picture's discrete cosine transform, in grey, are above their median; the mean is not
    among those. Of 52,000 photos it tells more copies from others than difference hashes do
    (docs/notes/2026-11-23-near-duplicates.md).
    """
    grey = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX).convert("L"), dtype=np.float64)
    frequencies = (_DCT @ grey @ _DCT.T).ravel()
    above = frequencies > np.median(frequencies[1:])
    return int(_WEIGHTS[above].sum(dtype=np.uint64))
