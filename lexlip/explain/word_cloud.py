"""Clouds of words, the heavier the larger; and figures, which show a picture beside them (Figure 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from PIL import Image

from lexlip.explain.drawing import (
    ACCENT,
    INK,
    QUIET,
    Box,
    Drawing,
    Element,
    Picture,
    Text,
    cut,
    font,
    font_file,
    width_of,
)
from lexlip.explain.heat_map import shrunk
from lexlip.explain.weighted_words import WeightedWords

MOST = 50  # words of a cloud
SMALLEST, LARGEST = 11, 0.34  # of a font: units of length, and a part of the cloud's height
MARGIN = 11  # between words

GAP, TOP, HEIGHT, CLOUD = 32, 100, 380, 500  # margins; where panels begin; their height; a cloud's width
SMALL = 13  # size of what is not a heading


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


def figure_of_picture(
    picture: Image.Image,
    title: str,
    seen: WeightedWords,
    captions: Sequence[str] = (),
    said: WeightedWords | None = None,
) -> Drawing:
    """Return a picture with the words that a model sees in it and, if it has captions, those of its captions.

    Words that are held have the accent colour.
    """
    clouds = [("words seen in the picture", seen.weights, seen.held)]
    if said is not None:
        clouds.append(("words of the captions", said.weights, said.held))
    legend = ("in the captions", "not in them") if said is not None else None
    return _figure(title, clouds, legend, picture, captions)


def figure_of_hit(
    picture: Image.Image | None, title: str, words: Mapping[str, float], query: str, shared: Collection[str]
) -> Drawing:
    """Return a photo of an index with its stored words; those that it shares with a query stand out.

    `picture` is None if the photo cannot be read any more.
    """
    return _figure(title, [(query, words, shared)], ("in the query", "not in it"), picture)


def figure_of_text(text: str, words: WeightedWords) -> Drawing:
    """Return the words of a sentence as a cloud."""
    return _figure(
        text, [("the words that it becomes", words.weights, words.held)], ("in the sentence", "not in it")
    )


def _figure(
    title: str,
    clouds: Sequence[tuple[str, Mapping[str, float], Collection[str]]],
    legend: tuple[str, str] | None,
    picture: Image.Image | None = None,
    captions: Sequence[str] = (),
) -> Drawing:
    """Return the picture and the clouds from left to right, then the captions in lines below.

    A cloud is its heading, its words and those in the accent colour; the legend says what that colour and the
    other one mean.
    """
    elements: list[Element] = []
    x = float(GAP)
    if picture is not None:
        shown = shrunk(picture)
        scale = min(HEIGHT / shown.height, CLOUD / shown.width)
        width, height = shown.width * scale, shown.height * scale
        elements.append(Picture(x, TOP + (HEIGHT - height) / 2, width, height, shown))
        x += width + GAP
    for heading, words, accent in clouds:
        elements.append(Text(x, TOP - 14, SMALL, cut(heading, CLOUD, SMALL), QUIET))
        elements += placed(words, accent, CLOUD, HEIGHT, x, TOP) or [
            Text(x, TOP + HEIGHT / 2, SMALL, "no words", QUIET)
        ]
        x += CLOUD + GAP
    room = x - 2 * GAP
    elements.append(Text(GAP, 48, 20, cut(title, room, 20, bold=True), bold=True))
    y = TOP + HEIGHT + GAP
    if legend is not None:
        at = x - GAP
        for name, colour in zip(reversed(legend), (INK, ACCENT), strict=True):
            at -= width_of(name, SMALL) + 34
            elements += [Box(at + 16, y - 10, 11, 11, colour), Text(at + 34, y, SMALL, name, QUIET)]
    for caption in captions:
        line = cut(f"“{caption}”", room - 260, SMALL + 1)
        elements.append(Text(GAP, y, SMALL + 1, line))
        y += 22
    return Drawing(x, y + (GAP - 22 if captions else GAP), elements)
