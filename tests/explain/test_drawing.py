import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from lexlip.errors import ConfigError, DataError
from lexlip.explain.drawing import Box, Drawing, Picture, Text, cut, font, printable, width_of
from lexlip.machine.output_files import write_output

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>\"'&amp;\n\0\x1b\udcff]]>"


def drawing(text: str = "Hund") -> Drawing:
    half = Image.new("RGBA", (10, 20), "#0000ff")
    box, picture = Box(10, 10, 30, 20, "#ff0000"), Picture(50, 10, 20, 40, half, "blue")
    return Drawing(200, 100, [box, picture, Text(10, 80, 20, text, note=text)])


def test_a_png_has_everything_in_its_place() -> None:
    pixels = np.array(Image.open(io.BytesIO(drawing().to_png())))
    assert pixels.shape == (200, 400, 3)
    for colour, place in {(255, 0, 0): (20, 20, 80, 60), (0, 0, 255): (100, 20, 140, 100)}.items():
        ys, xs = np.nonzero((pixels == colour).all(axis=-1))
        assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == place
    ys, xs = np.nonzero((pixels[110:] < 128).all(axis=-1))
    assert xs.min() >= 20
    assert xs.max() < 20 + 2 * width_of("Hund", 20)
    assert ys.max() + 110 <= 161
    assert (pixels[0, 0] == 255).all()


def test_an_svg_says_the_same() -> None:
    root = ElementTree.fromstring(drawing().to_svg())
    assert root.attrib["viewBox"] == "0 0 200 100"
    text = root.find(f"{SVG}text")
    assert text is not None
    assert (text.attrib["x"], text.attrib["y"], text.attrib["font-size"]) == ("10", "80", "20")
    assert float(text.attrib["textLength"]) == pytest.approx(width_of("Hund", 20), abs=0.1)
    assert "".join(text.itertext()) == "HundHund"  # what it says on pointing at it, then the text
    image = root.find(f"{SVG}image")
    assert image is not None
    assert image.attrib["href"].startswith("data:image/jpeg;base64,")
    assert image.findtext(f"{SVG}title") == "blue"


def test_no_text_becomes_code() -> None:
    hostile = drawing(HOSTILE)
    root = ElementTree.fromstring(hostile.to_svg().encode())
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "rect", "text", "image", "title"}
    assert hostile.to_png()
    assert printable("a\nb\0c\udcffdÄ犬") == "a b c dÄ犬"


def test_the_same_drawing_is_the_same_file() -> None:
    assert drawing().to_png() == drawing().to_png()
    assert drawing().to_svg() == drawing().to_svg()


def test_a_line_is_cut_where_it_is_full() -> None:
    text = "a dog in the snow of a long winter"
    assert cut(text, 1000, 20) == text
    for width in (30, 100, 200):
        line = cut(text, width, 20)
        assert line.endswith("…")
        assert text.startswith(line[:-1])
        assert width_of(line, 20) <= width < width_of(text[: len(line) + 2], 20) + width_of("…", 20)
    assert cut(text, 0, 20) == "…"
    assert width_of("W", 40, bold=True) == pytest.approx(font(40, True).getlength("W"), rel=0.05)


def test_files(tmp_path: Path) -> None:
    drawing().save(tmp_path / "a.PNG")
    drawing().save(tmp_path / "a.svg")
    assert (tmp_path / "a.PNG").read_bytes() == drawing().to_png()
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing().to_svg()
    assert Image.open(io.BytesIO(drawing().to_png())).size == drawing().to_image().size
    for name in ("a.jpg", "a"):
        with pytest.raises(ConfigError, match=rf"{name}: give a name that ends with \.png or \.svg$"):
            drawing().save(tmp_path / name)
    with pytest.raises(DataError, match=r"^cannot write .*none/a\.svg: No such file or directory$"):
        drawing().save(tmp_path / "none" / "a.svg")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match=r"^cannot write .*folder\.png: Is a directory$"):
        write_output(tmp_path / "folder.png", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.PNG", "a.svg", "folder.png"]
