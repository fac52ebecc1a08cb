"""How a photo becomes the square that an image encoder takes, without torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from lexlip.config import ImageEncoderConfig


def square(photo: Image.Image, config: ImageEncoderConfig) -> Image.Image:
    """Squash or centre-crop a photo to the square that the encoder takes."""
    size = (config.size, config.size)
    if config.resize == "squash":
        return photo.resize(size, Image.Resampling.BICUBIC)
    return ImageOps.fit(photo, size, Image.Resampling.BICUBIC)


def seen_part(size: tuple[int, int], config: ImageEncoderConfig) -> tuple[float, float, float, float]:
    """Return where in a photo of some width and height the square of `square` comes from.

    Returns:
        left, top, right and bottom, in fractions of width and height.
    """
    if config.resize == "squash":
        return (0.0, 0.0, 1.0, 1.0)
    cut_x, cut_y = ((1 - min(size) / side) / 2 for side in size)
    return (cut_x, cut_y, 1 - cut_x, 1 - cut_y)


def pixel_array(photo: Image.Image, config: ImageEncoderConfig) -> NDArray[np.uint8]:
    """Return a photo in RGB as the encoder takes it: uint8 [3, size, size]."""
    return np.array(square(photo, config)).transpose(2, 0, 1)
