"""Drawn pictures with captions that describe them: photos for tests.

A scene is one to three groups of shapes in a line, from left to right or from top to bottom: "two big red
circles above a small blue star". A group is one to three equal shapes. No two groups of a scene have the
same shape and colour, so every caption is unambiguous.
"""

import io
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from lexlip.data.source import Item, Skipped, Source

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 160, 60),
    "blue": (40, 80, 220),
    "yellow": (245, 220, 40),
    "purple": (140, 50, 170),
    "orange": (250, 140, 20),
    "pink": (250, 150, 190),
    "brown": (125, 75, 35),
}
BACKGROUNDS = {"white": (255, 255, 255), "black": (0, 0, 0), "gray": (128, 128, 128)}
DIAMETERS = {"big": 0.28, "small": 0.14}  # as a share of the picture's side
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

SIZE_WORDS = {"big": ("big", "big", "large", ""), "small": ("small", "small", "little", "")}
ALONE = (
    "{a} {place} of a {ground} picture",
    "a {ground} picture with {a} {place}",
    "{place} {a}, on a {ground} background",
    "{shapes} on {ground}: {a} {place}",
    "{a} and nothing else, {place}, on {ground}",
    "only {a} {place}, the rest is {ground}",
)
FORMS = {  # by the number of groups, and whether they are in a row
    (1, True): ALONE,
    (1, False): ALONE,
    (2, True): (
        "{a} to the left of {b}",
        "{b} to the right of {a}",
        "on the left {a}, on the right {b}",
        "{a} beside {b} on a {ground} background",
        "a {ground} picture of {b} on the right and {a} on the left",
        "{shapes} on {ground}, from left to right {a} and {b}",
    ),
    (2, False): (
        "{a} above {b}",
        "{b} below {a}",
        "at the top {a}, at the bottom {b}",
        "{a} over {b} on a {ground} background",
        "a {ground} picture of {b} under {a}",
        "{shapes} on {ground}, from top to bottom {a} and {b}",
    ),
    (3, True): (
        "{b} between {a} on the left and {c} on the right",
        "from left to right {a}, {b} and {c}",
        "{a} to the left of {b}, and on the right {c}",
        "on the right {c}, on the left {a}, in the middle {b}",
        "a {ground} picture of {b}, {c} and {a}",
        "{shapes} on {ground}, {c} to the right of {b} and {a}",
    ),
    (3, False): (
        "{b} between {a} at the top and {c} at the bottom",
        "from top to bottom {a}, {b} and {c}",
        "{a} above {b}, and at the bottom {c}",
        "at the bottom {c}, at the top {a}, in the middle {b}",
        "a {ground} picture of {b}, {c} and {a}",
        "{shapes} on {ground}, {c} below {b} and {a}",
    ),
}
PLACES = (("at the top", "in the middle", "at the bottom"), ("on the left", "in the middle", "on the right"))

Point = tuple[float, float]


def _round(count: int, radii: Sequence[float] = (1.0,)) -> list[Point]:
    """Return `count` points around a centre, clockwise from the top, at these radii in turn."""
    turns = (2 * math.pi * number / count for number in range(count))
    return [
        (radii[number % len(radii)] * math.sin(turn), -radii[number % len(radii)] * math.cos(turn))
        for number, turn in enumerate(turns)
    ]


def _ring() -> list[Point]:
    """Return a circle, and back along a smaller one."""
    outer = _round(48)
    inner = [(0.55 * x, 0.55 * y) for x, y in reversed(outer)]
    return [*outer, outer[0], inner[-1], *inner]


OUTLINES: dict[str, list[Point]] = {  # within a circle of radius 1
    "circle": _round(48),
    "ring": _ring(),
    "square": [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)],
    "triangle": [(0, -0.9), (0.95, 0.8), (-0.95, 0.8)],
    "diamond": [(0, -1), (0.65, 0), (0, 1), (-0.65, 0)],
    "star": _round(10, (1.0, 0.42)),
    "cross": [
        *((-0.28, -0.9), (0.28, -0.9), (0.28, -0.28), (0.9, -0.28), (0.9, 0.28), (0.28, 0.28)),
        *((0.28, 0.9), (-0.28, 0.9), (-0.28, 0.28), (-0.9, 0.28), (-0.9, -0.28), (-0.28, -0.28)),
    ],
    "heart": [  # the usual curve of sines
        (
            math.sin(t) ** 3,
            -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 17,
        )
        for t in (2 * math.pi * number / 48 for number in range(48))
    ],
}


