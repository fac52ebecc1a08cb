"""A fingerprint that copies of a picture share, though resized, recompressed or cropped a little."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 32  # fields of a row or column, of which the DCT is taken
KEPT = 8  # its lowest frequencies, in each direction
_DCT = np.cos(np.pi / SIDE * np.outer(np.arange(KEPT), np.arange(SIDE) + 0.5))
_WEIGHTS = np.uint64(1) << np.arange(63, -1, -1, dtype=np.uint64)
_BITS = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8)


def fingerprint(image: Image.Image) -> int:
    """Return the perceptual hash of a picture, 64 bits.

    They say which of the 8 x 8 lowest frequencies of the picture's discrete cosine transform, in grey, are
    above their median; the mean is not among those. Of 52,000 photos it tells more copies from others than
    difference hashes do (docs/notes/2026-11-23-near-duplicates.md).

    Args:
        image: in RGB.
    """
    grey = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX).convert("L"), dtype=np.float64)
    frequencies = (_DCT @ grey @ _DCT.T).ravel()
    above = frequencies > np.median(frequencies[1:])
    return int(_WEIGHTS[above].sum(dtype=np.uint64))


def distances(one: int, others: Sequence[int] | NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return in how many bits each of n fingerprints differs from one, int64 [n]."""
    different = np.asarray(others, dtype=np.uint64) ^ np.uint64(one)
    return _BITS[different.view(np.uint8).reshape(-1, 8)].sum(axis=1, dtype=np.int64)
