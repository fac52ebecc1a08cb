"""The process that opens and decodes HEIC pictures for `lexlip.data.heif`, one after another."""

from __future__ import annotations

import io
import json
import struct
import sys
import warnings
from typing import Any

import pi_heif
from PIL import Image, UnidentifiedImageError


def main() -> None:
    """Answer requests from stdin on stdout until stdin ends."""
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = None  # the other process looks at the size before it asks for pixels
    pi_heif.register_heif_opener(depth_images=False, aux_images=False, thumbnails=False)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while start := requests.read(struct.calcsize(">?Q")):
        pixels, length = struct.unpack(">?Q", start)
        answer, parts = _answer(requests.read(length), pixels)
        text = json.dumps(answer).encode()
        answers.write(struct.pack(">I", len(text)) + text)
        for part in parts:
            answers.write(part)
        answers.flush()


def _answer(data: bytes, pixels: bool) -> tuple[dict[str, Any], list[bytes]]:
    """Return what is told of a picture, and the bytes that follow."""
    try:
        image = Image.open(io.BytesIO(data), formats=["HEIF"])
        info = {name: image.info[name] for name in ("exif", "xmp") if image.info.get(name)}
        raw = image.tobytes() if pixels else b""  # decoding may change the size
    except Exception as error:  # libheif raises nearly anything for a damaged file
        return {"error": str(error), "unknown": isinstance(error, UnidentifiedImageError)}, []
    sizes = {name: len(part) for name, part in info.items()}
    told = {"size": image.size, "mode": image.mode, "info": sizes, "pixels": len(raw)}
    return told, [*info.values(), raw]


if __name__ == "__main__":
    main()
