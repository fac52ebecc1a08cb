"""The process that opens and decodes pictures for `lexlip.data.isolated`, one after another.

python isolated_process.py MOST_MEMORY
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pi_heif
from PIL import Image, UnidentifiedImageError

HEADER_ONLY, AS_JPEG = -1, -2
LEAST = 384  # pixels of a preview's shorter side: image encoders see squares up to that size
_QUALITY = 95  # of the JPEG of a developed picture
_ORIENTATIONS = "12435867"  # EXIF's, by LibRaw's bits: mirrored, upside down, on its side
_ORIENTATION, _EXIF_FOLDER, _XMP = 0x0112, 0x8769, 0x02BC
_MAKE, _MODEL, _XP_KEYWORDS, _TAKEN, _DIGITIZED = 0x010F, 0x0110, 0x9C9E, 0x9003, 0x9004
_GPS_FOLDER, _LATITUDE, _LONGITUDE = 0x8825, 2, 4  # before each is its side


def main() -> None:
    warnings.simplefilter("ignore")
    _bound_memory(int(sys.argv[1]))
    Image.MAX_IMAGE_PIXELS = None  # the other process looks at the size before it asks for pixels
    os.environ["OMP_NUM_THREADS"] = "1"  # of LibRaw: other photos are for other cores
    pi_heif.register_heif_opener(depth_images=False, aux_images=False, thumbnails=False)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while line := requests.readline():
        halved, length = json.loads(line)
        answer, parts = _answer(requests.read(length), halved)
        answer["parts"] = {name: len(part) for name, part in parts.items()}
        answers.writelines([json.dumps(answer).encode(), b"\n", *parts.values()])
        answers.flush()


def _bound_memory(most: int) -> None:
    with suppress(ImportError, OSError, ValueError):  # Windows has no such bound, and macOS ignores it
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _answer(data: bytes, halved: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what is told of a picture, and the bytes that follow; see `lexlip.data.isolated.ask`."""
    try:
        if halved == AS_JPEG:
            return _raw_as_jpeg(data)
        image = _open(data)
        parts = {name: image.info[name] for name in ("exif", "xmp") if image.info.get(name)}
        if image.format == "JXL" and "exif" in parts and not image.jpeg:
            parts["exif"] = _upright(image)
        picture = image if halved == HEADER_ONLY else _decoded(data, halved)
        parts["pixels"] = b"" if halved == HEADER_ONLY else picture.tobytes()
    except Exception as error:  # decoders raise nearly anything for a damaged file
        unknown = isinstance(error, UnidentifiedImageError)
        return {"error": _message(error), "unknown": unknown}, {}
    return {"format": image.format, "mode": picture.mode, "size": picture.size}, parts


def _message(error: Exception) -> str:
    """Return what an error says; those of LibRaw say it in bytes, and libjxl advises its builders."""
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(error) or type(error).__name__
    return text.partition(". Please build")[0]


def _open(data: bytes) -> Any:
    formats = ["HEIF", "JPEG2000"]
    if data.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL ")):
        import pillow_jxl  # noqa: F401 (Pillow can open them from now on)

        formats = ["JXL"]
    return Image.open(io.BytesIO(data), formats=formats)


def _upright(image: Any) -> bytes:
    """Return the EXIF of a JPEG XL, which its decoder has turned already unless it was a JPEG."""
    exif = image.getexif()
    exif[_ORIENTATION] = 1
    return exif.tobytes()  # type: ignore[no-any-return]


def _decoded(data: bytes, halved: int) -> Image.Image:
    image = _open(data)
    if halved:
        image.reduce = halved
        try:
            image.load()
        except OSError:  # it has no copies that small
            return _decoded(data, 0)
    # a palette would have to be told, too
    return image.convert("RGBA") if image.mode == "P" else image


# ---- RAW files ----


