from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lexlip.explain.drawing import ACCENT, INK, Drawing, Text
from lexlip.explain.word_cloud import MOST, cloud

WEIGHTS = {
    **{"dogs": 1.4, "snow": 1.3, "winter": 0.9, "running": 0.8, "Hündin": 0.7, "playing": 0.6, "white": 0.5},
    **{f"word{number}": 0.45 - 0.01 * number for number in range(30)},
}


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
        "import sys, lexlip.cli, lexlip.cli.explain, lexlip.explain.figure, lexlip.explain.heat_map;"
        "print([name for name in ('wordcloud', 'matplotlib', 'torch') if name in sys.modules])"
    )
    assert run_python("-c", code).stdout == "[]\n"
