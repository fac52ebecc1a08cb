"""Heat maps: where a word is, laid over the picture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from lexlip.data.upright import as_seen
from lexlip.errors import ConfigError, DataError
from lexlip.explain.drawing import INK, QUIET, Drawing, Element, Picture, Text, cut, width_of
from lexlip.explain.word_places import WordPlaces
from lexlip.machine.output_files import check_output, write_output

VIRIDIS = "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725"
"""Colours from 0 to 1, of even steps to the eye, also to colour-blind people and in grey."""

_COLOURS = np.array([list(bytes.fromhex(colour)) for colour in VIRIDIS.split()], dtype=np.float32)
OPAQUE, CLEAR = 0.78, 0.15  # alpha at a share of 1, and the share up to which nothing is drawn
SHOWN = 960  # pixels of a picture's longer side
HEAD, SCALE_WIDTH = 36, 142  # height of a heading over a picture; width of the colours' scale


def overlay(places: WordPlaces, word: str, size: tuple[int, int]) -> Image.Image:
    """Return a word's heat map to lay over a picture: RGBA, transparent where the word is not.

    Colours show shares of the word's weight. Between the middles of two cells they change evenly. The cell
    that max pooling took has a frame. Outside the part that the model sees nothing is drawn.
    """
    left, top, right, bottom = (round(edge * size[axis % 2]) for axis, edge in enumerate(places.box))
    weight, inside = places.weight(word), (max(1, right - left), max(1, bottom - top))
    heat = Image.new("RGBA", size)
    if weight == 0:
        return heat
    shares = Image.fromarray(places.grid(word) / weight)
    smooth = np.clip(np.asarray(shares.resize(inside, Image.Resampling.BILINEAR)), 0, 1)
    heat.paste(Image.fromarray(_coloured(smooth)), (left, top))
    if (winner := places.winner(word)) is not None:
        _frame(heat, places.cell(*winner))
    return heat


def over(picture: Image.Image, places: WordPlaces, word: str) -> Image.Image:
    """Return a picture in grey with a word's heat map over it."""
    grey = as_seen(picture).convert("L").convert("RGBA")
    return Image.alpha_composite(grey, overlay(places, word, grey.size)).convert("RGB")


def heat_picture(picture: Image.Image, places: WordPlaces, word: str) -> Drawing:
    """Return a picture with a word's heat map over it; above are the word, its weight and the colours."""
    shown, gap = shrunk(picture), 12
    width, height = _fitted(shown.size, 480)
    wide = max(width, 290)
    at, room = (gap, 0, width, height), wide - SCALE_WIDTH
    elements = _panel(over(shown, places, word), places, word, at, room, 17)
    return Drawing(
        wide + 2 * gap, height + HEAD + gap, [*elements, *_scale(gap + wide - SCALE_WIDTH, HEAD - 12)]
    )


