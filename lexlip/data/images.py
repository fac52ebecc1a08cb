"""Decodes image files of any kind to RGB."""

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import mul
from typing import Any, BinaryIO

import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import PREFIXES

from lexlip.data import isolated, raw
from lexlip.data.extra_kinds import JPEG_XL, RAW
from lexlip.data.files import OutOfReach
from lexlip.data.upright import SIDEWAYS, TRANSPARENT, as_seen, turn_of
from lexlip.errors import UnreadableImage
from lexlip.words.plain_text import counted

ENDINGS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif", ".jfi", ".jif", ".pjpeg", ".pjp", ".mpo", ".insp"),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "DIB": (".dib",),
    "TIFF": (".tif", ".tiff"),
    "AVIF": (".avif", ".avifs"),
    "HEIF": (".heic", ".heif", ".hif", ".heics", ".heifs"),
    "JPEG2000": (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
    "PCX": (".pcx",),
    "TGA": (".tga", ".icb", ".vda", ".vst"),
    "JXL": JPEG_XL.endings,
    "RAW": RAW.endings,
}
"""By Pillow's names of the formats, in the order in which they are tried: last a TGA, which has no mark.
RAW files, which Pillow does not know, are tried before.

None of them starts a program, as EPS does, or shows a page, as PDF does.
"""

READER = 3  # raised when more can be decoded: photos that could not be read are then tried again

SUFFIXES = tuple(ending for endings in ENDINGS.values() for ending in endings)

MAX_PIXELS = 178_956_970  # Pillow's own limit; not of JPEG and JPEG 2000, which can be decoded smaller
MAX_BYTES = 2**30  # of memory while an image is decoded: what MAX_PIXELS of RGB take
MAX_SCANNED = 2_000_000_000  # pixels of a JPEG times its scans: ten scans of MAX_PIXELS
MAX_READS = 1_000_000  # calls by which Pillow reads a file: some formats it reads byte by byte
LONGEST_EXIF = 2**22  # bytes of a JPEG's EXIF: it comes in parts, and for each of them Pillow copies all
LONGEST_TEXT, MOST_COMMENTS = 2**25, 1000  # bytes and comments of a PPM in text, which Pillow reads slowly

_TRUNCATED = "truncated"
_OF_OTHER_MODULES = ("HEIF", "JPEG2000", "JXL", "RAW")
_FORMATS = tuple(name for name in ENDINGS if name not in _OF_OTHER_MODULES)
_SCAN, _END = b"\xff\xda", b"\xff\xd9"  # markers of a JPEG; they are not within compressed data
_COEFFICIENT = 2  # bytes of each coefficient of a JPEG in several scans, which is decoded as a whole
_DRAFTED = ("JPEG", "JPEG2000")
_ANIMATED = ("GIF", "WEBP", "PNG", "AVIF")
TIFF = tuple(PREFIXES)  # how one begins
MOST_PAGES = 20  # of a TIFF, in which text is read
_SUBFILE = 254  # a tag of such a page, whose first bit marks a small copy
_ONE_COLOUR = 8  # levels by which pixels may differ in a picture of one colour
_MISSING = 0.02  # of a JPEG's pixels may be missing at its end

# bytes of memory per pixel while an image of a mode is decoded and becomes RGB; measured
_BYTES = {"CMYK": 8, "I;16": 12, "I;16B": 12, "I;16L": 12, "I": 14, "F": 14}
_OPAQUE_BYTES, _TRANSPARENT_BYTES, _COMPARED_BYTES = 6, 16, 20
_MORE_BYTES = {
    "WEBP": 12,
    "AVIF": 12,
    "HEIF": 4,
    "JPEG2000": 21,
    "JXL": 8,
}  # for what their decoders hold besides


def decode(data: bytes, size: int | None = None) -> Image.Image:
    """Return the picture of an image file, upright, in RGB; transparent parts become white.

    Of an animation it is the first frame that is not of one colour. The caller will resize the shorter side
    to `size` pixels: large JPEGs are then decoded at a half, quarter or eighth of their size, and JPEG 2000
    at a half of it or less, never below `size`; nothing else is resized. UnreadableImage: it is not an image,
    damaged or truncated, or decoding it would take too much memory or time, which is known before anything is
    decoded.
    """
    with quiet():
        return decode_opened(open_image(data), data, size)


def open_image(file: bytes | BinaryIO) -> Image.Image:
    """Open an image without decoding it, inside `quiet`; UnreadableImage: none, damaged or too large."""
    if not file:
        raise UnreadableImage("empty file")
    image = _open(_Bounded(io.BytesIO(file) if isinstance(file, bytes) else file))
    width, height = image.size
    if width * height > MAX_PIXELS and image.format not in _DRAFTED:
        raise _too_large(width * height)
    return image


