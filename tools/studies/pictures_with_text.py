"""Draws pictures with words in them, printed and as if photographed, and says which words they hold.

    python tools/studies/pictures_with_text.py FOLDER [NUMBER]
    lexlip index FOLDER --index FOLDER/index --text
    python tools/studies/pictures_with_text.py FOLDER found

The last command says what share of these words the index has of their pictures.

Half of the pictures are pages: screens, slides, receipts and scans, turned by up to 3 degrees. The others are
signs in the packaged photos: in perspective, turned by up to 20 degrees, blurred, noisy, in low light, and
compressed. The words are of the model's vocabulary, with numbers and capital letters, in ten fonts.
FOLDER/words.tsv has the words of each picture. The pictures of a number are always the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from lexlip.retrieval.given_words import split_words
from lexlip.search.photo_search import PhotoSearch

REPOSITORY = Path(__file__).parents[2]
FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif"),
    *("DejaVuSerif-BoldItalic", "STIXGeneral", "STIXGeneralBolIta", "cmss10", "cmtt10"),
)
SIDE = 1600  # pixels along the longer side of each picture


class Style(NamedTuple):
    """How words are set: a page's size, its colours, the height of letters in pixels, and lines."""

    size: tuple[int, int]
    paper: tuple[int, int, int]
    ink: tuple[int, int, int]
    letters: tuple[int, int]
    lines: tuple[int, int]


PAGES = (
    Style((1130, SIDE), (255, 255, 255), (20, 20, 20), (18, 40), (8, 40)),  # a scan
    Style((SIDE, 900), (30, 30, 46), (205, 214, 244), (24, 36), (4, 16)),  # a dark screen
    Style((SIDE, 1200), (250, 246, 235), (30, 60, 120), (60, 110), (2, 5)),  # a slide
    Style((700, SIDE), (246, 244, 240), (70, 70, 70), (30, 40), (10, 20)),  # a receipt
)
SIGNS = (
    Style((900, 300), (20, 100, 60), (255, 255, 255), (90, 120), (1, 1)),
    Style((800, 500), (250, 250, 250), (200, 20, 20), (80, 110), (1, 2)),
    Style((700, 700), (240, 200, 40), (20, 20, 20), (70, 100), (2, 3)),
    Style((600, 800), (40, 40, 40), (250, 240, 220), (50, 70), (3, 6)),  # a menu
)