@dataclass(frozen=True, slots=True)
class Group:
    """Equal shapes (see OUTLINES, COLOURS, DIAMETERS); centres are shares of the side, from the top left."""

    shape: str
    colour: str
    size: str
    centres: tuple[Point, ...]

    def words(self, size: str = "") -> str:
        """Return the group in words, with a word for its size or without: "two small red circles"."""
        described = " ".join(filter(None, (size, self.colour, self.shape)))
        if len(self.centres) > 1:
            return f"{NUMBERS[len(self.centres)]} {described}{'es' if self.shape == 'cross' else 's'}"
        return f"{'an' if described.startswith('orange') else 'a'} {described}"


@dataclass(frozen=True, slots=True)
class Scene:
    """Groups of shapes in order, in a row or from top to bottom, and five different captions.

    A single group is at a place, such as "at the top"; that of several is empty.
    """

    background: str
    row: bool
    groups: tuple[Group, ...]
    place: str
    captions: tuple[str, ...]


def scene(seed: int, index: int) -> Scene:
    rng = random.Random(f"{seed}/{index}")
    number = rng.choices((1, 2, 3), weights=(1, 3, 3))[0]
    row = rng.random() < 0.5
    slot = rng.randrange(3) if number == 1 else 0
    kinds = rng.sample([(shape, colour) for shape in OUTLINES for colour in COLOURS], number)
    groups = []
    for position, (shape, colour) in enumerate(kinds):
        along = (slot + 0.5) / 3 if number == 1 else (position + 0.5) / number
        groups.append(Group(shape, colour, rng.choice(list(DIAMETERS)), _centres(rng, along, row)))
    background = rng.choice(list(BACKGROUNDS))
    place = PLACES[row][slot] if number == 1 else ""
    captions = _captions(rng, background, row, groups, place)
    return Scene(background, row, tuple(groups), place, captions)


def _centres(rng: random.Random, along: float, row: bool) -> tuple[Point, ...]:
    """Return one to three centres, in a line across the line of groups, each slightly displaced."""
    count = rng.choice((1, 1, 2, 3))
    centres = []
    for number in range(count):
        a, b = along + rng.uniform(-0.02, 0.02), (number + 0.5) / count + rng.uniform(-0.02, 0.02)
        centres.append((a, b) if row else (b, a))
    return tuple(centres)


def _captions(
    rng: random.Random, background: str, row: bool, groups: Sequence[Group], place: str
) -> tuple[str, ...]:
    """Return five different sentences; some leave the size out, or use another word for it."""
    total = sum(len(group.centres) for group in groups)
    shapes = f"{NUMBERS[total]} shape{'s' if total > 1 else ''}"
    captions = []
    for form in rng.sample(FORMS[len(groups), row], 5):
        words = [group.words(rng.choice(SIZE_WORDS[group.size])) for group in groups]
        named = dict(zip("abc", words, strict=False))
        captions.append(form.format(**named, ground=background, place=place, shapes=shapes))
    return tuple(captions)


def draw(scene: Scene, size: int) -> Image.Image:
    """Return the picture of a scene, RGB, `size` x `size` pixels."""
    fine = 4 * size  # drawn four times as large and then reduced, for smooth edges
    image = Image.new("RGB", (fine, fine), BACKGROUNDS[scene.background])
    pen = ImageDraw.Draw(image)
    for group in scene.groups:
        radius = DIAMETERS[group.size] / 2
        for x, y in group.centres:
            outline = [
                ((x + radius * dx) * fine, (y + radius * dy) * fine) for dx, dy in OUTLINES[group.shape]
            ]
            pen.polygon(outline, fill=COLOURS[group.colour])
    return image.resize((size, size), Image.Resampling.BOX)


class Scenes(Source):
    """Drawn pictures of `size` pixels along a side, with five captions each.

    A picture depends on the seed and its index alone. Nothing is on disk: a path only names the picture.
    """

    def __init__(self, count: int, seed: int, size: int = 96) -> None:
        self.name = f"{count} drawn scenes of seed {seed}"
        self.seed = seed
        self.size = size
        self.skipped: list[Skipped] = []
        self.items = [
            Item(f"scene-{seed}-{index:06}.png", scene(seed, index).captions) for index in range(count)
        ]

    def image(self, index: int, size: int | None = None) -> Image.Image:
        return draw(scene(self.seed, range(len(self))[index]), self.size)

    def read(self, index: int) -> bytes:
        file = io.BytesIO()
        self.image(index).save(file, "PNG")
        return file.getvalue()

    def path(self, index: int) -> str:
        return self.items[index].id
