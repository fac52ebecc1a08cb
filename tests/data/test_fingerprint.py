import numpy as np
import pytest
from PIL import Image
from scipy.fft import dctn

from lexlip.data import decode
from lexlip.data.fingerprint import distances, fingerprint
from lexlip.retrieval.near_duplicates import NEAR
from tests.data.pictures import encode


def gradient(seed: int) -> Image.Image:
    """A picture with large soft shapes, as photos have."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC)


def test_it_is_the_perceptual_hash_by_its_definition() -> None:
    image = gradient(0)
    grey = np.asarray(image.resize((32, 32), Image.Resampling.BOX).convert("L"), dtype=float)
    frequencies = dctn(grey, type=2)
    scale = frequencies[:8, :8].ravel()
    median = sorted(scale[1:])[31]
    assert fingerprint(image) == int("".join("1" if value > median else "0" for value in scale), 2)


def test_a_picture_of_one_colour() -> None:
    assert 0 <= fingerprint(Image.new("RGB", (30, 20), "red")) < 2**64


def test_distances_are_counted_bits() -> None:
    numbers = [int(number) for number in np.random.default_rng(0).integers(0, 2**64, 50, dtype=np.uint64)]
    expected = [bin(numbers[0] ^ other).count("1") for other in numbers]
    assert distances(numbers[0], numbers).tolist() == expected
    assert distances(5, []).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_copies_have_nearly_the_same(seed: int) -> None:
    image = gradient(seed)
    small = decode(encode(image.resize((200, 150)), "JPEG", quality=40))
    assert distances(fingerprint(image), [fingerprint(small)])[0] <= NEAR
    assert distances(fingerprint(image), [fingerprint(gradient(seed + 100))])[0] > 2 * NEAR
