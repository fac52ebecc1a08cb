"""The process that opens and decodes pictures for `lexlip.data.isolated`, one after another.

python isolated_process.py MOST_MEMORY
"""

from __future__ import annotations

import io
import json
import sys
import warnings
from contextlib import suppress
from typing import Any

import pi_heif
from PIL import Image, UnidentifiedImageError


def main() -> None:
    warnings.simplefilter("ignore")
    _bound_memory(int(sys.argv[1]))
    Image.MAX_IMAGE_PIXELS = None  # the other process looks at the size before it asks for pixels
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
    """Return what is told of a picture, and the bytes that follow; -1 asks for the header only."""
    try:
        image = _open(data)
        parts = {name: image.info[name] for name in ("exif", "xmp") if image.info.get(name)}
        picture = image if halved < 0 else _decoded(data, halved)
        parts["pixels"] = b"" if halved < 0 else picture.tobytes()
    except Exception as error:  # decoders raise nearly anything for a damaged file
        unknown = isinstance(error, UnidentifiedImageError)
        return {"error": str(error) or type(error).__name__, "unknown": unknown}, {}
    return {"format": image.format, "mode": picture.mode, "size": picture.size}, parts


def _open(data: bytes) -> Any:
    return Image.open(io.BytesIO(data), formats=["HEIF", "JPEG2000"])


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


if __name__ == "__main__":
    main()
