import json
import multiprocessing
import pickle
from pathlib import Path

import pytest

from lexlip.data import Scenes, Source, open_source
from lexlip.data.concat import Concat

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


def test_captioned_photos(sources: list[Source]) -> None:
    for source in sources:
        expected = [index for index, item in enumerate(source.items) if item.captions]
        assert source.captioned().tolist() == expected
