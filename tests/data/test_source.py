from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

from lexlip.data import Scenes, Source, open_source
from lexlip.data.source import Concat, Subset
from tests.data.pictures import jpeg, write, write_tar


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """One source of each kind."""
    write(tmp_path / "photos" / "a.jpg", jpeg((11, 10)))
    write(tmp_path / "photos" / "t.tsv", "a.jpg\ta dog\n")
    write_tar(tmp_path / "tars" / "0.tar", {"b.jpg": jpeg((12, 10)), "b.txt": b"a cat"})
    images = {"images": [{"filename": "b.jpg", "sentences": [{"raw": "a cat"}]}]}
    write(tmp_path / "tars" / "d.json", json.dumps(images))
    specs = [
        tmp_path / "photos",
        tmp_path / "tars",
        tmp_path / "photos" / "t.tsv",
        tmp_path / "tars" / "d.json",
    ]
    opened = [open_source(spec) for spec in specs]
    return [*opened, Scenes(2, seed=0), Concat(opened)]


def last_size(source: Source) -> tuple[int, int]:
    source.read(-1)
    return source.image(len(source) - 1).size


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_sources_work_in_other_processes(sources: list[Source], method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    expected = [last_size(source) for source in sources]
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(last_size, sources) == expected


def test_sources_pickle(sources: list[Source]) -> None:
    for source in sources:
        copy = pickle.loads(pickle.dumps(source))
        assert (copy.name, copy.items, copy.skipped) == (source.name, source.items, source.skipped)


def test_captioned_photos(sources: list[Source]) -> None:
    for source in sources:
        expected = [index for index, item in enumerate(source.items) if item.captions]
        assert source.captioned().tolist() == expected


def test_they_are_like_a_list(tmp_path: Path) -> None:
    for number in range(4):  # the third is empty
        files = {f"{number}{n}.jpg": b"" for n in range(3)} if number != 2 else {"a.md": b""}
        write_tar(tmp_path / f"{number}.tar", files)
    items = open_source(tmp_path).items
    plain = list(items)
    assert [item.id for item in plain] == [f"{k}.tar/{k}{n}.jpg" for k in (0, 1, 3) for n in range(3)]
    assert [items[index] for index in range(-9, 9)] == plain + plain
    for cut in (slice(2, 7), slice(None, None, -2), slice(-2, None), slice(20, 30)):
        assert items[cut] == plain[cut]
    for index in (9, -10):
        with pytest.raises(IndexError):
            items[index]
    assert list(reversed(items)) == plain[::-1]
    assert items.index(plain[4]) == 4
    assert items == plain
    assert items != plain[:-1]
    assert items != [*plain[:-1], plain[0]]
    assert items != 3
    assert pickle.loads(pickle.dumps(items)) == items


def test_joined_sources(tmp_path: Path) -> None:
    write(tmp_path / "x" / "a.jpg", jpeg((11, 10)))
    write(tmp_path / "y" / "b.jpg", jpeg((12, 10)))
    write(tmp_path / "y" / "b.txt", "a dog")
    source = Concat([open_source(path) for path in (str(tmp_path / "x"), str(tmp_path / "y"))])
    assert [(item.id, item.captions) for item in source.items] == [("x/a.jpg", ()), ("y/b.jpg", ("a dog",))]
    assert [source.image(index).size for index in range(2)] == [(11, 10), (12, 10)]
    assert source.path(1) == f"{tmp_path}/y/b.jpg"
    assert source.read(1) == source.read(-1) == jpeg((12, 10))
    assert source.captioned().tolist() == [1]
    with pytest.raises(IndexError):
        source.read(2)


def test_joined_ids_are_numbered_only_if_the_names_are_alike(tmp_path: Path) -> None:
    for folder in ("x/photos", "y/photos", "z"):
        write(tmp_path / folder / "a.jpg", jpeg())
    different = Concat([open_source(path) for path in (tmp_path / "x" / "photos", tmp_path / "z")])
    assert [item.id for item in different.items] == ["photos/a.jpg", "z/a.jpg"]
    alike = Concat([open_source(tmp_path / name / "photos") for name in "xy"])
    assert [item.id for item in alike.items] == ["1-photos/a.jpg", "2-photos/a.jpg"]


def test_scenes_can_be_joined() -> None:
    source = Concat([Scenes(2, seed=0, size=32), Scenes(3, seed=1, size=64)])
    assert [source.image(index).size[0] for index in range(5)] == [32, 32, 64, 64, 64]


SCENES = Scenes(6, seed=0)


def test_photos_in_an_order_of_ones_own() -> None:
    chosen = Subset(SCENES, [4, 1], captions=2)
    assert [item.id for item in chosen.items] == [SCENES.items[4].id, SCENES.items[1].id]
    assert [item.captions for item in chosen.items] == [SCENES.items[row].captions[:2] for row in (4, 1)]
    assert len(chosen) == 2
    assert (chosen.name, chosen.skipped) == (SCENES.name, [])
    assert chosen.captioned().tolist() == [0, 1]
    for place, row in enumerate((4, 1)):
        assert np.array_equal(np.array(chosen.image(place)), np.array(SCENES.image(row)))
        assert (chosen.read(place), chosen.path(place)) == (SCENES.read(row), SCENES.path(row))
        assert chosen.file(place) == SCENES.file(row)


def test_all_captions() -> None:
    assert Subset(SCENES, [3]).items[0] == SCENES.items[3]