def heat_sheet(picture: Image.Image, places: WordPlaces, title: str) -> Drawing:
    """Return a picture and the heat maps of all its words, side by side."""
    shown, gap, top = shrunk(picture), 16, 48
    width, height = _fitted(shown.size, 300)
    pitch_x, pitch_y = max(width, 170) + gap, height + HEAD + 6
    panels = len(places.words) + 1
    columns = min(4, panels)
    wide, high = columns * pitch_x + gap, top + -(-panels // columns) * pitch_y + gap
    elements: list[Element] = [
        Text(gap, 32, 17, cut(title, wide - 3 * gap - SCALE_WIDTH, 17, bold=True), bold=True),
        *_scale(wide - gap - SCALE_WIDTH, 32),
        Text(gap, top + HEAD - 12, 15, "the picture", QUIET),
        Picture(gap, top + HEAD, width, height, shown),
    ]
    for number, word in enumerate(places.words, 1):
        row, column = divmod(number, columns)
        at = gap + column * pitch_x, top + row * pitch_y, width, height
        elements += _panel(over(shown, places, word), places, word, at, pitch_x - gap, 15)
    return Drawing(wide, high, elements)


def check_heat(to: str | Path) -> None:
    """Raise ConfigError or DataError unless this can be a folder, or a PNG file that can be written."""
    to = Path(to)
    if to.suffix.lower() not in ("", ".png") and not to.is_dir():
        raise ConfigError(f"cannot write {to}: give a folder, or a name that ends with .png")
    if to.suffix and not to.is_dir():
        check_output(to)


def write_heat(to: str | Path, picture: Image.Image, places: WordPlaces, title: str) -> list[Path]:
    """Write the heat maps of all words: a PNG for each into a folder, or one for all if `to` ends with .png.

    Raises:
        ConfigError: it is a file of another kind.
        DataError: a file or the folder cannot be written.
    """
    check_heat(to)
    to = Path(to)
    if to.suffix and not to.is_dir():
        heat_sheet(picture, places, title).save(to)
        return [to]
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {to}: {error.strerror}") from error
    digits, files = len(str(len(places.words))), []
    for number, word in enumerate(places.words, 1):
        name = re.sub(r"[^\w-]", "_", word)[:80]
        files.append(to / f"{number:0{digits}d}-{name}.png")
        write_output(files[-1], heat_picture(picture, places, word).to_png())
    return files


def shrunk(picture: Image.Image) -> Image.Image:
    """Return a picture in RGB, of at most SHOWN pixels on its longer side."""
    shown = as_seen(picture).copy()
    shown.thumbnail((SHOWN, SHOWN), Image.Resampling.LANCZOS)
    return shown


def _fitted(size: tuple[int, int], side: float) -> tuple[float, float]:
    """Return width and height of a picture whose longer side is `side`."""
    return size[0] * side / max(size), size[1] * side / max(size)


def _panel(
    image: Image.Image,
    places: WordPlaces,
    word: str,
    at: tuple[float, float, float, float],
    room: float,
    size: float,
) -> list[Element]:
    """Return a heat map, which is over the picture already, with a heading above it, of some room and size.

    `at` has left and top of the heading, width and height of the picture.
    """
    x, y, width, height = at
    weight = places.weight(word)
    says = f"{weight:.3f}" if weight else "not here"
    if weight and places.winner(word) is None:
        says += ", from no place in it"
    name = cut(word, room - 60, size, bold=True)
    right = x + width_of(name, size, bold=True) + 8
    says = cut(says, x + room - right, size)
    return [
        Text(x, y + HEAD - 12, size, name, bold=True),
        Text(right, y + HEAD - 12, size, says, QUIET),
        Picture(x, y + HEAD, width, height, image, f"{word} {says}"),
    ]


def _scale(x: float, y: float) -> list[Element]:
    """Return the colours from 0 to a word's weight, SCALE_WIDTH wide; `y` is the baseline of their text."""
    bar = Image.fromarray(_coloured(np.linspace(0, 1, 120, dtype=np.float32)[None]))
    grey = Image.new("RGBA", bar.size, "#888888")
    return [
        Text(x, y, 12, "0", QUIET),
        Picture(x + 13, y - 10, 80, 11, Image.alpha_composite(grey, bar)),
        Text(x + 98, y, 12, "weight", QUIET),
    ]


def _coloured(shares: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return RGBA [h, w, 4] of shares [h, w]."""
    steps = np.linspace(0, 1, len(_COLOURS))
    channels = [np.interp(shares, steps, _COLOURS[:, channel]) for channel in range(3)]
    alpha = 255 * OPAQUE * np.clip((shares - CLEAR) / (1 - CLEAR), 0, 1) ** 0.5
    return np.rint(np.stack([*channels, alpha], axis=-1)).astype(np.uint8)


def _frame(heat: Image.Image, cell: Sequence[float]) -> None:
    """Draw a white frame with dark edges around a cell, given in fractions, unless it is tiny."""
    left, top, right, bottom = (round(edge * heat.size[axis % 2]) for axis, edge in enumerate(cell))
    draw, line = ImageDraw.Draw(heat), max(2, round(max(heat.size) / 400))
    if min(right - left, bottom - top) < 7 * line:
        return  # there is no room
    draw.rectangle((left, top, right - 1, bottom - 1), outline=INK, width=3 * line)
    draw.rectangle(
        (left + line, top + line, right - 1 - line, bottom - 1 - line), outline="white", width=line
    )