def main(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = (REPOSITORY / "lexlip/weights/mini/vocabulary.txt").read_text(encoding="utf-8").split()
    words = [word for word in words if word.isascii() and word.isalpha() and 3 <= len(word) <= 12]
    backgrounds = sorted((REPOSITORY / "lexlip/photos").glob("*.jpg"))
    with (folder / "words.tsv").open("w", encoding="utf-8") as table:
        for place in range(number):
            generator = np.random.default_rng(place)
            kind = "printed" if place % 2 == 0 else "photographed"
            styles = PAGES if kind == "printed" else SIGNS
            style, font = styles[place // 2 % len(styles)], FONTS[place // 2 % len(FONTS)]
            picture, said = draw(style, font, words, generator)
            if kind == "printed":
                picture = picture.rotate(
                    generator.uniform(-3, 3), Image.Resampling.BICUBIC, fillcolor=style.paper
                )
            else:
                picture = photographed(picture, backgrounds[place % len(backgrounds)], generator)
            name = f"{kind}-{place:03d}.jpg"
            picture.save(folder / name, quality=int(generator.integers(60, 92)))
            print(name, kind, font, " ".join(said), sep="\t", file=table)


def draw(
    style: Style, font: str, words: list[str], generator: np.random.Generator
) -> tuple[Image.Image, list[str]]:
    """Return a page with lines of words, and these."""
    picture = Image.new("RGB", style.size, style.paper)
    pen = ImageDraw.Draw(picture)
    height = int(generator.integers(*style.letters, endpoint=True))
    face = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf" / f"{font}.ttf"), height)
    lines = int(generator.integers(*style.lines, endpoint=True))
    step = int(height * generator.uniform(1.3, 1.8))
    margin, said = style.size[0] // 12, []
    top = max(step // 3, (style.size[1] - lines * step) // 2) if style in SIGNS else step
    for row in range(lines):
        line = ""
        while not line or generator.random() > 0.2:
            longer = f"{line} {some_word(words, generator)}".strip()
            if pen.textlength(longer, face) < style.size[0] - 2 * margin:
                line = longer
            elif line:
                break
        if top + (row + 1) * step > style.size[1]:
            break
        pen.text((margin, top + row * step), line, style.ink, face)
        said += line.split()
    return picture, said


def some_word(words: list[str], generator: np.random.Generator) -> str:
    if generator.random() < 0.1:
        return str(generator.integers(10, 10_000))
    word = words[generator.integers(len(words))]
    return (word, word.capitalize(), word.upper())[generator.choice(3, p=(0.6, 0.25, 0.15))]


def photographed(sign: Image.Image, background: Path, generator: np.random.Generator) -> Image.Image:
    """Return a photo that has a sign in it."""
    photo = Image.open(background).convert("RGB")
    photo = photo.resize((SIDE, round(SIDE * photo.height / photo.width)))
    share = generator.uniform(0.2, 0.65)
    scale = share * min(photo.width / sign.width, photo.height / sign.height)
    width, height = sign.width * scale, sign.height * scale
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)])
    corners += generator.uniform(-0.08, 0.08, (4, 2)) * (width, height)
    angle = np.radians(generator.uniform(-20, 20))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = (corners - (width / 2, height / 2)) @ turn.T
    reach = np.abs(corners).max(axis=0)
    middle = [
        generator.uniform(edge, max(edge, side - edge)) for edge, side in zip(reach, photo.size, strict=True)
    ]
    corners += middle
    sides = np.array([(0, 0), (sign.width, 0), (sign.width, sign.height), (0, sign.height)])
    how = perspective(corners, sides), Image.Resampling.BICUBIC
    placed = sign.transform(photo.size, Image.Transform.PERSPECTIVE, *how)
    mask = Image.new("L", sign.size, 255).transform(photo.size, Image.Transform.PERSPECTIVE, *how)
    photo.paste(placed, mask=mask)
    photo = photo.filter(ImageFilter.GaussianBlur(generator.uniform(0, 1.5)))
    light = generator.uniform(0.15, 1.0)
    pixels = np.asarray(photo, np.float32) * light + generator.normal(
        0, generator.uniform(1, 10), (*photo.size[::-1], 3)
    )
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def perspective(there: np.ndarray, here: np.ndarray) -> list[float]:
    """Return the eight numbers by which Pillow finds for a place of the photo that of the sign."""
    rows = []
    for (x, y), (u, v) in zip(there, here, strict=True):
        rows += [(x, y, 1, 0, 0, 0, -u * x, -u * y), (0, 0, 0, x, y, 1, -v * x, -v * y)]
    solved: list[float] = np.linalg.solve(np.array(rows), here.ravel()).tolist()
    return solved


def found(folder: Path) -> None:
    """Print by kind how many words there are, and what share of them was read."""
    counts: dict[str, list[int]] = {}
    with PhotoSearch(folder / "index") as search:
        for row in (folder / "words.tsv").read_text(encoding="utf-8").splitlines():
            name, kind, _, said = row.split("\t")
            words = set(split_words(said))
            read = {word for text in search.photo(name).given["text"] for word in text}
            counts.setdefault(kind, []).append(len(words))
            counts.setdefault(f"{kind}, read", []).append(len(words & read))
    for kind in ("printed", "photographed"):
        all_words, right = sum(counts[kind]), sum(counts[f"{kind}, read"])
        print(f"{kind}: {all_words} words, {right / all_words:.3f} read")


if __name__ == "__main__":
    if sys.argv[2:] == ["found"]:
        found(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
