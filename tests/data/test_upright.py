"""What viewers show; files of all kinds are in tests/data/test_images.py."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps
from torchvision.transforms.functional import pil_to_tensor

from lexlip.config import ImageEncoderConfig
from lexlip.data import decode
from lexlip.data.upright import as_seen, pixel_array, square
from lexlip.errors import UnreadableImage


def turned(orientation: int, format: str = "JPEG") -> bytes:
    """A picture whose upper left quarter alone is bright, with an EXIF orientation."""
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:20, :30] = 250, 200, 150
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format, exif=exif, **({"quality": 95} if format == "JPEG" else {}))
    return file.getvalue()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_as_its_file_is_decoded(orientation: int, format: str) -> None:
    data = turned(orientation, format)
    expected = decode(data)
    for picture in (
        Image.open(io.BytesIO(data)),
        Image.open(io.BytesIO(data)).convert("RGB"),
        ImageOps.exif_transpose(Image.open(io.BytesIO(data))),  # turned already
        expected,
        as_seen(expected),
    ):
        np.testing.assert_array_equal(np.array(as_seen(picture)), np.array(expected))
    assert expected.size == ((60, 40) if orientation < 5 else (40, 60))


def test_white_paper_and_eight_bits() -> None:
    clear = Image.new("RGBA", (8, 8), (10, 20, 30, 0))
    assert as_seen(clear).getpixel((0, 0)) == (255, 255, 255)
    deep = Image.fromarray(np.full((8, 8), 65535, np.uint16))
    assert as_seen(deep).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("size", [(0, 0), (8, 0), (0, 8)])
def test_a_picture_without_pixels_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UnreadableImage, match="has no pixels"):
        as_seen(Image.new("L", size))


def test_the_picture_that_is_given_stays_as_it_is() -> None:
    picture = Image.open(io.BytesIO(turned(6)))
    as_seen(picture)
    assert (picture.size, picture.getexif()[0x0112]) == ((60, 40), 6)


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_pixels_are_those_of_torchvision(resize: str) -> None:
    config = ImageEncoderConfig(size=32, resize=resize)
    pixels = pixel_array(NOISE, config)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, pil_to_tensor(square(NOISE, config)).numpy())
