"""lexlip index of a library as people have it: several folders, exclusions, an index that moves."""

import shutil
from pathlib import Path

import pytest

from lexlip import PhotoSearch
from tests.cli.conftest import Run, as_json, error
from tests.conftest import write_photos
from tests.data.pictures import write_tar
from tests.tiny import CAPTIONS


def paths(index: Path | str = ".lexlip") -> dict[str, str]:
    """Where an index says that its photos are."""
    with PhotoSearch(index) as search:
        return {hit.id: hit.path for caption in CAPTIONS for hit in search.text(caption, k=100).hits}


def updated(lexlip: Run, *arguments: object) -> list[int]:
    done = as_json(lexlip, "index", "--update", *arguments)
    return [done[name] for name in ("added", "changed", "deleted", "unchanged", "moved")]


def test_several_folders_with_exclusions(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    more = write_photos(tmp_path / "more", 3)
    lexlip("index", "photos", "more", "--exclude", "2.jpg", "--exclude", "5.*")
    expected = {f"photos/{n}.jpg": f"{photos}/{n}.jpg" for n in (0, 1, 3, 4)}
    expected |= {f"more/{n}.jpg": f"{more}/{n}.jpg" for n in (0, 1)}
    assert paths() == expected
    assert updated(lexlip) == [0, 0, 0, 6, 0]
    assert updated(lexlip, "photos", "more") == [0, 0, 0, 6, 0]
    (photos / "1.jpg").rename(more / "new.jpg")
    assert updated(lexlip) == [0, 0, 0, 5, 1]
    assert lexlip("index", "--update", "--exclude", "nothing").stdout.startswith(
        "3 added, 0 changed, 0 deleted, "
    )
    assert error(lexlip("index", "photos", "--update", code=2)).startswith("the index .lexlip was made from ")


def test_who_replaces_an_index_of_other_photos_is_told(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    more = write_photos(tmp_path / "more", 3)
    for again in ("photos", photos, "./more/../photos"):  # the same folder
        assert "replaced" not in lexlip("index", again).stderr
    told = f"note: the index of {photos} was replaced by this one of {more}: for both, give both, or another"
    assert told in lexlip("index", "more").stderr
    for bigger in (("more", "photos"), (".",)):  # nothing is lost
        assert "replaced" not in lexlip("index", *bigger).stderr
    assert f"of {tmp_path} was replaced by this one of {more}: " in lexlip("index", "more").stderr
    assert as_json(lexlip, "index", "photos")["photos"]
    assert f"of {photos} was replaced by this one of scenes:2:0: " in lexlip("index", "scenes:2:0").stderr


@pytest.mark.parametrize("kind", ["beside", "within"])
@pytest.mark.parametrize("source", ["folder", "folders", "table", "tars"])
def test_an_index_moves_with_its_photos(lexlip: Run, tmp_path: Path, source: str, kind: str) -> None:
    home = tmp_path / "home"
    photos = write_photos(home / "photos", 4)
    index = home / "photos" / ".ix" if kind == "within" else home / "ix"
    arguments: list[object] = [photos]
    if source == "folders":
        write_photos(home / "more", 2)
        arguments.append(home / "more")
    elif source == "table":
        rows = "".join(f"{n}.jpg\t{CAPTIONS[n]}\n" for n in range(4))
        (home / "photos" / "table.tsv").write_text(f"image\tcaption\n{rows}x/0.jpg\ta dog\n")
        arguments = [home / "photos" / "table.tsv"]
    elif source == "tars":
        for name in "ab":
            write_tar(home / "tars" / f"{name}.tar", {"0.jpg": (photos / "0.jpg").read_bytes()})
        arguments = [home / "tars"]
    lexlip("index", *arguments, "--index", index)
    before = paths(index)
    home.rename(tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere"
    index = moved / index.relative_to(home)
    assert paths(index) == {id: path.replace(str(home), str(moved)) for id, path in before.items()}
    assert before
    done = updated(lexlip, "--index", index)
    assert done[3] == len(before)
    assert done[0] == done[2] == done[4] == 0


def test_an_update_without_source_and_prune(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    for number in range(5):
        (photos / f"{number}.jpg").unlink()
    message = error(lexlip("index", "--update", code=2))
    assert message.startswith("5 of the 6 photos of .lexlip are gone, as if a disk were not mounted: ")
    assert message.endswith("give --prune to delete them")
    assert error(lexlip("index", "photos", code=2)) == message
    assert updated(lexlip, "--prune") == [0, 0, 5, 1, 0]


def test_the_index_within_the_photos_is_no_photo(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos", "--index", photos / "index")
    (photos / "index" / "thumbnails").mkdir()
    shutil.copy(photos / "0.jpg", photos / "index" / "thumbnails" / "t.jpg")
    assert updated(lexlip, "--index", photos / "index") == [0, 0, 0, 6, 0]


def test_moved_photos_are_in_the_summary(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    (photos / "0.jpg").rename(photos / "name.jpg")
    (photos / "1.txt").write_text("a whale\n")
    done = lexlip("index", "--update").stdout
    assert done.startswith("0 added, 0 changed, 0 deleted, 5 unchanged, 1 moved, 1 with other captions, ")


def test_kinds_that_cannot_be_decoded_are_named(lexlip: Run, photos: Path) -> None:
    (photos / "film.MOV").touch()
    result = lexlip("index", "photos")
    assert result.stderr.splitlines() == [
        "1 skipped:",
        "  .: files of other kinds: 1 .mov",
        "13 files: 6 photos, 6 beside photos, 1 of other kinds",
    ]


def test_all_files_of_a_folder_are_counted(lexlip: Run, photos: Path) -> None:
    write = {"film.mov": b"", "notes": b"", ".hidden.jpg": b"", "bad.jpg": b"no photo", "@eaDir/0.jpg": b""}
    for name, data in write.items():
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(data)
    expected = {"photos": 7, "beside": 6, "other": 2, "named": 0, "hidden": 1, "system": 1, "index": 0}
    new = as_json(lexlip, "index", "photos")
    assert new["files"] == {**expected, "excluded": 0}
    assert new["files"]["photos"] == new["photos"] + sum(skip["id"] == "bad.jpg" for skip in new["skipped"])
    for _ in range(2):
        done = as_json(lexlip, "index", "--update", "--exclude", "0.*")
        assert done["files"] == {**expected, "photos": 6, "beside": 5, "excluded": 2}
        assert done["files"]["photos"] == done["unchanged"] + 1
    taken = as_json(lexlip, "index", "--update", "--include", ".hidden.jpg")
    assert (taken["files"]["photos"], taken["files"]["hidden"]) == (7, 0)
    again = as_json(lexlip, "index", "--update")
    assert again["files"] == taken["files"]  # what was included stays so
