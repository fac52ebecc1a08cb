"""A fingerprint that copies of a picture share, though resized, recompressed or cropped a little."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 8  # differences in a row, and rows
_WEIGHTS = (1 << np.arange(63, -1, -1, dtype=np.uint64)).astype(np.uint64)
_BITS = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8)


def fingerprint(image: Image.Image) -> int:
    """Return the difference hash of a picture, 64 bits: which of 8 x 9 grey fields are darker than the next.

    Args:
        image: in RGB.
    """
    small = image.resize((SIDE + 1, SIDE), Image.Resampling.BOX).convert("L")
    grey = np.asarray(small, dtype=np.int16)
    darker = (grey[:, :-1] < grey[:, 1:]).ravel()
    return int(_WEIGHTS[darker].sum(dtype=np.uint64))


def distances(one: int, others: Sequence[int] | NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return in how many bits each of n fingerprints differs from one, int64 [n]."""
    different = np.asarray(others, dtype=np.uint64) ^ np.uint64(one)
    return _BITS[different.view(np.uint8).reshape(-1, 8)].sum(axis=1, dtype=np.int64)
