"""The text in drawn pictures, read by the real networks."""

import sys
from pathlib import Path

import matplotlib
import pytest
from PIL import Image, ImageDraw, ImageFont

from lexlip.errors import MissingPackage
from lexlip.indexing.text_reader import TextReader

PHOTOS = Path(__file__).parents[2] / "lexlip" / "photos"


@pytest.fixture(scope="module")
def reader() -> TextReader:
    pytest.importorskip("rapidocr")
    return TextReader()


def sign(text: str, size: tuple[int, int] = (800, 500), letters: int = 60) -> Image.Image:
    picture = Image.new("RGB", size, (250, 250, 245))
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf", letters)
    ImageDraw.Draw(picture).text((size[0] // 8, size[1] // 4), text, (20, 20, 20), font)
    return picture


@pytest.mark.parametrize("size", [(800, 500), (4000, 3000)])
def test_lines_are_read_with_their_places(reader: TextReader, size: tuple[int, int]) -> None:
    lines = reader.read(sign("EXIT 12\nPlatform Nine", size, size[0] // 14))
    assert [line.text for line in lines] == ["EXIT 12", "Platform Nine"]
    (left, above, right, *_), below = lines[0].corners, lines[1].corners[1]
    assert left == pytest.approx(125, abs=30)
    assert above == pytest.approx(260, abs=40)
    assert left < right < 1000
    assert above < below


def test_letters_that_fill_a_picture_are_read(reader: TextReader) -> None:
    assert [line.text for line in reader.read(sign("STOP", (1600, 800), 500))] == ["STOP"]


@pytest.mark.parametrize("name", ["ascent", "camera", "chelsea", "coffee", "grass", "raccoon", "brick"])
def test_nothing_is_read_where_nothing_is_written(reader: TextReader, name: str) -> None:
    with Image.open(PHOTOS / f"{name}.jpg") as photo:
        assert reader.read(photo.convert("RGB")) == ()


@pytest.mark.parametrize("size", [(1, 1), (3, 2000), (5000, 20)])
def test_pictures_of_any_form_are_taken(reader: TextReader, size: tuple[int, int]) -> None:
    assert reader.read(Image.new("RGB", size)) == ()


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(MissingPackage, match=r"lexlip\[ocr\]"):
        TextReader()
