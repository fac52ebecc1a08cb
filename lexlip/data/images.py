"""Decodes image files of any kind to RGB."""

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from PIL import Image

from lexlip.data.heif import register
from lexlip.errors import DataError
from lexlip.pictures import SIDEWAYS, TRANSPARENT, as_seen, turn_of

SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".avif", ".heic", ".heif", ".hif"),
)
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")  # HEIF is added when the first one comes
MAX_PIXELS = 178_956_970  # Pillow's own limit
MAX_BYTES = 2**30  # of memory while an image is decoded: what MAX_PIXELS of RGB take
MAX_SCANNED = 2_000_000_000  # pixels of a progressive JPEG times its scans: ten scans of MAX_PIXELS
MAX_READS = 1_000_000  # calls by which Pillow reads a file: of some formats it reads byte by byte
LONGEST_EXIF = 2**22  # bytes of a JPEG's EXIF, whose parts it joins one by one, each time copying all

_COEFFICIENT = 2  # bytes for each pixel and band of a progressive JPEG, which is decoded as a whole

# bytes of memory per pixel while an image of a mode is decoded and becomes RGB; measured
_BYTES = {"CMYK": 8, "I;16": 12, "I;16B": 12, "I;16L": 12, "I": 14, "F": 14}
_OPAQUE_BYTES, _TRANSPARENT_BYTES = 6, 16
_MORE_BYTES = {"WEBP": 12, "AVIF": 12, "HEIF": 4}  # for what their decoders hold besides


class UnreadableImage(DataError):
    """An image that cannot be used.

    Attributes:
        reason: why, in a few words; the message also names the path, if it is known.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason


def decode(data: bytes, size: int | None = None) -> Image.Image:
    """Return the first frame of an image file, upright, in RGB; transparent parts become white.

    Args:
        data: the file.
        size: the shorter side, in pixels, to which the caller will resize. Large JPEGs are then decoded at
            a half, quarter or eighth of their size, never below `size`; nothing else is resized.

    Raises:
        UnreadableImage: it is not an image, damaged or truncated, or decoding it would take too much memory
            or time, which is known before anything is decoded.
    """
    with quiet():
        return decode_opened(open_image(data), data, size)


def open_image(file: bytes | BinaryIO) -> Image.Image:
    """Open an image file without decoding it, inside `quiet`.

    Raises:
        UnreadableImage: it is not an image, or is damaged, or has too many pixels.
    """
    if not file:
        raise UnreadableImage("empty file")
    image = _open(_Bounded(io.BytesIO(file) if isinstance(file, bytes) else file))
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _too_large(width * height)
    return image


def decode_opened(image: Image.Image, data: bytes, size: int | None) -> Image.Image:
    """Decode what `open_image` returned, inside `quiet`; see `decode`."""
    width, height = image.size
    try:
        if size is not None:
            image.draft("RGB", (size, size))  # only JPEG has drafts; other formats ignore it
        _check_cost(image, data, width * height)
        image.load()
        return as_seen(image)
    except UnreadableImage:
        raise
    except Exception as error:  # decoders raise nearly anything for a damaged file
        raise _damaged(error) from error


def upright_size(image: Image.Image, size: tuple[int, int]) -> tuple[int, int]:
    """Return the width and height of an opened image when it is upright.

    Args:
        image: opened.
        size: its width and height as they were when it was opened.
    """
    turned = turn_of(image) in SIDEWAYS and image.format != "TIFF"  # Pillow turns these itself
    return (size[1], size[0]) if turned else size


class _Bounded:
    """A file of which Pillow can read only so much: some would have it read for minutes.

    Args:
        file: at its beginning.
    """

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
    try:
        return Image.open(file, formats=_formats(file))
    except UnreadableImage:
        raise
    except Image.DecompressionBombError as error:
        pixels = re.search(r"\d+", str(error))
        raise _too_large(int(pixels.group()) if pixels else MAX_PIXELS + 1) from error
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage("not an image") from error
    except Exception as error:
        raise _damaged(error) from error


def _formats(file: Any) -> tuple[str, ...]:
    """Return the formats that a file may have."""
    start = file.read(8)
    file.seek(0)
    if start[4:] != b"ftyp":
        return FORMATS
    register()
    return (*FORMATS, "HEIF")


def _check_cost(image: Image.Image, data: bytes, pixels: int) -> None:
    """Raise UnreadableImage if decoding takes too much memory, or too many scans, as some attacks do.

    Args:
        image: opened, not loaded; its size may be drafted.
        data: the file.
        pixels: of the whole image.
    """
    transparent = image.mode in TRANSPARENT or "transparency" in image.info
    per_pixel = _TRANSPARENT_BYTES if transparent else _BYTES.get(image.mode, _OPAQUE_BYTES)
    per_pixel += _MORE_BYTES.get(image.format or "", 0)
    needed = image.width * image.height * per_pixel
    if image.info.get("progressive"):
        needed += pixels * _COEFFICIENT * len(image.getbands())
    if needed > MAX_BYTES:
        raise UnreadableImage(
            f"{pixels:,} pixels of {image.mode} would take {needed / 1e9:.1f} GB to decode: more than"
            f" {MAX_BYTES / 1e9:.1f} GB"
        )
    if image.info.get("progressive"):
        scans = data.count(b"\xff\xda")  # the marker that begins one; it is not within compressed data
        if scans * pixels > MAX_SCANNED:
            raise UnreadableImage(
                f"a JPEG of {scans} scans of {pixels:,} pixels would take too long to decode"
            )


def _too_large(pixels: int) -> UnreadableImage:
    return UnreadableImage(f"{pixels:,} pixels: more than {MAX_PIXELS:,}")


def _damaged(error: Exception) -> UnreadableImage:
    what = str(error).partition("\n")[0] or type(error).__name__
    return UnreadableImage("truncated" if "truncated" in what.lower() else f"damaged ({what})")


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
