import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from lexlip.data.scenes import BACKGROUNDS, COLOURS, DIAMETERS, NUMBERS, OUTLINES, Group, Scene, Scenes, scene

SIZES = {"big": "big", "large": "big", "small": "small", "little": "small"}
PHRASE = re.compile(
    rf"\b(an?|one|two|three) (?:({'|'.join(SIZES)}) )?({'|'.join(COLOURS)}) ({'|'.join(OUTLINES)})(s|es)?\b"
)
SEEDED = [(seed, index) for seed in (0, 7) for index in range(150)]


def meant(match: re.Match[str], of: Scene) -> Group:
    """The one group that a phrase can mean, if all that it says is true."""
    article, size, colour, shape, plural = match.groups()
    [group] = [group for group in of.groups if (group.shape, group.colour) == (shape, colour)]
    count = 1 if article in ("a", "an") else NUMBERS.index(article)
    assert count == len(group.centres)
    assert bool(plural) == (count > 1)
    assert size is None or SIZES[size] == group.size
    assert (article == "an") == (count == 1 and size is None and colour == "orange")
    return group


def extent(group: Group, axis: int) -> tuple[float, float]:
    along = [centre[axis] for centre in group.centres]
    return min(along), max(along)


@pytest.mark.parametrize(("seed", "index"), SEEDED)
def test_captions_are_true(seed: int, index: int) -> None:
    of = scene(seed, index)
    assert len(set(of.captions)) == 5
    for caption in of.captions:
        assert check(caption, of), caption


def check(caption: str, of: Scene) -> bool:
    """Reads a caption from left to right and asserts each of its claims against the places of the shapes."""
    phrases = list(PHRASE.finditer(caption))
    groups = [meant(phrase, of) for phrase in phrases]
    assert sorted(map(str, groups)) == sorted(map(str, of.groups))  # all are named, none twice
    for word in BACKGROUNDS:
        assert (word in caption) <= (word == of.background)
    if total := re.search(r"(\w+) shapes?\b", caption):
        assert NUMBERS.index(total[1]) == sum(len(group.centres) for group in groups)
    named = "ABC"[: len(phrases)]
    letters = iter(named)
    form = PHRASE.sub(lambda _: next(letters), caption)  # "A above B"
    by_name = dict(zip(named, groups, strict=True))

    def before(first: str, second: str, axis: int) -> None:
        assert extent(by_name[first], axis)[1] < extent(by_name[second], axis)[0], caption

    for pattern, axis, forward in [
        (r"([ABC]) to the left of ([ABC])", 0, True),
        (r"([ABC]) to the right of ([ABC])", 0, False),
        (r"([ABC]) (?:above|over) ([ABC])", 1, True),
        (r"([ABC]) (?:below|under) ([ABC])", 1, False),
    ]:
        for first, second in re.findall(pattern, form):
            before(*((first, second) if forward else (second, first)), axis)
    for axis, order in ((0, "from left to right"), (1, "from top to bottom")):
        if order in form:
            for first, second in pairwise(named):
                before(first, second, axis)
    for pattern, axis, low, high in [
        ("on the left", 0, 0.0, 0.45),
        ("on the right", 0, 0.55, 1.0),
        ("at the top", 1, 0.0, 0.45),
        ("at the bottom", 1, 0.55, 1.0),
    ]:
        for name in re.findall(rf"{pattern} ([ABC])", form) or re.findall(rf"([ABC])[^ABC]* {pattern}", form):
            first, last = extent(by_name[name], axis)
            assert low <= first <= last <= high
    if between := re.match(r"([ABC]) between ([ABC]) .* and ([ABC])", form):
        axis = 0 if "left" in form else 1
        before(between[2], between[1], axis)
        before(between[1], between[3], axis)
    if "in the middle" in form and len(groups) == 1:
        assert any(0.4 < x < 0.6 for x in (extent(groups[0], 0)[0], extent(groups[0], 1)[0]))
    return True


@pytest.mark.parametrize(("seed", "index"), SEEDED[:60])
def test_shapes_are_where_the_scene_says(seed: int, index: int) -> None:
    of = scene(seed, index)
    side = 96
    pixels = np.asarray(Scenes(index + 1, seed, side).image(index)).astype(int)
    ground = (pixels == BACKGROUNDS[of.background]).all(axis=2)
    for group in of.groups:
        radius = DIAMETERS[group.size] / 2 * side
        for x, y in group.centres:
            rows = slice(round(y * side - radius), round(y * side + radius))
            columns = slice(round(x * side - radius), round(x * side + radius))
            exact = (pixels[rows, columns] == COLOURS[group.colour]).all(axis=2)
            assert exact.sum() > 0.15 * exact.size  # small stars are thin
            assert rows.start >= 0
            assert columns.start >= 0
            assert max(rows.stop, columns.stop) <= side
            ground[rows, columns] = True
    assert ground.mean() > 0.99  # and nothing is anywhere else, but for the smooth edges


def test_a_scene_depends_on_seed_and_index_alone() -> None:
    few, many = Scenes(5, seed=3), Scenes(50, seed=3)
    assert list(few.items) == list(many.items[:5])
    assert few.read(4) == many.read(4)
    assert scene(3, 0).captions == (Scenes(1, 3).items[0].captions)


def test_scenes_stay_the_same_from_version_to_version() -> None:
    assert scene(0, 0).captions[0] == "a small blue cross above three yellow crosses"


def test_seeds_differ() -> None:
    first, second = ({item.captions for item in Scenes(300, seed).items} for seed in (1, 2))
    assert not first & second


def test_captions_are_nearly_unique() -> None:
    source = Scenes(400, seed=5)
    times = Counter(caption for item in source.items for caption in item.captions)
    assert sum(count for count in times.values() if count > 1) < 0.01 * times.total()
    assert len({item.captions for item in source.items}) == len({item.id for item in source.items}) == 400


def test_everything_is_drawn_sooner_or_later() -> None:
    scenes = [scene(0, index) for index in range(300)]
    groups = [group for one in scenes for group in one.groups]
    assert {group.shape for group in groups} == set(OUTLINES)
    assert {group.colour for group in groups} == set(COLOURS)
    assert {len(group.centres) for group in groups} == {1, 2, 3}
    assert {len(one.groups) for one in scenes} == {1, 2, 3}
    assert {one.background for one in scenes} == set(BACKGROUNDS)


def test_as_a_source() -> None:
    source = Scenes(3, seed=1, size=224)
    assert source.image(2, size=64).size == (224, 224)
    assert source.read(2).startswith(b"\x89PNG")
    assert source.path(2) == "scene-1-000002.png"
    assert source.skipped == []
    with pytest.raises(IndexError):
        source.image(3)
