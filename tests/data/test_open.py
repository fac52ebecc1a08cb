import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from lexlip.config import SourceConfig
from lexlip.data import Given, Scenes, Skipped, open_library, open_source, open_sources
from lexlip.data.source import LEFT
from lexlip.errors import DataError
from tests.conftest import write_photos
from tests.data.pictures import jpeg, write, write_tar


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


def ids(*sources: object, **options: object) -> list[str]:
    given = Given(tuple(map(str, sources)), **options)  # type: ignore[arg-type]
    found = open_library(given)
    assert found.given == given
    return [item.id for item in found.items]


ALL = ["a.jpg", "b.gif.jpg", "keep/c.jpg", "keep/screenshots/e.jpg", "screenshots/d.jpg", "ä b/f.jpg"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.jpg",
        "b.gif.jpg",
        "keep/c.jpg",
        "screenshots/d.jpg",
        "keep/screenshots/e.jpg",
        "ä b/f.jpg",
    ):
        write(tmp_path / "tree" / name, jpeg())
    return tmp_path / "tree"


def test_one_folder(photos: Path) -> None:
    assert ids(photos) == [f"{number}.jpg" for number in range(6)]


def test_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = write_photos(tmp_path / "one", 1), write_photos(tmp_path / "two", 2)
    assert ids(one, two) == ["one/0.jpg", "two/0.jpg", "two/1.jpg"]
    same = write_photos(tmp_path / "deep" / "one", 1)
    assert ids(one, same) == ["1-one/0.jpg", "2-one/0.jpg"]
    monkeypatch.chdir(one)
    assert ids(".", "../two") == ["one/0.jpg", "two/0.jpg", "two/1.jpg"]
    source = open_library(Given((str(one), str(two))))
    assert source.path(2) == str(two / "1.jpg")
    assert source.roots == [str(one), str(two)]


def test_a_folder_in_another_one(tree: Path) -> None:
    for sources in ((tree, tree / "keep"), (tree / "keep", tree)):
        with pytest.raises(DataError, match=r"keep lies in .*tree, whose photos include it: leave it out"):
            ids(*sources)
    with pytest.raises(DataError, match="tree is given twice: leave it out once"):
        ids(tree, tree)
    assert len(ids(tree / "keep", tree / "screenshots")) == 3


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (
            (),
            ["a.jpg", "b.gif.jpg", "keep/c.jpg", "keep/screenshots/e.jpg", "screenshots/d.jpg", "ä b/f.jpg"],
        ),
        (("screenshots/",), ["a.jpg", "b.gif.jpg", "keep/c.jpg", "ä b/f.jpg"]),
        (("/screenshots",), ["a.jpg", "b.gif.jpg", "keep/c.jpg", "keep/screenshots/e.jpg", "ä b/f.jpg"]),
        (("*.jpg", "!a.jpg"), ["a.jpg"]),
        (("*.gif*", "keep/**"), ["a.jpg", "screenshots/d.jpg", "ä b/f.jpg"]),
        (
            ("# nothing", "ä b"),
            ["a.jpg", "b.gif.jpg", "keep/c.jpg", "keep/screenshots/e.jpg", "screenshots/d.jpg"],
        ),
    ],
)
def test_patterns(tree: Path, patterns: tuple[str, ...], left: list[str]) -> None:
    assert ids(tree, exclude=patterns) == left


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_patterns_are_names_however_these_are_composed(tree: Path, form: str) -> None:
    on_disk = [unicodedata.normalize(other, f"{other} ö/f.jpg") for other in ("NFC", "NFD")]
    for name in on_disk:
        write(tree / name, jpeg())
    left = ids(tree, exclude=(unicodedata.normalize(form, "* ö"),))
    assert (len(left), set(left) & set(on_disk)) == (6, set())


