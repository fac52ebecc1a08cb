import json
import multiprocessing
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lexlip.data import Scenes, Source, open_source
from lexlip.data.concat import Concat
from lexlip.errors import DataError

from .pictures import jpeg, write, write_tar


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


def test_captioned_photos(sources: list[Source]) -> None:
    for source in sources:
        expected = [index for index, item in enumerate(source.items) if item.captions]
        assert source.captioned().tolist() == expected


def test_scenes_can_be_joined() -> None:
    source = Concat([Scenes(2, seed=0, size=32), Scenes(3, seed=1, size=64)])
    assert [source.image(index).size[0] for index in range(5)] == [32, 32, 64, 64, 64]


def test_scenes_by_name() -> None:
    source = open_source("scenes:3:7")
    assert isinstance(source, Scenes)
    assert [item.captions for item in source.items] == [item.captions for item in Scenes(3, seed=7).items]


@pytest.mark.parametrize(
    "name", ["scenes:", "scenes:4000", "scenes:0:1", "scenes:x:0", "scenes:1:2:3", "scenes:-1:0"]
)
def test_malformed_scenes(name: str) -> None:
    with pytest.raises(
        DataError, match=f"^{name} is not of the form scenes:COUNT:SEED, such as scenes:4000:0$"
    ):
        open_source(name)


def test_scenes_have_no_splits() -> None:
    with pytest.raises(DataError, match="scenes:3:7 is drawn"):
        open_source("scenes:3:7", split="val")


def test_listing_does_not_load_torch() -> None:
    code = "import lexlip.data, sys; print([name for name in sys.modules if name.partition('.')[0] in %r])"
    heavy = ("torch", "scipy", "transformers", "timm")
    done = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_real_flickr8k(shared: Path) -> None:
    val = open_source(shared / "flickr8k" / "val-0000.tar")
    assert len(val) == 1000
    assert {len(item.captions) for item in val.items} == {5}
    assert val.image(999, 96).size == (160, 160)
    split = open_source(shared / "flickr8k" / "dataset_flickr8k.json", split="val")
    assert [item.captions for item in split.items] == [item.captions for item in val.items]
    assert split.read(0) == val.read(0)


def test_a_real_folder_of_tars_lists_in_seconds(shared: Path) -> None:
    begin = time.perf_counter()
    source = open_source(shared)
    assert time.perf_counter() - begin < 20  # about two on a quiet machine
    assert len(source) == 6000 + 1000 + 1384 + 21549
    assert source.skipped == []
    source.image(len(source) - 1)
