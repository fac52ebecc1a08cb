"""Facts about a photo that are stored with an index: its size, when it was taken, its captions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO

from PIL import Image

from lexlip.data.embedded import read_embedded
from lexlip.data.fingerprint import fingerprint
from lexlip.data.images import decode_opened, open_image, quiet, upright_size


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one photo; the defaults say that nothing is known.

    Attributes:
        width, height: upright, in pixels.
        taken: when, by the camera's clock: "2019-07-01T12:30:00".
        camera: its maker and model.
        captions, keywords: those in the file, and in an XMP file beside it.
        size: bytes of the file.
        digest: of the file's bytes.
        fingerprint: 64 bits, see `lexlip.data.fingerprint`.
        state: of the file when it was read, see `lexlip.data.Source.state`; "" is unknown.
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


def digest(data: bytes) -> str:
    """Return what identifies a file's content: BLAKE2b of 128 bits, hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def decode_with_facts(data: bytes, size: int | None = None, side: bytes = b"") -> tuple[Image.Image, Facts]:
    """Return a photo as `lexlip.data.images.decode` does, and the facts about it.

    Args:
        data, size: see `decode`.
        side: the XMP file beside the photo.

    Raises:
        UnreadableImage: see `decode`.
    """
    with quiet():
        opened = open_image(data)
        width, height = opened.size
        image = decode_opened(opened, data, size)
        return image, _facts(opened, (width, height), side, data, fingerprint(image))


def facts_of_header(file: BinaryIO, side: bytes = b"") -> Facts:
    """Return the facts that the beginning of a file tells: not its digest, nor its fingerprint.

    Raises:
        UnreadableImage: it is not an image, or is damaged.
    """
    with quiet():
        opened = open_image(file)
        return _facts(opened, opened.size, side)


def _facts(
    opened: Image.Image,
    size: tuple[int, int],
    side: bytes,
    data: bytes | None = None,
    perceptual: int | None = None,
) -> Facts:
    written = read_embedded(opened, side)
    width, height = upright_size(opened, size)
    return Facts(
        width=width,
        height=height,
        taken=written.taken,
        camera=written.camera,
        captions=written.captions,
        keywords=written.keywords,
        size=None if data is None else len(data),
        digest="" if data is None else digest(data),
        fingerprint=perceptual,
    )
