"""Pictures as people see them, upright on white paper, and as image encoders do: square."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lexlip.errors import DataError, UnreadableImage

if TYPE_CHECKING:
    from lexlip.config import ImageEncoderConfig

TRANSPARENT = ("RGBA", "RGBa", "LA", "La", "PA")
_ORIENTATION = 0x0112  # EXIF tag; its value says how the camera was held
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = tuple(_UPRIGHT[value] for value in (5, 6, 7, 8))
WHITES = tuple(2.0**bits - 1 for bits in (8, 10, 12, 14, 16, 24, 32))
_SAY_ORIENTATION = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")  # keys of `Image.info`


def as_seen(picture: Image.Image) -> Image.Image:
    """Return a picture upright and in RGB, as viewers show it.

    What its EXIF says of how the camera was held turns it, unless it was turned already; transparent parts
    become white; grey of more than 8 bits becomes 8 bits, by how bright it is.
    UnreadableImage: it has no pixels, or they cannot be read.
    """
    if 0 in picture.size:
        raise UnreadableImage("the picture has no pixels")
    try:
        picture.load()
    except Exception as error:  # decoders raise nearly anything for a damaged file
        raise UnreadableImage(f"the picture cannot be read: {error}") from error
    return _to_rgb(_upright(picture))


def _upright(image: Image.Image) -> Image.Image:
    if image.format == "TIFF":  # Pillow turned it while loading
        return image
    turn = turn_of(image)
    if turn is None:
        return image
    turned = image.transpose(turn)
    for name in _SAY_ORIENTATION:
        turned.info.pop(name, None)
    return turned


def turn_of(image: Image.Image) -> Image.Transpose | None:
    try:
        return _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # broken EXIF in an intact picture: leave it as it is
        return None


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        return _eight_bits(image).convert("RGB")
    if image.mode in TRANSPARENT or "transparency" in image.info:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Convert grey of 16 or 32 bits, integer or float, to 8 bits; Pillow's own conversion clips at 255.

    White is the smallest usual one that nothing is brighter than: files do not say how many bits they use.
    """
    grey = np.array(image, dtype=np.float32)
    np.nan_to_num(grey, copy=False)
    tops = (1.0, *WHITES) if image.mode.startswith("F") else WHITES
    brightest = float(np.max(grey))
    top = next((top for top in tops if brightest <= top), brightest)
    np.clip(grey, 0, top, out=grey)
    grey *= np.float32(255 / top)
    return Image.fromarray(np.rint(grey, out=grey).astype(np.uint8))


# ---- the square that an image encoder takes ----


def square(photo: Image.Image, config: ImageEncoderConfig) -> Image.Image:
    """Squash or centre-crop a photo to the square that the encoder takes."""
    size = (config.size, config.size)
    between = Image.Resampling[config.interpolation.upper()]
    if config.resize == "squash":
        return photo.resize(size, between)
    from PIL import ImageOps  # which a search does without

    return ImageOps.fit(photo, size, between)


def seen_part(size: tuple[int, int], config: ImageEncoderConfig) -> tuple[float, float, float, float]:
    """Return where in a photo of some width and height the square of `square` comes from.

    These are left, top, right and bottom, in fractions of width and height.
    """
    if config.resize == "squash":
        return (0.0, 0.0, 1.0, 1.0)
    cut_x, cut_y = ((1 - min(size) / side) / 2 for side in size)
    return (cut_x, cut_y, 1 - cut_x, 1 - cut_y)


def pixel_array(photo: Image.Image, config: ImageEncoderConfig) -> NDArray[np.uint8]:
    """Return a photo in RGB as the encoder takes it: uint8 [3, size, size]; DataError: it takes none."""
    if config.regions is not None:
        raise DataError("the model takes the regions that a detector found in a photo, and not the picture")
    return np.array(square(photo, config)).transpose(2, 0, 1)
