from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

from lexlip.errors import ConfigError, DataError
from lexlip.explain.heat_map import VIRIDIS, heat_picture, heat_sheet, over, overlay, shrunk, write_heat
from lexlip.explain.word_places import WordPlaces

SIZE = (280, 140)


def place(
    grid: list[list[float]],
    box: tuple[float, float, float, float] = (0, 0, 1, 1),
    special: float | None = None,
) -> WordPlaces:
    values = np.array(grid, np.float32)
    outside = np.array([[]] if special is None else [[special]], np.float32)
    weight = np.array([max(values.max(), outside.max(initial=0))], np.float32)
    return WordPlaces(("dog",), *values.shape, box, values.reshape(1, -1), outside, weight)


ONE = np.zeros((7, 7)).tolist()
ONE[2][5] = 0.3


def test_the_heat_lies_where_the_word_is() -> None:
    heat = np.array(overlay(place(ONE), "dog", SIZE))
    assert heat.shape == (140, 280, 4)
    ys, xs = np.nonzero(heat[..., 3])
    assert xs.min() >= 180
    assert xs.max() < 260
    assert ys.min() >= 30
    assert ys.max() < 70
    middle = heat[2 * 20 + 10, 5 * 40 + 20]
    assert np.abs(middle[:3].astype(int) - [0xFD, 0xE7, 0x25]).max() < 30  # nearly the highest of the colours
    assert middle[3] == heat[47:53, 210:230, 3].max()  # the frame lies outside


def test_the_winner_has_a_frame() -> None:
    heat = np.array(overlay(place(ONE), "dog", SIZE))
    white = (heat == 255).all(axis=-1)
    ys, xs = np.nonzero(white)
    assert (xs.min() // 40, xs.max() // 40, ys.min() // 20, ys.max() // 20) == (5, 5, 2, 2)
    assert np.count_nonzero(white) > 100
    alone = np.array(overlay(place(ONE, special=0.5), "dog", SIZE))
    assert not (alone == 255).all(axis=-1).any()  # a special position won


def test_colours_are_even_steps() -> None:
    expected = [matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](step / 8)) for step in range(9)]
    assert [f"#{colour}" for colour in VIRIDIS.split()] == expected


def test_outside_the_crop_nothing_is_drawn() -> None:
    everywhere = place([[1.0] * 4] * 4, (0.25, 0, 0.75, 1))
    alpha = np.array(overlay(everywhere, "dog", SIZE))[..., 3]
    assert not alpha[:, :70].any()
    assert not alpha[:, 210:].any()
    assert alpha[:, 70:210].all()
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (140, 280, 3), dtype=np.uint8))
    shown, grey = np.array(over(picture, everywhere, "dog")), np.array(picture.convert("L").convert("RGB"))
    assert (shown[:, :70] == grey[:, :70]).all()
    assert (shown[:, 210:] == grey[:, 210:]).all()
    assert (shown[:, 70:210] != grey[:, 70:210]).any(axis=-1).mean() > 0.99


def test_a_word_that_is_not_there_leaves_the_picture() -> None:
    assert not np.array(overlay(place([[0.0] * 3] * 3), "dog", SIZE)).any()


@pytest.mark.parametrize("size", [(1, 1), (3, 400), (400, 3)])
def test_odd_sizes(size: tuple[int, int]) -> None:
    for box in ((0, 0, 1, 1), (0.496, 0, 0.504, 1)):
        assert overlay(place(ONE, box), "dog", size).size == size
    picture = Image.new("RGB", size, "red")
    for drawing in (heat_picture(picture, place(ONE), "dog"), heat_sheet(picture, place(ONE), "t" * 500)):
        image = drawing.to_image(1)
        assert image.width >= 150
        assert image.height >= 36


def test_headings() -> None:
    picture = Image.new("L", (300, 200), 90)
    texts = {getattr(element, "text", "") for element in heat_picture(picture, place(ONE), "dog").elements}
    assert {"dog", "0.300"} <= texts
    gone = heat_picture(picture, place([[0.0]]), "dog").elements
    assert "not here" in {getattr(element, "text", "") for element in gone}
    special = heat_sheet(picture, place(ONE, special=0.5), "a title").elements
    texts = {getattr(element, "text", "") for element in special}
    assert "a title" in texts
    assert any(text.startswith("0.500, from no place") for text in texts)


def test_large_pictures_are_shrunk() -> None:
    assert shrunk(Image.new("RGBA", (3000, 1500))).size == (960, 480)
    assert shrunk(Image.new("L", (30, 15))).mode == "RGB"


def test_files(tmp_path: Path) -> None:
    words = ("dog", "##s/../x", "Hündin")
    values = np.random.default_rng(0).random((3, 9), dtype=np.float32)
    where = WordPlaces(words, 3, 3, (0, 0, 1, 1), values, np.zeros((3, 0), np.float32), values.max(axis=1))
    picture = Image.new("RGB", (60, 40), "green")
    files = write_heat(tmp_path / "new" / "heat", picture, where, "title")
    assert [file.name for file in files] == ["1-dog.png", "2-__s____x.png", "3-Hündin.png"]
    before = [file.read_bytes() for file in files]
    again = write_heat(tmp_path / "new/heat", picture, where, "title")
    assert [file.read_bytes() for file in again] == before
    (one,) = write_heat(tmp_path / "all.png", picture, where, "title")
    with Image.open(one) as sheet, Image.open(files[0]) as single:
        assert (sheet.format, single.format) == ("PNG", "PNG")
        assert sheet.width > single.width
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.png", "new"]
    with pytest.raises(ConfigError, match=r"x\.jpg: give a folder, or a name that ends with \.png$"):
        write_heat(tmp_path / "x.jpg", picture, where, "title")
    with pytest.raises(DataError, match=r"^cannot make the folder .*all\.png/heat: Not a directory$"):
        write_heat(tmp_path / "all.png" / "heat", picture, where, "title")
    with pytest.raises(DataError, match=r"^cannot write .*none/a\.png: No such file or directory$"):
        write_heat(tmp_path / "none" / "a.png", picture, where, "title")