def _raw_as_jpeg(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a RAW file as a JPEG: its largest preview, or developed at half its size if that is tiny."""
    import rawpy

    with rawpy.imread(io.BytesIO(data)) as raw:
        jpeg = _preview(raw)
        turned = _ORIENTATIONS[raw.sizes.flip]
        if jpeg is None:
            jpeg, turned = _encoded(_developed(raw)), "1"
    jpeg, own = _without_exif(jpeg)
    preview = Image.open(io.BytesIO(jpeg), formats=["JPEG"])
    told = [*_tiffs(data), own]
    exif = _merged(told)
    exif[_ORIENTATION] = own.get(_ORIENTATION) or int(turned)
    marked = exif.tobytes()
    xmp = next((tags[_XMP] for tags in told if isinstance(tags.get(_XMP), bytes)), preview.info.get("xmp"))
    parts = {"xmp": xmp} if xmp else {}
    parts["pixels"] = jpeg[:2] + b"\xff\xe1" + (len(marked) + 2).to_bytes(2) + marked + jpeg[2:]
    return {"format": "JPEG", "mode": preview.mode, "size": preview.size}, parts


def _preview(raw: Any) -> bytes | None:
    """Return the largest preview that a RAW file holds, as a JPEG; None: there is none, or a tiny one."""
    import rawpy

    try:
        found = raw.extract_thumb()
    except (rawpy.LibRawNoThumbnailError, rawpy.LibRawUnsupportedThumbnailError):
        return None
    if found.format == rawpy.ThumbFormat.BITMAP:
        return _encoded(found.data) if min(found.data.shape[:2]) >= LEAST else None
    with Image.open(io.BytesIO(found.data), formats=["JPEG"]) as preview:
        return found.data if min(preview.size) >= LEAST else None


def _developed(raw: Any) -> Any:
    """Return what the sensor saw, upright, at half its size, uint8 [height, width, 1 or 3]."""
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)  # only there LibRaw says that data are missing, and makes up what they were
        pixels = raw.postprocess(half_size=True, use_camera_wb=True)
        if said.seek(0, os.SEEK_END) or pixels.min() == pixels.max():
            raise OSError("data of the sensor are missing or damaged")
    return pixels


def _encoded(pixels: Any) -> bytes:
    """Return a picture, uint8 [height, width, 1 or 3], as a JPEG."""
    file = io.BytesIO()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.save(file, "JPEG", quality=_QUALITY, subsampling=0)
    return file.getvalue()


def _tiffs(data: bytes) -> Iterator[Image.Exif]:
    """Yield the tags of a RAW file that is a TIFF, or of the TIFFs in Canon's CR3."""
    starts = [0]
    if data[4:8] == b"ftyp":
        starts = [place + 4 for box in (b"CMT1", b"CMT2", b"CMT4") if (place := data.find(box)) >= 0]
    for start in starts:
        order = data[start : start + 2]
        if order in (b"II", b"MM"):
            mark = b"II*\0" if order == b"II" else b"MM\0*"  # those of Olympus and Panasonic are others
            tags = Image.Exif()
            with suppress(Exception):  # what is damaged there is left out
                tags.load_from_fp(io.BytesIO(mark + data[start + 4 :]))
                yield tags


def _merged(told: list[Image.Exif]) -> Image.Exif:
    """Return EXIF with what is told of a photo; what is told first counts."""
    exif = Image.Exif()
    inner = exif.get_ifd(_EXIF_FOLDER)
    for tags in told:
        with suppress(Exception):
            for tag in (_MAKE, _MODEL, _XP_KEYWORDS):
                if tag in tags:
                    exif.setdefault(tag, tags[tag])
            for folder in (tags.get_ifd(_EXIF_FOLDER), tags):  # that of a CR3 is a TIFF
                for tag in (_TAKEN, _DIGITIZED):
                    if tag in folder:
                        inner.setdefault(tag, folder[tag])
        with suppress(Exception):
            gps = tags.get_ifd(_GPS_FOLDER) or tags
            angles = [tuple(map(float, gps[tag])) for tag in (_LATITUDE, _LONGITUDE)]
            if _GPS_FOLDER not in exif and all(0 <= part <= 180 for angle in angles for part in angle):
                sides = {tag - 1: str(gps[tag - 1]) for tag in (_LATITUDE, _LONGITUDE)}
                exif[_GPS_FOLDER] = {**sides, _LATITUDE: angles[0], _LONGITUDE: angles[1]}
    exif[_EXIF_FOLDER] = inner
    return exif


def _without_exif(jpeg: bytes) -> tuple[bytes, Image.Exif]:
    """Return a JPEG without EXIF, and that: its own, which follows what LibRaw puts before it."""
    kept, own, place = [], Image.Exif(), 2
    while jpeg[place : place + 1] == b"\xff" and 0xE0 <= jpeg[place + 1] <= 0xEF:
        end = place + 2 + int.from_bytes(jpeg[place + 2 : place + 4])
        if jpeg.startswith(b"Exif\0\0", place + 4):
            with suppress(Exception):  # damaged, or a further part of a long one
                own.load(jpeg[place + 4 : end])
        else:
            kept.append(jpeg[place:end])
        place = end
    return b"".join([jpeg[:2], *kept, jpeg[place:]]), own


if __name__ == "__main__":
    main()
