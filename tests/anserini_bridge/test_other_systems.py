"""What Windows and macOS do otherwise, made to happen here."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from anserini_bridge import runtime, storage
from anserini_bridge.errors import IndexLocked
from anserini_bridge.storage import WriterLock, atomic_write, replace_folder, sync


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders cannot be opened, and files only be made durable by who may write them."""
    monkeypatch.setattr(storage, "WINDOWS", True)
    monkeypatch.setattr(runtime, "WINDOWS", True)
    opened: dict[int, int] = {}
    plain_open, plain_sync = os.open, os.fsync

    def open_file(path: str | Path, flags: int, *others: int, **named: int | None) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        descriptor = plain_open(path, flags, *others, **named)
        opened[descriptor] = flags
        return descriptor

    def fsync(descriptor: int) -> None:
        if descriptor in opened and not opened[descriptor] & (os.O_RDWR | os.O_WRONLY):
            raise OSError(9, "Bad file descriptor")
        plain_sync(descriptor)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.usefixtures("windows")
def test_files_and_folders_are_written(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "index.json") as file:
        file.write("{}")
    assert (tmp_path / "index.json").read_text() == "{}"
    sync(tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a").write_text("a")
    replace_folder(tmp_path / "new", tmp_path / "folder")
    assert (tmp_path / "folder" / "a").read_text() == "a"


@pytest.mark.usefixtures("windows")
def test_a_file_that_a_reader_has_open_is_replaced_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = threading.Event()
    reading.set()
    replace = Path.replace

    def refused(self: Path, target: Path) -> Path:
        if reading.is_set():
            raise PermissionError(13, "Access is denied", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refused)
    timer = threading.Timer(0.1, reading.clear)
    timer.start()
    with atomic_write(tmp_path / "index.json") as file:
        file.write("new")
    assert (tmp_path / "index.json").read_text() == "new"

    reading.set()
    monkeypatch.setattr(storage, "_PATIENCE", 0.05)
    with pytest.raises(PermissionError), atomic_write(tmp_path / "index.json") as file:
        file.write("newer")
    assert (tmp_path / "index.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]


@pytest.mark.usefixtures("windows")
def test_an_open_lock_file_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is closed before its file is removed, which stays if another writer has it by then."""
    unlink = Path.unlink
    held: set[int] = set()

    def refused(self: Path, missing_ok: bool = False) -> None:
        if self.name == storage.LOCK_FILE and held:
            raise PermissionError(13, "The process cannot access the file", str(self))
        unlink(self, missing_ok)

    close = os.close
    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr(os, "close", lambda descriptor: (held.discard(descriptor), close(descriptor)))
    lock = WriterLock(tmp_path / "index")
    with lock:
        held.add(lock._descriptor)
        with pytest.raises(IndexLocked), WriterLock(tmp_path / "index"):
            pass
    assert not (tmp_path / "index").exists()

    with lock:
        held.add(-1)  # somebody else's
    assert (tmp_path / "index" / storage.LOCK_FILE).exists()
    held.clear()
    with WriterLock(tmp_path / "index"):
        pass


def test_java_is_found_by_its_name_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java.exe").touch()
    (tmp_path / "release").write_text('JAVA_VERSION="25.0.1"\n')
    assert runtime._java_version(tmp_path) is None
    monkeypatch.setattr(runtime, "WINDOWS", True)
    assert runtime._java_version(tmp_path) == 25
