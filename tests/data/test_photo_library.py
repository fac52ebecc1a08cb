import unicodedata
from pathlib import Path

import pytest

from lexlip.data import Given, open_library
from lexlip.data.source import LEFT
from lexlip.errors import DataError
from tests.conftest import write_photos
from tests.data.pictures import jpeg, write, write_tar


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
