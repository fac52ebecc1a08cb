"""Clouds of words: the heavier, the larger."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lexlip.explain.drawing import ACCENT, INK, Drawing, Text, font, font_file

MOST = 50  # words of a cloud
SMALLEST, LARGEST = 11, 0.34  # of a font: units of length, and a part of the cloud's height
MARGIN = 11  # between words


def cloud(
    weights: Mapping[str, float], accent: Collection[str] = (), width: int = 640, height: int = 400
) -> Drawing:
    """Return a cloud of words, the same every time.

    Args:
        weights: of the words, above 0; the size of a word's font goes with its weight.
        accent: words in the accent colour.
        width, height: units of length, two pixels each in a PNG.
    """
    return Drawing(width, height, placed(weights, accent, width, height))


def placed(
    weights: Mapping[str, float],
    accent: Collection[str],
    width: int,
    height: int,
    left: float = 0,
    top: float = 0,
) -> list[Text]:
    """Return the words of a cloud where they stand; the lightest are left out if there is no room."""
    if not weights:
        return []
    from wordcloud import WordCloud

    layout = WordCloud(
        font_path=font_file(),
        width=width,
        height=height,
        margin=MARGIN,
        prefer_horizontal=1,
        max_words=MOST,
        min_font_size=SMALLEST,
        max_font_size=round(LARGEST * height),
        relative_scaling=0.7,
        color_func=lambda *_, **__: INK,
        random_state=0,
    ).generate_from_frequencies(dict(weights))
    words = []
    for (word, _), size, (y, x), _, _ in layout.layout_:
        ink_left, ink_top, _, _ = font(size).getbbox(word, anchor="ls")
        at = left + float(x) - ink_left, top + float(y) - ink_top
        colour = ACCENT if word in accent else INK
        words.append(Text(*at, size, word, colour, note=f"{word} {weights[word]:.3f}"))
    return words
