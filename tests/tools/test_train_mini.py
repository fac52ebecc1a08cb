import json
from pathlib import Path

import pytest

from lexlip.data import open_source
from lexlip.models.model_folder import GRAPH, check_model, write_checksums
from tests.conftest import ROOT, write_photos
from tests.data.pictures import write_tar
from tests.tiny import tiny_model
from tools import train_mini as tool


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of each Python that is started, instead of starting it."""
    calls: list[list[str]] = []
    monkeypatch.setattr(tool, "python", lambda *given: calls.append([str(one) for one in given]))
    return calls


def test_halves_have_every_photo_once(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 5)
    # the files of a photo need not be neighbours
    names = [f"{number}{suffix}" for suffix in (".jpg", ".txt") for number in range(5)]
    write_tar(tmp_path / "all.tar", {name: (photos / name).read_bytes() for name in names})
    halves = tmp_path / "even.tar", tmp_path / "odd.tar"
    tool.halve(tmp_path / "all.tar", halves)
    whole = open_source(tmp_path / "all.tar")
    captions = {item.id.rpartition("/")[2]: item.captions for item in whole.items}
    for half, expected in zip(halves, (["0", "2", "4"], ["1", "3"]), strict=True):
        source = open_source(half)
        ids = [item.id.rpartition("/")[2] for item in source.items]
        assert [id.removesuffix(".jpg") for id in ids] == expected
        for row, item in enumerate(source.items):
            assert item.captions == captions[ids[row]] != ()
            assert source.read(row) == (photos / ids[row]).read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_missing_photos_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nowhere/flickr8k/val-0000\.tar does not exist; "):
        tool.main(tmp_path / "nowhere", tmp_path / "work")
    assert not list(tmp_path.iterdir())


def test_a_stage_is_resumed_until_it_is_done(tmp_path: Path, called: list[list[str]]) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "last").mkdir()  # of an interrupted run
    for _ in range(2):
        tool.stage(tmp_path, "second", "mini.yaml", "first/last", "seed=3")
    [line] = called
    assert line[:4] == ["-m", "lexlip", "pretrain", str(ROOT / "configs" / "mini.yaml")]
    assert line[4:] == [f"out={tmp_path}/second", f"init={tmp_path}/first/last", "seed=3", "--resume"]


def test_an_average_names_each_part_with_its_weight(tmp_path: Path, called: list[list[str]]) -> None:
    tool.average(tmp_path, "mean", {"one/last": 2, "two": 1})
    [line] = called
    assert line[1:] == [f"{tmp_path}/mean", f"{tmp_path}/one/last=2", f"{tmp_path}/two=1"]


def test_a_larger_copy_differs_in_the_size_of_photos_alone(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "small")
    (tmp_path / "small" / GRAPH).write_bytes(b"for the small size")
    write_checksums(tmp_path / "small", [GRAPH])
    tool.enlarge(tmp_path, "large", "small", 96)
    for file in (tmp_path / "small").iterdir():
        copy = tmp_path / "large" / file.name
        if file.name == "config.json":
            small, large = (json.loads(path.read_text(encoding="utf-8")) for path in (file, copy))
            small["model"]["image"]["size"] = 96
            assert large == small
        elif file.name == GRAPH:
            assert not copy.exists()
        elif file.name != "checksums.txt":
            assert copy.read_bytes() == file.read_bytes()
    assert check_model(tmp_path / "large") == []
    assert not list(tmp_path.glob("*.part"))
