"""What takes the square of a photo is tested with the encoder that takes it, in test_image.py."""

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms.functional import pil_to_tensor

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.framing import pixel_array, square

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_pixels_are_those_of_torchvision(resize: str) -> None:
    config = ImageEncoderConfig(size=32, resize=resize)
    pixels = pixel_array(NOISE, config)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, pil_to_tensor(square(NOISE, config)).numpy())
