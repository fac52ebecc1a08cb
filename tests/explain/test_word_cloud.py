from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lexlip.explain.drawing import ACCENT, INK, Box, Drawing, Picture, Text, width_of
from lexlip.explain.weighted_words import WeightedWords
from lexlip.explain.word_cloud import MOST, cloud, figure_of_hit, figure_of_picture, figure_of_text

WEIGHTS = {
    **{"dogs": 1.4, "snow": 1.3, "winter": 0.9, "running": 0.8, "Hündin": 0.7, "playing": 0.6, "white": 0.5},
    **{f"word{number}": 0.45 - 0.01 * number for number in range(30)},
}
SEEN = WeightedWords({"dog": 1.2, "snow": 1.0, "ball": 0.4, "running": 0.3}, ["dog"])
SAID = WeightedWords({"dog": 1.5, "winter": 0.7}, ["dog"])
NONE = WeightedWords({}, [])


def texts(drawing: Drawing) -> list[Text]:
    return [element for element in drawing.elements if isinstance(element, Text)]


def test_the_heavier_the_larger() -> None:
    words = texts(cloud(WEIGHTS))
    assert [text.text for text in words] == list(WEIGHTS)[: len(words)]
    assert len(words) >= 20
    sizes = [text.size for text in words]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] >= 3 * sizes[-1]
    assert words[0].note == "dogs 1.400"


@pytest.mark.parametrize("scale", [1, 2])
def test_no_words_overlap_and_none_is_cut_off(scale: int) -> None:
    drawing = cloud(WEIGHTS)
    ink = np.zeros((400 * scale, 640 * scale), int)
    for text in texts(drawing):
        # with room around it, to see what would be cut off
        moved = Text(text.x + 50, text.y + 50, text.size, text.text)
        alone = np.array(Drawing(740, 500, [moved]).to_image(scale).convert("L")) < 250
        inside = alone[50 * scale : -50 * scale, 50 * scale : -50 * scale]
        assert alone.sum() == inside.sum() > 0
        ink += inside
    assert ink.max() == 1


def test_accents() -> None:
    colours = {text.text: text.colour for text in texts(cloud(WEIGHTS, accent={"snow", "cat"}))}
    assert colours.pop("snow") == ACCENT
    assert set(colours.values()) == {INK}


def test_it_is_the_same_every_time() -> None:
    assert cloud(WEIGHTS).to_svg() == cloud(WEIGHTS).to_svg()
    assert cloud(WEIGHTS).to_png() == cloud(WEIGHTS).to_png()


@pytest.mark.slow
def test_few_and_many_words() -> None:
    assert texts(cloud({})) == []
    (one,) = texts(cloud({"dog": 0.01}))
    assert one.size > 100
    assert len(texts(cloud({f"w{number}": 1.0 for number in range(200)}, width=3000, height=3000))) == MOST
    (long,) = texts(cloud({"x" * 60: 1.0}))
    assert long.size >= 11


def test_the_library_is_loaded_when_it_is_needed(run_python: Callable[..., Any]) -> None:
    code = (
        "import sys, lexlip.cli, lexlip.cli.explain, lexlip.explain.word_cloud, lexlip.explain.heat_map;"
        "print([name for name in ('wordcloud', 'matplotlib', 'torch') if name in sys.modules])"
    )
    assert run_python("-c", code).stdout == "[]\n"


def check(drawing: Drawing) -> None:
    """Everything lies on the paper, and no line crosses another, a picture or a sign."""
    boxes = []
    for element in drawing.elements:
        if isinstance(element, Text):
            wide, high = width_of(element.text, element.size, element.bold), 0.7 * element.size
            boxes.append((element.x, element.y - high, element.x + wide, element.y))
        else:
            boxes.append((element.x, element.y, element.x + element.width, element.y + element.height))
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= drawing.width + 1
        assert bottom <= drawing.height
        if not getattr(drawing.elements[number], "note", ""):  # words of a cloud may reach into one another
            for other in boxes[:number]:
                assert other[2] <= left or right <= other[0] or other[3] <= top or bottom <= other[1]


@pytest.mark.parametrize("size", [(400, 300), (100, 1500), (3000, 40), (1, 1)])
def test_a_picture_and_its_captions_side_by_side(size: tuple[int, int]) -> None:
    captions = ["a dog in the snow", "a very long caption " * 40, "a dog\nin winter"]
    drawing = figure_of_picture(Image.new("RGB", size), "photo.jpg", SEEN, captions, SAID)
    check(drawing)
    (picture,) = (element for element in drawing.elements if isinstance(element, Picture))
    assert (picture.width / picture.height) == pytest.approx(size[0] / size[1], rel=0.05)
    found = {text.text: text for text in texts(drawing)}
    assert {"photo.jpg", "snow", "winter", "in the captions", "“a dog in winter”"} <= set(found)
    assert picture.x < found["snow"].x < found["winter"].x
    assert found["dog"].colour == ACCENT
    assert sum(isinstance(element, Box) for element in drawing.elements) == 2  # the legend


def test_a_picture_alone_has_no_legend() -> None:
    drawing = figure_of_picture(Image.new("RGB", (40, 30)), "a title " * 50, SEEN)
    check(drawing)
    assert not any(isinstance(element, Box) for element in drawing.elements)


def test_a_text() -> None:
    drawing = figure_of_text("a dog", SAID)
    check(drawing)
    assert {"a dog", "winter", "in the sentence"} <= {text.text for text in texts(drawing)}
    check(figure_of_text("犬", NONE))
    assert "no words" in {text.text for text in texts(figure_of_text("犬", NONE))}


def test_a_hit() -> None:
    drawing = figure_of_hit(Image.new("L", (40, 30)), "photo.jpg  0.3", SEEN.weights, "a dog", ["dog"])
    check(drawing)
    assert {text.text for text in texts(drawing) if text.colour == ACCENT} == {"dog"}
    gone = figure_of_hit(None, "photo.jpg  0.3", SEEN.weights, "a dog", ["dog"])
    assert not any(isinstance(element, Picture) for element in gone.elements)
    check(gone)
