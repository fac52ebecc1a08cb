import subprocess
import sys
from pathlib import Path

import pytest

from lexlip.config import SourceConfig
from lexlip.data import Scenes, open_source, open_sources
from lexlip.errors import DataError

from .pictures import jpeg, write_tar


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


def test_several_sources_are_one() -> None:
    source = open_sources([SourceConfig("scenes:3:0"), SourceConfig("scenes:2:5")])
    assert len(source) == 5
    assert source.items[3].captions == Scenes(1, seed=5).items[0].captions


@pytest.mark.parametrize("option", [{"split": "test"}, {"images": "photos"}])
@pytest.mark.parametrize("pattern", ["tars/*.tar", "tars/{0..1}.tar", "tars/0.tar"])
def test_tars_have_neither_splits_nor_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, option: dict[str, str]
) -> None:
    """All photos would be measured where one split was asked for."""
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        write_tar(tmp_path / "tars" / f"{number}.tar", {"b.jpg": jpeg((12, 10)), "b.txt": b"a cat"})
    assert len(open_source(pattern)) > 0
    with pytest.raises(DataError, match=next(iter(option))):
        open_source(pattern, **option)


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


def test_a_real_folder_of_tars(shared: Path) -> None:
    source = open_source(shared)
    assert [skip.id for skip in source.skipped] in ([], ["."])  # files of other kinds
    tars = [open_source(tar) for tar in shared.rglob("*.tar")]
    assert len(source) == sum(map(len, tars)) > 6000 + 1000
    source.image(len(source) - 1)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("scenes:99999999999999:0", "are more pictures than can be listed: draw at most 1,000,000"),
        ("~nosuchuser/x", "names a user who does not exist"),
        ("x" * 5000, "cannot be opened: File name too long"),
        ("a\0b", "cannot be opened: "),
        ("/dev/zero", "is not a folder, a photo, a tar, a table"),
    ],
)
def test_what_cannot_be_opened_is_refused_at_once(name: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        open_source(name)


def test_a_source_without_a_name_is_named_in_the_message() -> None:
    with pytest.raises(DataError, match=r"^'' holds its photos itself"):
        open_source("", split="train")
