import threading
from pathlib import Path

import pytest

from lexlip.errors import DataError
from lexlip.retrieval.albums import LONGEST, Albums


@pytest.fixture
def albums(tmp_path: Path) -> Albums:
    return Albums(tmp_path)


def test_an_album_is_a_text_file_of_ids(albums: Albums, tmp_path: Path) -> None:
    assert albums.names() == []
    assert albums.change("am Meer", ["b/1.jpg", "größe 東京.jpg", "b/1.jpg"]) == 2
    file = tmp_path / "albums" / "am Meer.txt"
    assert file.read_bytes() == "b/1.jpg\ngröße 東京.jpg\n".encode()
    assert albums.change("am Meer", ["a.jpg", "b/1.jpg"], ["größe 東京.jpg", "never.jpg"]) == 1
    assert file.read_text() == "b/1.jpg\na.jpg\n"
    assert albums.change("starred", ["a.jpg"]) == 1
    assert albums.names() == ["am Meer", "starred"]
    assert albums.holding("a.jpg") == ["am Meer", "starred"]
    assert albums.holding("b/1.jpg") == ["am Meer"]
    assert albums.change("am Meer", remove_ids=["a.jpg", "b/1.jpg"]) == 0
    assert albums.names() == ["starred"]
    assert not file.exists()


def test_files_of_other_programs_are_read(albums: Albums, tmp_path: Path) -> None:
    folder = tmp_path / "albums"
    folder.mkdir()
    (folder / "windows.txt").write_bytes(b"\xef\xbb\xbfa.jpg\r\n\r\nb c.jpg \r\na.jpg")
    (folder / "notes.md").write_text("no album")
    (folder / ".hidden.txt").write_text("no album")
    (folder / "folder.txt").mkdir()
    (folder / "latin.txt").write_bytes(b"gr\xf6\xdfe.jpg\n")
    assert albums.names() == ["folder", "latin", "windows"]
    assert albums.ids("windows") == ["a.jpg", "b c.jpg "]
    assert albums.holding("a.jpg") == ["windows"]
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8"):
        albums.ids("latin")
    with pytest.raises(DataError, match=r"folder\.txt cannot be read"):
        albums.ids("folder")
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8"):
        albums.change("latin", ["a.jpg"])
    assert (folder / "latin.txt").read_bytes() == b"gr\xf6\xdfe.jpg\n"


def test_names_that_differ_in_capitals_alone_are_one(albums: Albums) -> None:
    albums.change("Beach", ["a.jpg"])
    albums.change("beach", ["b.jpg"])
    albums.change("u\u0308ber", ["c.jpg"])
    albums.change("\u00fcber", ["d.jpg"])
    assert albums.names() == ["Beach", "\u00fcber"]
    assert albums.ids("BEACH") == ["a.jpg", "b.jpg"]
    assert albums.ids("\u00dcber") == ["c.jpg", "d.jpg"]
    (albums.folder / "BEACH.txt").write_text("e.jpg\n")  # by another program: the first counts
    assert dict(albums.all()) == {name: albums.ids(name) for name in ("BEACH", "\u00fcber")}


@pytest.mark.parametrize(
    "name", ["", " ", "a/b", "..", ".a", "a.", " a", "a\\b", "a\nb", "a\u202eb", "con", "a:b", "\ud800"]
)
def test_what_is_no_name_is_refused(albums: Albums, name: str) -> None:
    for ask in (lambda: albums.change(name, ["a.jpg"]), lambda: albums.ids(name)):
        with pytest.raises(DataError, match=r"no name for an album|has 1 to 48 characters"):
            ask()
    assert not albums.folder.exists()


def test_a_name_is_not_too_long(albums: Albums) -> None:
    for letter in "a東🐕":
        albums.change(letter * LONGEST, ["a.jpg"])
        with pytest.raises(DataError, match="1 to 48 characters, not 49"):
            albums.change(letter * (LONGEST + 1), ["a.jpg"])
    assert len(albums.names()) == 3


def test_an_id_with_an_end_of_line_is_refused(albums: Albums) -> None:
    for id in ("two\nlines.jpg", "two\rlines.jpg"):
        with pytest.raises(DataError, match="has an end of line in its name: no album can hold it"):
            albums.change("some", ["a.jpg", id])
    albums.change("some", ["form\x0cfeed.jpg", "line\u2028separator.jpg"])
    assert albums.ids("some") == ["form\x0cfeed.jpg", "line\u2028separator.jpg"]


