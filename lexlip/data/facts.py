"""Facts about a photo that are stored with an index: its size, when it was taken, its captions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lexlip.data.embedded import read_embedded
from lexlip.data.images import decode_opened, open_image, quiet, upright_size

SIDE = 32  # fields of a row or column, of which the DCT is taken
KEPT = 8  # its lowest frequencies, in each direction
_DCT = np.cos(np.pi / SIDE * np.outer(np.arange(KEPT), np.arange(SIDE) + 0.5))
_WEIGHTS = np.uint64(1) << np.arange(63, -1, -1, dtype=np.uint64)
_BITS = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one photo; the defaults say that nothing is known.

    Attributes:
        width, height: upright, in pixels.
        taken, camera, captions, keywords: see `Embedded`.
        size, digest: of the file's bytes.
        fingerprint: 64 bits, see `lexlip.data.facts.fingerprint`.
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

    Some are in `side`, the XMP file beside the photo.
    """
    with quiet():
        opened = open_image(data)
        whole = opened.size  # it may be decoded smaller
        image = decode_opened(opened, data, size)
        facts = _facts(opened, whole, side)
        return image, replace(facts, size=len(data), digest=digest(data), fingerprint=fingerprint(image))


def facts_of_header(file: BinaryIO, side: bytes = b"") -> Facts:
    """Return the facts that the beginning of a file tells: not its digest, nor its fingerprint.

    Raises:
        UnreadableImage: it is not an image, or is damaged.
    """
    with quiet():
        opened = open_image(file)
        return _facts(opened, opened.size, side)


def _facts(opened: Image.Image, size: tuple[int, int], side: bytes) -> Facts:
    width, height = upright_size(opened, size)
    return Facts(width, height, **read_embedded(opened, side)._asdict())


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


def distances(one: int, others: Sequence[int] | NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return in how many bits each of n fingerprints differs from one, int64 [n]."""
    different = np.asarray(others, dtype=np.uint64) ^ np.uint64(one)
    return _BITS[different.view(np.uint8).reshape(-1, 8)].sum(axis=1, dtype=np.int64)
