import pytest
from PIL import Image

from lexlip.explain.drawing import ACCENT, Box, Drawing, Picture, Text, width_of
from lexlip.explain.figure import figure_of_hit, figure_of_picture, figure_of_text
from lexlip.explain.weighted_words import WeightedWords

SEEN = WeightedWords({"dog": 1.2, "snow": 1.0, "ball": 0.4, "running": 0.3}, ["dog"])
SAID = WeightedWords({"dog": 1.5, "winter": 0.7}, ["dog"])
NONE = WeightedWords({}, [])


def texts(drawing: Drawing) -> dict[str, Text]:
    return {element.text: element for element in drawing.elements if isinstance(element, Text)}


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
    found = texts(drawing)
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
    assert {"a dog", "winter", "in the sentence"} <= set(texts(drawing))
    check(figure_of_text("犬", NONE))
    assert "no words" in texts(figure_of_text("犬", NONE))


def test_a_hit() -> None:
    drawing = figure_of_hit(Image.new("L", (40, 30)), "photo.jpg  0.3", SEEN.weights, "a dog", ["dog"])
    check(drawing)
    assert {text for text, element in texts(drawing).items() if element.colour == ACCENT} == {"dog"}
    gone = figure_of_hit(None, "photo.jpg  0.3", SEEN.weights, "a dog", ["dog"])
    assert not any(isinstance(element, Picture) for element in gone.elements)
    check(gone)
