import hashlib
import io

import numpy as np
import pytest
from PIL import Image
from scipy.fft import dctn

from lexlip.data import UnreadableImage, decode
from lexlip.data.facts import Facts, decode_with_facts, digest, distances, facts_of_header, fingerprint
from lexlip.retrieval.filters import NEAR
from tests.data.pictures import encode


def photo(format: str = "JPEG", orientation: int = 1) -> bytes:
    made = Image.Exif()
    made.update({0x0110: "EOS 5D", 0x0112: orientation, 0x8769: {0x9003: "2019:07:01 12:30:05"}})
    noise = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return encode(Image.fromarray(noise).resize((800, 600)), format, exif=made.tobytes())


@pytest.mark.parametrize("size", [None, 100])
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_facts_of_a_photo(format: str, size: int | None) -> None:
    data = photo(format)
    image, facts = decode_with_facts(data, size)
    assert np.array_equal(image, decode(data, size))
    assert facts == Facts(
        width=800,
        height=600,
        taken="2019-07-01T12:30:05",
        camera="EOS 5D",
        size=len(data),
        digest=hashlib.blake2b(data, digest_size=16).hexdigest(),
        fingerprint=fingerprint(image),
    )
    header = facts_of_header(io.BytesIO(data))
    assert header == Facts(width=800, height=600, taken=facts.taken, camera=facts.camera)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_width_and_height_are_upright(format: str, orientation: int) -> None:
    data = photo(format, orientation)
    upright = decode(data).size
    assert upright == ((800, 600) if orientation < 5 else (600, 800))
    facts = decode_with_facts(data, 100)[1]
    header = facts_of_header(io.BytesIO(data))
    assert (facts.width, facts.height) == (header.width, header.height) == upright


def test_a_file_that_is_no_photo() -> None:
    for data in (b"", b"no photo"):
        with pytest.raises(UnreadableImage):
            decode_with_facts(data)
    with pytest.raises(UnreadableImage, match="not an image"):
        facts_of_header(io.BytesIO(b"no photo"))


def test_a_digest_is_of_the_content() -> None:
    assert digest(b"a") == digest(b"a") != digest(b"b")
    assert len(digest(b"a")) == 32


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