def test_an_album_that_is_not_there(albums: Albums) -> None:
    with pytest.raises(DataError, match="there is no album 'beahc'; there is none yet"):
        albums.ids("beahc")
    albums.change("beach", ["a.jpg"])
    with pytest.raises(DataError, match="there is no album 'beahc'; albums are beach"):
        albums.ids("beahc")
    assert albums.change("other", remove_ids=["a.jpg"]) == 0
    assert albums.names() == ["beach"]


def test_many_write_at_once(tmp_path: Path) -> None:
    def add(number: int) -> None:
        for photo in range(5):
            Albums(tmp_path).change("all", [f"{number}-{photo}.jpg"])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Albums(tmp_path).ids("all")) == 30


def test_what_cannot_be_written_leaves_the_album(albums: Albums, monkeypatch: pytest.MonkeyPatch) -> None:
    albums.change("some", ["a.jpg"])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("anserini_bridge.storage.os.fsync", full)
        with pytest.raises(DataError, match="cannot write the album some: No space left on device"):
            albums.change("some", ["b.jpg"])
    assert albums.ids("some") == ["a.jpg"]
    assert albums.names() == ["some"]


def test_a_folder_of_albums_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    """A stranger's index may lead anywhere."""
    (tmp_path / "index").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "index" / "albums").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a link"):
        Albums(tmp_path / "index").change("starred", ["a.jpg"])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_albums_follow_photos_that_have_moved(albums: Albums) -> None:
    albums.change("one", ["a/1.jpg", "2.jpg", "a/3.jpg"])
    albums.change("other", ["2.jpg"])
    (albums.folder / "broken.txt").write_bytes(b"a/1.jpg\n\xff")
    moved = {"a/1.jpg": "b/1.jpg", "a/3.jpg": "new\nline.jpg", "c.jpg": "d.jpg"}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), albums.following(moved):
            raise KeyboardInterrupt
        assert albums.ids("one") == ["a/1.jpg", "2.jpg", "a/3.jpg", "b/1.jpg"]
    for _ in range(2):
        with albums.following(moved):
            assert "b/1.jpg" in albums.ids("one")
        assert albums.ids("one") == ["2.jpg", "a/3.jpg", "b/1.jpg"]
    assert albums.ids("other") == ["2.jpg"]
    assert (albums.folder / "broken.txt").read_bytes() == b"a/1.jpg\n\xff"


def test_albums_follow_renumbered_photos(albums: Albums) -> None:
    """Whose new ids are former ones of others."""
    albums.change("one", ["2.jpg"])
    albums.change("two", ["3.jpg", "1.jpg"])
    albums.change("swapped", ["a.jpg"])
    pairs = ("1.jpg", "2.jpg"), ("2.jpg", "3.jpg"), ("3.jpg", "4.jpg"), ("a.jpg", "b.jpg"), ("b.jpg", "a.jpg")
    with albums.following(dict(pairs)):
        pass
    found = {name: set(ids) for name, ids in albums.all()}
    assert found == {"one": {"3.jpg"}, "two": {"4.jpg", "2.jpg"}, "swapped": {"b.jpg"}}


def test_of_many_albums_each_is_looked_for_once(albums: Albums, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a thousand of them hold up the server for minutes."""
    for number in range(30):
        albums.change(f"{number:02}", ["a.jpg", f"{number}.jpg"])
    listings: list[Albums] = []
    files = Albums._files
    monkeypatch.setattr(Albums, "_files", lambda self: listings.append(self) or files(self))  # type: ignore[func-returns-value]
    assert dict(albums.all())["07"] == ["a.jpg", "7.jpg"]
    assert len(albums.holding("a.jpg")) == 30
    with albums.following({"7.jpg": "b.jpg"}):
        pass
    assert len(listings) == 5  # of all three calls, and for both changes of the album that follows
    with pytest.raises(DataError, match=r"albums are 00, 01, 02, 03, 04, 05, 06, 07, 08, 09 and 20 more$"):
        albums.ids("none")
