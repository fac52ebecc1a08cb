"""What Windows and macOS do otherwise, made to happen here."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from skips import pretends_windows

from anserini_bridge import jvm, storage
from anserini_bridge.errors import IndexLocked
from anserini_bridge.storage import WriterLock, atomic_write, replace_folder, replace_link, sync

pytestmark = pretends_windows


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders cannot be opened, and files only be made durable by who may write them."""
    monkeypatch.setattr(storage, "WINDOWS", True)
    monkeypatch.setattr(jvm, "WINDOWS", True)
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


def write_folder(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "a").write_text(text)
    return folder


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("stuck", ["folder", "new"])
def test_a_folder_with_an_open_file_is_replaced_when_it_is_closed(
    stuck: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may have a file of the old folder open, and a virus scanner one of the new folder."""
    folder, new = write_folder(tmp_path / "folder", "old"), write_folder(tmp_path / "new", "new")
    opened = threading.Event()
    opened.set()
    replace = Path.replace

    def refused(self: Path, target: Path) -> Path:
        if opened.is_set() and self.name == stuck:
            raise PermissionError(13, "Access is denied", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refused)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)
    monkeypatch.setattr(shutil, "_rmtree_impl", getattr(shutil, "_rmtree_unsafe", None), raising=False)
    monkeypatch.setattr(storage, "_PATIENCE", 0.05)
    with pytest.raises(PermissionError):
        replace_folder(new, folder)
    assert (folder / "a").read_text() == "old"

    monkeypatch.setattr(storage, "_PATIENCE", 5.0)
    timer = threading.Timer(0.1, opened.clear)
    timer.start()
    replace_folder(new, folder)
    assert (folder / "a").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("developer", [True, False])
@pytest.mark.usefixtures("windows")
def test_a_link_to_a_folder_is_made_anew(
    developer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No link to a folder can be replaced, and only in the developer mode is it a symbolic one."""
    symlink, replace = Path.symlink_to, Path.replace
    junctions = []

    def refused(self: Path, target: Path, target_is_directory: bool = False) -> None:
        if not developer:
            raise OSError(22, "A required privilege is not held by the client", str(self))
        assert target_is_directory
        symlink(self, target)

    def replaced(self: Path, target: Path) -> Path:
        if target.is_symlink():
            raise PermissionError(13, "Access is denied", str(self))
        return replace(self, target)

    def junction(target: str, link: str) -> None:
        assert Path(target).is_absolute()
        symlink(Path(link), target)
        junctions.append(target)

    monkeypatch.setattr(Path, "symlink_to", refused)
    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setitem(sys.modules, "_winapi", SimpleNamespace(CreateJunction=junction))
    for name in ("one", "two"):
        write_folder(tmp_path / name, name)
        replace_link(tmp_path / "last", Path(name))
        assert (tmp_path / "last" / "a").read_text() == name
        assert (tmp_path / "last").resolve() == (tmp_path / name).resolve()
    assert bool(junctions) != developer
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "one", "two"]


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
    assert jvm._java_version(tmp_path) is None
    monkeypatch.setattr(jvm, "WINDOWS", True)
    assert jvm._java_version(tmp_path) == 25
