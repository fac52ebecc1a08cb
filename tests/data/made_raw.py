"""Makes DNG files: TIFFs that hold what a sensor would have seen of a picture, and a preview of it."""

import io
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

BYTES, TEXT, SHORT, LONG, RATIONAL, SIGNED_RATIONAL = 1, 2, 3, 4, 5, 10
SENSOR = 32803
SENSOR_AT = 2**18  # last, as in the files of cameras
TO_SRGB = (3.24, -1.54, -0.5, -0.97, 1.88, 0.04, 0.06, -0.2, 1.06)
Tags = dict[int, tuple[int, Any]]


def drawing(width: int = 768, height: int = 512) -> Image.Image:
    """Large fields of colour, no two corners alike."""
    noise = np.random.default_rng(1).integers(30, 226, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def jpeg(picture: Image.Image, **more: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=92, **more)
    return file.getvalue()


def dng(
    picture: Image.Image | None = None,
    preview: bytes | None = None,
    orientation: int = 1,
    taken: str = "2021:05:06 07:08:09",
    xmp: bytes = b"",
    camera: tuple[str, str] = ("Lexcam", "Lexcam One"),
    place: tuple[float, float] | None = None,
) -> bytes:
    """Return a DNG: first a thumbnail of one colour, as cameras write it, then what the sensor saw.

    The sensor has a colour filter array, 16 bits. The preview is a JPEG; None leaves it out.
    """
    picture = picture or drawing()
    sensor = _mosaic(np.asarray(picture))
    height, width = sensor.shape
    file = io.BytesIO(b"II*\0\0\0\0\0")
    file.seek(8)
    thumbnail = _put(file, bytes(16 * 16 * 3))
    seen = _put(file, preview or b"")
    further = [
        _directory(
            file,
            {
                **_picture(width, height, SENSOR, [16], SENSOR_AT, sensor.nbytes),
                33421: (SHORT, (2, 2)),  # the array repeats itself
                33422: (BYTES, bytes([0, 1, 1, 2])),  # red, green, green, blue
                50714: (SHORT, 0),  # black
                50717: (LONG, 65535),  # white
            },
        )
    ]
    if preview is not None:
        with Image.open(io.BytesIO(preview)) as opened:
            tags = _picture(*opened.size, 6, [8] * 3, seen, len(preview), compression=7)
        further.append(_directory(file, {**tags, 254: (LONG, 1)}))
    exif = _directory(file, {0x9003: (TEXT, taken)} if taken else {0x829A: (RATIONAL, 0.01)})
    first: Tags = {
        **_picture(16, 16, 2, [8] * 3, thumbnail, 16 * 16 * 3),
        254: (LONG, 1),
        271: (TEXT, camera[0]),
        272: (TEXT, camera[1]),
        274: (SHORT, orientation),
        330: (LONG, further),
        0x8769: (LONG, exif),
        50706: (BYTES, bytes([1, 4, 0, 0])),
        50708: (TEXT, camera[1]),
        50721: (SIGNED_RATIONAL, TO_SRGB),  # from XYZ to the sensor's colours
        50728: (RATIONAL, (1.0, 1.0, 1.0)),  # which are white together
        50778: (SHORT, 21),
    }
    if place is not None:
        tags = {
            1: (TEXT, "N"),
            2: (RATIONAL, (place[0], 0.0, 0.0)),
            3: (TEXT, "E"),
            4: (RATIONAL, (place[1], 0.0, 0.0)),
        }
        first[0x8825] = (LONG, _directory(file, tags))
    if xmp:
        first[700] = (BYTES, xmp)
    place = _directory(file, first)
    file.seek(4)
    file.write(place.to_bytes(4, "little"))
    file.seek(SENSOR_AT)
    file.write(sensor.astype("<u2").tobytes())
    return file.getvalue()


def _mosaic(pixels: np.ndarray) -> np.ndarray:
    """Return what a sensor with filters of red, green, green and blue sees; light adds up."""
    light = (pixels.astype(np.float64) / 255) ** 2.2 * 65535
    sensor = light[:, :, 1].copy()
    sensor[::2, ::2] = light[::2, ::2, 0]
    sensor[1::2, 1::2] = light[1::2, 1::2, 2]
    return sensor.round().astype(np.uint16)


def _picture(
    width: int, height: int, photometry: int, bits: Sequence[int], place: int, size: int, compression: int = 1
) -> Tags:
    return {
        254: (LONG, 0),
        256: (LONG, width),
        257: (LONG, height),
        258: (SHORT, tuple(bits)),
        259: (SHORT, compression),
        262: (SHORT, photometry),
        273: (LONG, place),
        277: (SHORT, len(bits)),
        278: (LONG, height),
        279: (LONG, size),
    }


def _put(file: io.BytesIO, data: bytes) -> int:
    """Write bytes at an even place, and return that."""
    place = file.seek(0, io.SEEK_END)
    file.write(b"\0" * (place % 2) + data)
    return place + place % 2


def _directory(file: io.BytesIO, tags: Tags) -> int:
    """Write a directory of TIFF, and return its place."""
    entries = []
    for tag, (kind, value) in sorted(tags.items()):
        data, count = _packed(kind, value)
        place = data.ljust(4, b"\0") if len(data) <= 4 else _put(file, data).to_bytes(4, "little")
        entries.append(struct.pack("<HHL", tag, kind, count) + place)
    return _put(file, struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4))


def _packed(kind: int, value: Any) -> tuple[bytes, int]:
    """Return the bytes of a tag's value or values, and how many there are."""
    if kind == TEXT:
        value = value.encode() + b"\0"
    if isinstance(value, bytes):
        return value, len(value)
    values = value if isinstance(value, (tuple, list)) else (value,)
    if kind in (RATIONAL, SIGNED_RATIONAL):
        letter, parts = (
            ("L" if kind == RATIONAL else "l"),
            [part for one in values for part in (round(one * 100), 100)],
        )
    else:
        letter, parts = {SHORT: "H", LONG: "L"}[kind], list(values)
    return struct.pack(f"<{len(parts)}{letter}", *parts), len(values)
