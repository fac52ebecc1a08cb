import hashlib
import hmac
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import CorruptIndex, read_header
from anserini_bridge.storage import checksum
from lexlip.data import UnreadableImage
from lexlip.data.facts import digest
from lexlip.data.files import Place, state_of
from lexlip.errors import ConfigError
from lexlip.retrieval import seal as module
from lexlip.retrieval.seal import (
    folders_to_send,
    read_as_indexed,
    seal,
    sealed_tables,
    why_not_sent,
    why_unsealed,
)
from lexlip.search.photo_search import PhotoSearch
from tests.conftest import write_photos
from tests.search.indexes import change_header, index_bm25, index_words

SAID: dict[str, Any] = {
    "given": {"sources": [["/a", "../a", ""]]},
    "root": "/a/",
    "relative": False,
    "listed": 1.0,
}
TABLES = {"photos-1.sqlite": "ab" * 32}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "lexlip"


def test_the_key_is_the_user_s_own(state: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        codes = {one["seal"]["code"] for one in threads.map(lambda _: seal(SAID, TABLES), range(32))}
    (key,) = state.iterdir()
    assert len(key.read_bytes()) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    said = {name: SAID.get(name) for name in ("given", "source", "root", "relative")}
    text = json.dumps([said, TABLES], sort_keys=True)
    assert codes == {hmac.new(key.read_bytes(), text.encode(), hashlib.sha256).hexdigest()}


def test_what_is_sealed_cannot_be_changed(state: Path) -> None:
    sealed = seal(SAID, TABLES)
    assert sealed_tables({**sealed, "listed": 2.0, "captions": {}}) == TABLES
    others: list[dict[str, Any]] = [
        {"given": {"sources": [["/"]]}},
        {"source": "/"},
        {"root": "/"},
        {"relative": True},
        {"seal": {**sealed["seal"], "tables": {"photos-1.sqlite": "cd" * 32}}},
        {"seal": {**sealed["seal"], "code": "ä"}},
    ]
    for other in others:
        assert sealed_tables({**sealed, **other}) == {}
    (state / "index-key").unlink()
    assert sealed_tables(sealed) == {}
    assert not (state / "index-key").exists()
    assert sealed_tables(SAID) == {}
    assert "has not made" in why_unsealed(sealed)
    assert why_unsealed(seal(SAID, TABLES)) == ""


@pytest.mark.parametrize("way", ["a file is there", "no home", "damaged"])
def test_without_a_key_nothing_is_sealed(state: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "a file is there":
        state.parent.write_text("")
    elif way == "no home":
        monkeypatch.setenv("XDG_STATE_HOME", "relative")
        monkeypatch.setattr(module.os.path, "expanduser", lambda path: path)
    else:
        state.mkdir(parents=True)
        (state / "index-key").write_bytes(b"short")
    assert seal(SAID | {"seal": 1}, TABLES) == SAID
    said = why_unsealed(SAID)
    assert said.startswith("this user's key cannot be kept (")
    assert {"a file is there": str(state), "no home": "XDG_STATE_HOME", "damaged": "delete it"}[way] in said


def test_a_home_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sealed_tables(seal(SAID, TABLES)) == TABLES
    assert (tmp_path / ".local" / "state" / "lexlip" / "index-key").is_file()


SECRET = b"root:x:0:0"


def sent(index: Path, id: str, folders: tuple[str, ...] = ()) -> bytes:
    with PhotoSearch(index) as search, search.sending(id, folders) as (_, read):
        return read()


@contextmanager
def table_of(index: Path) -> Iterator[sqlite3.Connection]:
    """The table of photos of an index, to be changed by a stranger, who makes the checksums fit."""
    header = read_header(index)
    table = index / header.directory / header.extra["photos"]
    with closing(sqlite3.connect(table)) as rows, rows:
        yield rows
        for name in ("photos", "roots"):
            rows.execute(f"UPDATE {name} SET sum = NULL")
    change_header(index, files={**header.files, table.name: checksum(table)})


def refused(index: Path, id: str, folders: tuple[str, ...] = ()) -> str:
    with pytest.raises(UnreadableImage) as caught:
        sent(index, id, folders)
    return caught.value.reason


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos that are not changed, beside an index of their captions."""
    photos = write_photos(tmp_path_factory.mktemp("album") / "photos")
    return index_bm25(photos, photos.with_name("index")).with_name("photos")


@pytest.fixture
def index(album: Path, tmp_path: Path) -> Path:
    """A copy of the index, which knows of photos when they were written, and no digests."""
    return shutil.copytree(album.with_name("index"), tmp_path / "index")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    return tmp_path / "outside"


def test_what_was_indexed_is_sent(photos: Path, tmp_path: Path, model_folder: Path) -> None:
    for index in (index_bm25(photos, tmp_path / "a"), index_words(model_folder, photos, tmp_path / "b")):
        assert sent(index, "3.jpg") == (photos / "3.jpg").read_bytes()
        assert why_not_sent(index, read_header(index), ()) == ""
        shutil.copytree(index, tmp_path / f"copy of {index.name}")
        assert sent(tmp_path / f"copy of {index.name}", "3.jpg") == (photos / "3.jpg").read_bytes()


@pytest.mark.parametrize("kind", ["words", "bm25"])
def test_what_came_to_its_place_is_not(
    photos: Path, tmp_path: Path, outside: Path, model_folder: Path, kind: str
) -> None:
    where = tmp_path / "index"
    index = index_words(model_folder, photos, where) if kind == "words" else index_bm25(photos, where)
    (photos / "0.jpg").unlink()
    (photos / "0.jpg").symlink_to(outside / "secret")
    (photos / "1.jpg").write_bytes((photos / "2.jpg").read_bytes())
    (photos / "2.jpg").unlink()
    (photos / "2.jpg").mkdir()
    os.mkfifo(photos / "3a.jpg")
    (photos / "3a.jpg").replace(photos / "3.jpg")
    (photos / "4.jpg").unlink()
    (photos / "4.jpg").symlink_to("4.jpg")
    for number in range(5):
        assert SECRET.decode() not in refused(index, f"{number}.jpg")
    assert sent(index, "5.jpg")


def test_links_go_on_as_they_were(photos: Path, tmp_path: Path, outside: Path, model_folder: Path) -> None:
    write_photos(outside / "album", 2)
    (outside / "0.jpg").write_bytes((photos / "0.jpg").read_bytes())
    (photos / "album").symlink_to(outside / "album")
    (photos / "link.jpg").symlink_to(outside / "0.jpg")
    index = index_words(model_folder, photos, tmp_path / "index")
    for id in ("album/1.jpg", "link.jpg"):
        assert sent(index, id) == (photos / id).read_bytes()
    (photos / "link.jpg").unlink()
    (photos / "link.jpg").symlink_to(outside / "album" / "0.jpg")  # of the same bytes
    assert "not in a folder" in refused(index, "link.jpg")
    (photos / "1.jpg").replace(photos / "elsewhere.jpg")
    (photos / "1.jpg").symlink_to("elsewhere.jpg")
    assert sent(index, "1.jpg") == (photos / "1.jpg").read_bytes()


Change = Callable[[sqlite3.Connection, Path], Any]
HOSTILE: dict[str, Change] = {
    "an absolute path": lambda rows, out: rows.execute(
        "UPDATE photos SET root = NULL, file = ?, digest = ?", (str(out / "secret"), digest(SECRET))
    ),
    "a path that climbs": lambda rows, out: rows.execute(
        "UPDATE photos SET file = ?", (f"../../../../../../../..{out}/secret",)
    ),
    "another root": lambda rows, out: [
        rows.execute("UPDATE roots SET absolute = ?, relative = ?", (str(out), str(out))),
        rows.execute("UPDATE photos SET file = 'secret', digest = '', state = ''"),
    ],
    "an offset": lambda rows, out: rows.execute(
        "UPDATE photos SET root = NULL, file = ?, start = 0, size = 4, digest = ''", (str(out / "secret"),)
    ),
    "its state": lambda rows, out: rows.execute(
        "UPDATE photos SET root = NULL, file = ?, state = ?",
        (str(out / "secret"), str(state_of(out / "secret"))),
    ),
    "a name that no file has": lambda rows, out: rows.execute("UPDATE photos SET file = 'a' || char(0)"),
    "an offset before the file": lambda rows, out: rows.execute("UPDATE photos SET start = -5, size = 9"),
    "a huge size": lambda rows, out: rows.execute("UPDATE photos SET start = 0, size = 1 << 62"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_stranger_s_table_sends_nothing(index: Path, album: Path, outside: Path, change: Change) -> None:
    with table_of(index) as rows:
        change(rows, outside)
    assert refused(index, "0.jpg")  # its seal is that of another table
    assert refused(index, "0.jpg", folders_to_send([str(album)]))
    extra = {name: value for name, value in read_header(index).extra.items() if name != "seal"}
    change_header(index, extra=extra)
    assert refused(index, "0.jpg", folders_to_send([str(album)]))
    assert refused(index, "0.jpg") == "not in a folder whose photos may be sent"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE photos SET root = 77",
        "UPDATE photos SET root = 'a'",
        "UPDATE photos SET file = x'ff00'",
        "UPDATE photos SET size = 'large'",
        "UPDATE photos SET width = 1.5",
        "UPDATE photos SET captions = '[[1], {}]'",
        "UPDATE photos SET captions = '7'",
    ],
)
def test_a_table_of_another_form_is_damaged(index: Path, change: str) -> None:
    with table_of(index) as rows:
        rows.execute(change)
    with PhotoSearch(index) as search, pytest.raises(CorruptIndex, match="build the index again"):
        search.photo("0.jpg")


def test_a_folder_that_is_named(index: Path, album: Path, tmp_path: Path) -> None:
    header = read_header(index)
    change_header(index, extra={name: value for name, value in header.extra.items() if name != "seal"})
    assert "--photos FOLDER" in why_not_sent(index, read_header(index), ())
    assert "not in a folder" in refused(index, "0.jpg")
    (tmp_path / "link").symlink_to(album)
    folders = folders_to_send([str(tmp_path / "link")])
    assert why_not_sent(index, read_header(index), folders) == ""
    assert sent(index, "0.jpg", folders) == (album / "0.jpg").read_bytes()
    assert "not in a folder" in refused(index, "0.jpg", folders_to_send([str(index)]))
    with pytest.raises(ConfigError, match="is no folder"):
        folders_to_send([str(album), str(album / "0.jpg")])


def test_of_what_nothing_is_known_pictures_are_sent_if_their_folder_was_named(
    photos: Path, tmp_path: Path
) -> None:
    (photos / "secret").write_bytes(SECRET)
    folders = folders_to_send([str(photos)])
    place = Place(str(photos / "0.jpg"))
    assert read_as_indexed(place, "", "", folders, sealed=False) == (photos / "0.jpg").read_bytes()
    for other, where, sealed in (
        (Place(str(photos / "secret")), folders, False),
        (place, [], False),
        (place, folders, True),
    ):
        with pytest.raises(UnreadableImage):
            read_as_indexed(other, "", "", where, sealed)