def test_patterns_for_tars_and_tables(photos: Path, tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {f"{n}.jpg": (photos / f"{n}.jpg").read_bytes() for n in range(3)})
    assert ids(tar, exclude=("1.jpg",)) == ["a.tar/0.jpg", "a.tar/2.jpg"]
    table = write(tmp_path / "table.tsv", "image\tcaption\n0.jpg\ta dog\n1.jpg\ta cat\n")
    assert ids(table, images=str(photos), exclude=("0.*",)) == ["1.jpg"]
    with pytest.raises(DataError, match=r"all photos of .*a.tar are excluded: \*.jpg"):
        ids(tar, exclude=("*.jpg",))
    with pytest.raises(DataError, match=r"no photos below .* that --exclude leaves: looked for"):
        ids(photos, exclude=("*.jpg",))


def test_what_is_left_out_can_be_included(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for name in ("a.jpg", ".b.jpg", ".x/c.jpg", "@eaDir/d.jpg/T.jpg", "#recycle/e.jpg"):
        write(folder / name, jpeg())
    assert ids(folder) == ["a.jpg"]
    assert ids(folder, include=(".x/", "@eaDir")) == [".x/c.jpg", "@eaDir/d.jpg/T.jpg", "a.jpg"]
    assert ids(folder, include=(".*", "/@eaDir"), exclude=("*.jpg/", ".b*")) == [".x/c.jpg", "a.jpg"]
    assert ids(folder / "#recycle") == ["e.jpg"]  # it can be named
    with pytest.raises(DataError, match="a pattern of --include is invalid"):
        ids(folder, include=("!",))
    assert ids(folder, include=("#recycle/",)) == ["#recycle/e.jpg", "a.jpg"]  # it is no comment


@pytest.mark.parametrize("pattern", ["[", "!", "[z-a]", "[[:alpha:]]", "\\", "/", "", " ", "[^"])
def test_invalid_patterns(pattern: str, tree: Path) -> None:
    with pytest.raises(DataError, match=f"^a pattern of --exclude is invalid: '{re.escape(pattern)}'$"):
        ids(tree, exclude=("keep", pattern))


def test_patterns_that_match_nothing_are_named(tree: Path, photos: Path) -> None:
    def said(*sources: Path, **patterns: Any) -> list[Skipped]:
        return open_library(Given(tuple(map(str, sources)), **patterns)).skipped

    below = "patterns are of paths below the folder"
    unused = Skipped(".", f"--exclude '{tree}/keep' left out nothing: {below}")
    assert said(tree, exclude=("#x", f"{tree}/keep", "keep", "!a.jpg"))[1:2] == [unused]
    assert said(tree, photos, exclude=("0.jpg", "keep", f"{tree}/keep"))[:1] == [unused]
    assert said(photos, include=("*.jpg",)) == [Skipped(".", "--include '*.jpg' took nothing more")]
    above = f"{below}, and what is hidden above them must be taken, too"
    unused = Skipped(".", f"--include '.private/2019/' took nothing more: {above}")
    assert said(photos, include=(".private/2019/",)) == [unused]


def test_what_is_left_out_of_tars(tmp_path: Path) -> None:
    members = {name: jpeg() for name in ("a.jpg", "@eaDir/a.jpg/T.jpg", "b/.x/c.jpg")}
    tar = write_tar(tmp_path / "t.tar", members)
    assert ids(tar) == ["t.tar/a.jpg"]
    assert ids(tar, include=("@eaDir/",)) == ["t.tar/a.jpg", "t.tar/@eaDir/a.jpg/T.jpg"]
    source = open_library(Given((str(tar),), exclude=("nothing",)))
    assert source.files() == {**dict.fromkeys(LEFT, 0), "photos": 1, "system": 1, "hidden": 1}
    write(tmp_path / "t.tsv", "image\tcaption\n@eaDir/b.jpg\ta cat\n")
    write(tmp_path / "@eaDir" / "b.jpg", jpeg())
    assert ids(tmp_path / "t.tsv") == ["@eaDir/b.jpg"]  # a table names it


def test_files_of_several_folders_are_added(tmp_path: Path) -> None:
    for name in ("one/a.jpg", "one/.b.jpg", "two/c.jpg", "two/d.mov", "two/.e.jpg"):
        write(tmp_path / name, jpeg())
    files = open_library(Given((str(tmp_path / "one"), str(tmp_path / "two")))).files()
    assert files == {**dict.fromkeys(LEFT, 0), "photos": 2, "hidden": 2, "other": 1}
