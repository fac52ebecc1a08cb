"""HEIC files of a few kilobytes, written by pillow-heif from one drawing; none of the project's own libraries
can write them."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lexlip.data import UnreadableImage, decode, images
from lexlip.data.facts import decode_with_facts, facts_of_header

FOLDER = Path(__file__).parent / "heic"


def drawing() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((96, 72), Image.Resampling.BICUBIC)


def difference(one: Image.Image, other: Image.Image) -> float:
    return float(np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).mean())


def test_a_photo_of_ten_bits() -> None:
    found = decode((FOLDER / "ten-bit.heic").read_bytes())
    assert (found.mode, found.size) == ("RGB", (96, 72))
    assert difference(found, drawing()) < 6


def test_transparent_parts_become_white() -> None:
    found = decode((FOLDER / "transparent.heic").read_bytes())
    assert difference(found.crop((0, 0, 44, 72)), drawing().crop((0, 0, 44, 72))) < 6
    assert np.asarray(found.crop((52, 0, 96, 72))).min() > 240


def test_a_turned_photo_is_upright_and_says_what_cameras_write() -> None:
    data = (FOLDER / "upright-after-turning.heic").read_bytes()
    found, facts = decode_with_facts(data, 32)
    assert found.size == (72, 96)
    assert difference(found, drawing().transpose(Image.Transpose.ROTATE_270)) < 6
    for known in (facts, facts_of_header(io.BytesIO(data))):
        assert (known.width, known.height) == (72, 96)
        assert (known.taken, known.camera, known.keywords) == (
            *("2019-07-01T12:30:05", "Apple iPhone 12"),
            ("sea",),
        )


@pytest.mark.parametrize("name", ["ten-bit", "transparent", "upright-after-turning"])
def test_damage(name: str) -> None:
    data = (FOLDER / f"{name}.heic").read_bytes()
    for length in range(8, len(data) - 1, len(data) // 17):
        with pytest.raises(UnreadableImage):
            decode(data[:length])
    with pytest.raises(UnreadableImage):
        decode(data[:4] + b"ftypheic" + b"\xff" * 300)


def test_what_would_take_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FOLDER / "ten-bit.heic").read_bytes()
    monkeypatch.setattr(images, "MAX_BYTES", 96 * 72 * 9)
    with pytest.raises(UnreadableImage, match="pixels of RGB would take"):
        decode(data)
    monkeypatch.setattr(images, "MAX_PIXELS", 96 * 72 - 1)
    with pytest.raises(UnreadableImage, match="6,912 pixels: more than 6,911"):
        decode(data)
