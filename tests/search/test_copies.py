import os
import unicodedata
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from lexlip.data.files import read_location
from lexlip.errors import DataError
from lexlip.retrieval.answer import Hit
from lexlip.search.copies import Names, check_folder, copy_hits, file_name, numbered


def hit(path: Path) -> Hit:
    return Hit(1, str(path), str(path), 1.0, {})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    check_folder(tmp_path / "out")
    return tmp_path / "out"


def test_copies_keep_names_and_times_and_replace_nothing(photos: Path, out: Path) -> None:
    os.utime(photos / "1.jpg", (1e9, 1e9))
    (out / "0.jpg").write_text("mine")
    found = [hit(photos / "0.jpg"), hit(photos / "1.jpg")]
    for before in (0, 2):  # what was copied is not copied again
        copies = copy_hits(found, read_location, out)
        assert copies.made == {f"{photos}/0.jpg": f"{out}/0 (2).jpg", f"{photos}/1.jpg": f"{out}/1.jpg"}
        assert (copies.skipped, copies.before) == ([], before)
        assert names(out) == ["0 (2).jpg", "0.jpg", "1.jpg"]
    assert (out / "0.jpg").read_text() == "mine"
    for name, copy in (("0.jpg", "0 (2).jpg"), ("1.jpg", "1.jpg")):
        assert (out / copy).read_bytes() == (photos / name).read_bytes()
    assert (out / "1.jpg").stat().st_mtime == 1e9


def test_what_is_no_photo_is_not_copied(photos: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "secret.jpg").write_text("a key")
    found = [hit(photos / "0.jpg"), hit(tmp_path / "secret.jpg"), hit(photos / "gone.jpg")]
    copies = copy_hits(found, read_location, out)
    assert copies.made == {f"{photos}/0.jpg": f"{out}/0.jpg"}
    assert [Path(one.id).name for one in copies.skipped] == ["secret.jpg", "gone.jpg"]
    assert names(out) == ["0.jpg"]


def test_what_stands_at_a_name_stays(photos: Path, out: Path) -> None:
    """A folder, a link to nothing, and a link to the photo itself."""
    (out / "0.jpg").mkdir()
    (out / "0 (2).jpg").symlink_to("nowhere")
    (out / "1.jpg").symlink_to(photos / "1.jpg")
    copies = copy_hits([hit(photos / "0.jpg"), hit(photos / "1.jpg")], read_location, out)
    assert copies.made[f"{photos}/0.jpg"] == f"{out}/0 (3).jpg"
    assert (copies.made[f"{photos}/1.jpg"], copies.before) == (f"{out}/1.jpg", 1)
    assert names(out) == ["0 (2).jpg", "0 (3).jpg", "0.jpg", "1.jpg"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "no" / "folder"):
        with pytest.raises(DataError, match="cannot write copies into"):
            check_folder(folder)


@pytest.mark.parametrize("call", ["write_bytes", "replace"])
def test_what_cannot_be_written_leaves_no_half(
    photos: Path, out: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    whole: Callable[..., object] = getattr(Path, call)

    def interrupted(self: Path, *given: object) -> object:
        if self.parent == out:
            if call == "write_bytes":
                whole(self, b"half of it")
            raise KeyboardInterrupt
        return whole(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Path, call, interrupted)
        with pytest.raises(KeyboardInterrupt):
            copy_hits([hit(photos / "0.jpg")], read_location, out)
    assert names(out) == []


@pytest.mark.parametrize(
    ("photo", "name"),
    [
        ("/photos/größe 東京 🐕.jpg", "größe 東京 🐕.jpg"),
        ("/photos/two\nlines.jpg", "two_nlines.jpg"),
        ("/photos/\u202egpj.elif.jpg", "_u202egpj.elif.jpg"),
        ("/photos/some.tar/a\\b:c*.jpg", "a_b_c_.jpg"),
        ("/photos/CON.jpg", "_CON.jpg"),
        ("/photos/com1 .tar.jpg", "_com1 .tar.jpg"),
        ("/photos/console.jpg", "console.jpg"),
        ("/photos/ends. .", "ends"),
        ("/photos/..", "photo"),
        ("/photos/.jpg", ".jpg"),
    ],
)
def test_names_that_every_system_can_have(photo: str, name: str) -> None:
    assert file_name(photo) == name


def test_long_names_are_cut_before_their_ending() -> None:
    for letter in "a東":
        name = file_name(f"/photos/{letter * 80}{letter * 170}.jpeg")
        assert name.endswith(f"{letter}.jpeg")
        assert 195 < len(name.encode()) <= 200
    assert len(file_name(f"/photos/a.{'b' * 250}")) == 200


def test_numbers_stand_before_the_ending() -> None:
    assert list(islice(numbered("a.b.jpg"), 3)) == ["a.b.jpg", "a.b (2).jpg", "a.b (3).jpg"]
    assert list(islice(numbered("a"), 2)) == ["a", "a (2)"]


def test_no_two_names_are_the_same_on_any_system() -> None:
    names = Names("missing.txt")
    given = ["a/dog.jpg", "b/Dog.JPG", "c/dog.jpg", "d/dog (2).jpg", "e/Missing.txt", "f/a:b", "f/a?b"]
    taken = [names.take(photo) for photo in given]
    assert taken == [
        *("dog.jpg", "Dog (2).JPG", "dog (3).jpg", "dog (2) (2).jpg", "Missing (2).txt", "a_b", "a_b (2)")
    ]
    composed, decomposed = "e/\u00fc.jpg", "f/u\u0308.jpg"
    assert len({unicodedata.normalize("NFC", names.take(photo)) for photo in (composed, decomposed)}) == 2