def decode_opened(image: Image.Image, data: bytes, size: int | None) -> Image.Image:
    """Decode what `open_image` returned, inside `quiet`; see `decode`."""
    if isinstance(image, raw.RawPreview):
        data = image.jpeg
    try:
        picture = _load(image, data, size)
        if image.format in _ANIMATED and _of_one_colour(picture):
            picture = _later_frame(data) or picture
        return picture
    except UnreadableImage:
        raise
    except Exception as error:  # decoders raise nearly anything for a damaged file
        damaged = _damaged(error)
        if damaged.reason == _TRUNCATED and image.format == "JPEG" and (whole := _all_but_end(data, size)):
            return whole
        raise damaged from error


def _load(image: Image.Image, data: bytes, size: int | None) -> Image.Image:
    """Decode an opened image as it is seen."""
    width, height = image.size
    if size is not None:
        image.draft("RGB", (size, size))  # JPEG and JPEG 2000 have drafts; other formats ignore it
    _check_cost(image, data, width * height)
    image.load()
    return as_seen(image)


def _of_one_colour(picture: Image.Image) -> bool:
    return all(most - least <= _ONE_COLOUR for least, most in picture.getextrema())  # type: ignore[misc]


def _later_frame(data: bytes) -> Image.Image | None:
    """Return the first frame of an animation that is not of one colour; None: there is none among the first.

    Those are tried that take no more time together than the largest picture takes.
    """
    image = open_image(data)  # the file is also described by its first frame, which stays open
    pixels = image.width * image.height
    if pixels * (_TRANSPARENT_BYTES + _MORE_BYTES["WEBP"]) > MAX_BYTES:  # former frames are kept
        return None
    with suppress(Exception):  # there are no more, or they are damaged
        for number in range(1, MAX_PIXELS // pixels):
            image.seek(number)
            picture = as_seen(image)
            if not _of_one_colour(picture):
                return picture
    return None


def _all_but_end(data: bytes, size: int | None) -> Image.Image | None:
    """Return a JPEG that lacks its end mark, and at most a little more; None: it lacks more.

    What it lacks is what other bytes in its place change.
    """
    other = bytes(number % 251 for number in range(len(data) // 10 + 1000))
    with suppress(Exception):
        grey = _load(open_image(data + _END), data + _END, size)
        if grey.width * grey.height * _COMPARED_BYTES <= MAX_BYTES:
            noisy = _load(open_image(data + other + _END), data + other + _END, size)
            differs = np.any(np.asarray(grey) != np.asarray(noisy), axis=2)
            return grey if differs.mean() <= _MISSING else None
    return None


def later_pages(data: bytes) -> Iterator[Image.Image]:
    """Yield the pages of a TIFF after its first one, as `decode` returns that; at most MOST_PAGES with it.

    Small copies of other pages, and pages that cannot be decoded, are left out.
    """
    if not data.startswith(TIFF):
        return
    for number in range(1, MOST_PAGES):
        page = None
        with quiet(), suppress(Exception):
            image = open_image(data)
            if image.format != "TIFF":  # RAW files begin as a TIFF does
                return
            image.seek(number)
            if not image.tag_v2.get(_SUBFILE, 0) & 1:  # type: ignore[attr-defined]
                page = _load(image, data, None)
        if page is not None:
            yield page


def upright_size(image: Image.Image, size: tuple[int, int]) -> tuple[int, int]:
    """Return the width and height of an opened image when it is upright, given those when it was opened."""
    turned = turn_of(image) in SIDEWAYS and image.format != "TIFF"  # Pillow turns these itself
    return (size[1], size[0]) if turned else size


class _Bounded:
    """An unread file of which Pillow can read only so much: some would have it read for minutes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._reads, self._exif = MAX_READS, LONGEST_EXIF

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._reads -= 1
        if data.startswith(b"Exif\0\0"):  # a part of a JPEG's
            self._exif -= len(data)
        if self._reads < 0 or self._exif < 0:
            what = "its EXIF" if self._exif < 0 else "what precedes the picture"
            raise UnreadableImage(f"{what} is too long")
        return data


def _open(file: Any) -> Image.Image:
    start = file.read(64)
    file.seek(0)
    try:
        if start.startswith(b"\xff\xd8\xff"):
            return JpegImageFile(file)  # Image.open refuses large ones
        if isolated.is_jpeg_xl(start) and (why := JPEG_XL.lacks_package()):
            raise OutOfReach(why)
        if isolated.accepts(start):
            return isolated.IsolatedFile(file)
        if raw.is_raw(file):
            return raw.open_raw(file, _Bounded)
        image = Image.open(file, formats=_FORMATS)
    except UnreadableImage:
        raise
    except Image.DecompressionBombError as error:
        pixels = re.search(r"\d+", str(error))
        raise _too_large(int(pixels.group()) if pixels else MAX_PIXELS + 1) from error
    except (Image.UnidentifiedImageError, SyntaxError) as error:
        raise UnreadableImage("not an image") from error
    except Exception as error:
        raise _damaged(error) from error
    return _decoded_by_c(image) if image.format == "PPM" else image


def _decoded_by_c(ppm: Any) -> Image.Image:
    """Let a PPM of 16 bits be decoded fast: if its largest value is another one, Pillow does it in Python."""
    (tile,) = ppm.tile
    if tile.codec_name == "ppm" and (ppm.mode == "I" or (ppm.mode == "RGB" and tile.args[1] == 65535)):
        ppm.tile = [tile._replace(codec_name="raw", args=f"{ppm.mode};16B")]
    return ppm  # type: ignore[no-any-return]


def _check_cost(image: Image.Image, data: bytes, pixels: int) -> None:
    """Raise UnreadableImage if decoding takes too much memory or time, as of some attacks it does.

    The image is not loaded, and its size may be drafted; `pixels` are those of the whole.
    """
    transparent = image.mode in TRANSPARENT or "transparency" in image.info
    per_pixel = _TRANSPARENT_BYTES if transparent else _BYTES.get(image.mode, _OPAQUE_BYTES)
    per_pixel += _MORE_BYTES.get(image.format or "", 0)
    needed = image.width * image.height * per_pixel
    scans = 0
    if isinstance(image, JpegImageFile) and (scans := _scans(image, data)) > 1:
        needed += int(pixels * _COEFFICIENT * _samples(image))
    if needed > MAX_BYTES:
        takes = f"{pixels:,} pixels of {image.mode} would take {needed / 1e9:.1f} GB to decode"
        raise UnreadableImage(f"{takes}: more than {MAX_BYTES / 1e9:.1f} GB")
    if scans * pixels > MAX_SCANNED:
        what = f"{counted(scans, 'scan')} of {pixels:,} pixels"
        raise UnreadableImage(f"a JPEG of {what} would take too long to decode")
    if image.format == "PPM" and _slow(image, data):
        raise UnreadableImage("a PPM of this kind would take too long to decode")


def _slow(ppm: Any, data: bytes) -> bool:
    """Return whether Pillow, which decodes some kinds of PPM in Python, would take seconds."""
    codec = ppm.tile[0].codec_name
    long = len(data) > LONGEST_TEXT or data.count(b"#") > MOST_COMMENTS
    return ppm.width * ppm.height > MAX_READS if codec == "ppm" else codec == "ppm_plain" and long


def _scans(image: JpegImageFile, data: bytes) -> int:
    """Return how many scans a JPEG has; 1 if its first one holds all, whatever follows the picture."""
    assert image.fp is not None
    first = data.rfind(_SCAN, 0, image.fp.tell())  # Pillow has read as far as the first scan's header
    if not image.info.get("progressive") and data[first + 4 : first + 5] == bytes([image.layers]):
        return 1
    return max(2, data.count(_SCAN))


def _samples(image: JpegImageFile) -> float:
    """Return how many samples a JPEG has for each pixel: its colours may be kept in fewer."""
    across, down = zip(*(layer[1:3] for layer in image.layer), strict=True)
    return sum(map(mul, across, down)) / (max(across) * max(down))


def _too_large(pixels: int) -> UnreadableImage:
    return UnreadableImage(f"{pixels:,} pixels: more than {MAX_PIXELS:,}")


def _damaged(error: Exception) -> UnreadableImage:
    what = str(error).partition("\n")[0] or type(error).__name__
    return UnreadableImage(_TRUNCATED if "truncated" in what.lower() else f"damaged ({what})")


_quiet_lock = threading.Lock()
_quiet_depth = 0
_quiet_filters = warnings.catch_warnings()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Pillow's warnings (large image, odd EXIF, odd palette).

    `catch_warnings` alone is not safe with threads: overlapping ones restore each other's filters. So the
    first decoder that enters switches warnings off, and the last one that leaves switches them on.
    """
    global _quiet_depth, _quiet_filters
    with _quiet_lock:
        if _quiet_depth == 0:
            _quiet_filters = warnings.catch_warnings()
            _quiet_filters.__enter__()
            warnings.simplefilter("ignore")
        _quiet_depth += 1
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_depth -= 1
            if _quiet_depth == 0:
                _quiet_filters.__exit__(None, None, None)
