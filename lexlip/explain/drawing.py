"""Drawings of texts, boxes and pictures, written alike as PNG and as SVG."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from PIL import Image, ImageDraw, ImageFont

from lexlip.errors import ConfigError
from lexlip.machine.output_files import write_output

PAPER, INK, QUIET, ACCENT = "#ffffff", "#1f2937", "#5b6675", "#c2410c"
FAMILY = "DejaVu Sans, Verdana, sans-serif"
SCALE = 2  # pixels of a PNG for a unit of length


@dataclass(frozen=True)
class Text:
    """A line of text, whose baseline begins at x, y; an SVG says the note on pointing at it."""

    x: float
    y: float
    size: float
    text: str
    colour: str = INK
    bold: bool = False
    note: str = ""


@dataclass(frozen=True)
class Rectangle:
    """Where something is: left, top and size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def in_svg(self) -> str:
        """As attributes of an element."""
        return f'x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}"'


@dataclass(frozen=True)
class Box(Rectangle):
    """A filled rectangle."""

    colour: str


@dataclass(frozen=True)
class Picture(Rectangle):
    """A picture, scaled to a rectangle."""

    image: Image.Image
    note: str = ""


Element = Text | Box | Picture


@dataclass(frozen=True)
class Drawing:
    """Elements on white paper, the later over the earlier."""

    width: float
    height: float
    elements: Sequence[Element]

    def to_image(self, scale: float = SCALE) -> Image.Image:
        """Return the drawing as a picture, with `scale` pixels for a unit of length."""
        image = Image.new("RGB", (round(self.width * scale), round(self.height * scale)), PAPER)
        draw = ImageDraw.Draw(image)
        for element in self.elements:
            x, y = element.x * scale, element.y * scale
            if isinstance(element, Text):
                used = font(round(element.size * scale), element.bold)
                draw.text((x, y), printable(element.text), element.colour, used, anchor="ls")
                continue
            right, bottom = (element.x + element.width) * scale, (element.y + element.height) * scale
            if isinstance(element, Box):
                draw.rectangle((x, y, right - 1, bottom - 1), element.colour)
            else:
                size = max(1, round(right) - round(x)), max(1, round(bottom) - round(y))
                scaled = element.image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
                image.paste(scaled, (round(x), round(y)))
        return image

    def to_png(self, scale: float = SCALE) -> bytes:
        """Return the drawing as a PNG file."""
        buffer = io.BytesIO()
        self.to_image(scale).save(buffer, "PNG", compress_level=3)  # more makes it slower, and hardly smaller
        return buffer.getvalue()

    def to_svg(self) -> str:
        """Return the drawing as an SVG, with its pictures inside; it looks alike with other fonts."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FAMILY}">',
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
            *(_svg(element) for element in self.elements),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file, as its name ends: .png or .svg.

        Raises:
            ConfigError: it ends otherwise.
            DataError: the file cannot be written.
        """
        check_suffix(path, (".png", ".svg"))
        svg = Path(path).suffix.lower() == ".svg"
        write_output(path, self.to_svg().encode() if svg else self.to_png())


def check_suffix(path: str | Path, suffixes: Sequence[str]) -> None:
    """Raise ConfigError unless a file's name ends with one of these."""
    if Path(path).suffix.lower() not in suffixes:
        raise ConfigError(f"cannot write {path}: give a name that ends with {' or '.join(suffixes)}")


def font_file(bold: bool = False) -> str:
    """Return the file of DejaVu Sans, which has all letters of Latin, Greek and Cyrillic."""
    import matplotlib  # carries the font; wordcloud needs it too

    return str(Path(matplotlib.get_data_path()) / "fonts/ttf" / f"DejaVuSans{'-Bold' * bold}.ttf")


@functools.lru_cache(maxsize=256)
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Return the font of a size in pixels, the same on every machine."""
    return ImageFont.truetype(font_file(bold), size, layout_engine=ImageFont.Layout.BASIC)


def width_of(text: str, size: float, bold: bool = False) -> float:
    """Return how long a line of text is."""
    return font(100, bold).getlength(printable(text)) * size / 100


def cut(text: str, width: float, size: float, bold: bool = False) -> str:
    """Return as much of a text as a line of this width takes, with an ellipsis if it is not all."""
    text = printable(text)
    if width_of(text, size, bold) <= width:
        return text
    end = next((n for n in range(len(text), 0, -1) if width_of(text[:n] + "…", size, bold) <= width), 0)
    return text[:end].rstrip() + "…"


def printable(text: str) -> str:
    """Return a text with spaces for what cannot be printed, such as newlines."""
    return "".join(character if character.isprintable() else " " for character in text)


def _svg(element: Element) -> str:
    if isinstance(element, Box):
        return f'<rect {element.in_svg} fill="{element.colour}"/>'
    note = f"<title>{escape(printable(element.note))}</title>" if element.note else ""
    if isinstance(element, Text):
        length = width_of(element.text, element.size, element.bold)
        weight = ' font-weight="bold"' if element.bold else ""
        return (
            f'<text x="{element.x:g}" y="{element.y:g}" font-size="{element.size:g}" fill="{element.colour}"'
            f'{weight} textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">'
            f"{note}{escape(printable(element.text))}</text>"
        )
    buffer = io.BytesIO()
    element.image.convert("RGB").save(buffer, "JPEG", quality=88)
    data = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
    return f'<image {element.in_svg} preserveAspectRatio="none" href={quoteattr(data)}>{note}</image>'
