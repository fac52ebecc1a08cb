import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bridge_corpus import literal, names
from skips import needs_folder_sync, needs_unlink_of_open

from anserini_bridge import IndexLocked, IndexNotFound, folder_megabytes
from anserini_bridge.storage import (
    WriterLock,
    atomic_write,
    next_data_folder,
    remove_leftovers,
    replace_folder,
    replace_link,
)


def write(path: Path, text: str, fails: bool = False) -> None:
    with atomic_write(path) as file:
        file.write(text)
        if fails:
            raise KeyboardInterrupt


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as file:
        file.write("ü\n🐈")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == "ü\n🐈".encode()
    with atomic_write(path) as file:
        file.write("new")
        assert path.read_text(encoding="utf-8") == "ü\n🐈"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.txt", "new", fails=True)
    assert names(tmp_path) == []
    write(tmp_path / "a.txt", "old")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.txt", "new", fails=True)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@needs_folder_sync
def test_a_file_is_durable_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr("os.fsync", lambda file: (done.append("sync"), fsync(file)))
    monkeypatch.setattr(Path, "replace", lambda path, new: (done.append("rename"), replace(path, new)))
    write(tmp_path / "a.txt", "x")
    assert done == ["sync", "rename", "sync"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "index"
    message = f"^another process is writing to the index at {literal(path)}: wait until it has finished$"
    with WriterLock(path):
        assert names(path) == ["writer.lock"]
        with pytest.raises(IndexLocked, match=message), WriterLock(path):
            pass
        with pytest.raises(IndexLocked, match=message), WriterLock(path):
            pass
    with WriterLock(path):
        pass


def test_a_lock_without_an_index_leaves_nothing(tmp_path: Path) -> None:
    with WriterLock(tmp_path / "made" / "here"):
        pass
    assert names(tmp_path / "made") == []
    (tmp_path / "empty").mkdir()
    with WriterLock(tmp_path / "empty"):
        pass
    assert names(tmp_path / "empty") == []
    with WriterLock(tmp_path / "index"):
        (tmp_path / "index" / "notes.txt").write_text("somebody's")
    assert names(tmp_path / "index") == ["notes.txt"]


def test_an_index_keeps_its_lock_file(tmp_path: Path) -> None:
    with WriterLock(tmp_path / "index"):
        (tmp_path / "index" / "index.json").write_text('{"format_version": 2}')
    assert names(tmp_path / "index") == ["index.json", "writer.lock"]
    (tmp_path / "index" / "writer.lock").unlink()  # as in a copy without it
    with WriterLock(tmp_path / "index"):
        pass
    assert names(tmp_path / "index") == ["index.json", "writer.lock"]


def test_the_lock_of_a_process_that_dies_is_free(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    code = """
import os, sys
from pathlib import Path
from anserini_bridge.storage import WriterLock
WriterLock(Path(sys.argv[1])).__enter__()
os._exit(9)
"""
    assert run_python(code, tmp_path / "index").returncode == 9
    assert names(tmp_path / "index") == ["writer.lock"]
    with WriterLock(tmp_path / "index"):
        pass


@needs_unlink_of_open
def test_a_lock_file_that_is_deleted_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another first build fails, and removes its folder, between opening and locking the file."""
    path, left = tmp_path / "index", [2]
    acquire = WriterLock._acquire

    def late(lock: WriterLock) -> bool:
        if left[0]:
            left[0] -= 1
            (path / "writer.lock").unlink()
            path.rmdir()
        return acquire(lock)

    monkeypatch.setattr(WriterLock, "_acquire", late)
    with WriterLock(path):
        assert names(path) == ["writer.lock"]
    assert left == [0]


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data-7").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    folder = literal(tmp_path)
    message = f"^{folder} holds other files, such as data-7, and no index: give a new or an empty folder$"
    with pytest.raises(IndexNotFound, match=message), WriterLock(tmp_path):
        pass
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(IndexNotFound, match=message), WriterLock(tmp_path):
        pass
    message = f"^{literal(tmp_path / 'notes.txt')} is a file: give a new or an empty folder$"
    with pytest.raises(IndexNotFound, match=message), WriterLock(tmp_path / "notes.txt"):
        pass
    assert names(tmp_path) == ["data-7", "index.json", "notes.txt"]


def test_leftovers_are_the_indexs_own_files(tmp_path: Path) -> None:
    kept = ["data", "data-", "data-007", "data-0", "data-set", "data-2x", "data-²", "index.json", "mine.tmp"]
    for name in [*kept, "data-1", "data-2", "data-10"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "index.json.tmp").touch()
    remove_leftovers(tmp_path, keep="data-2")
    assert names(tmp_path) == sorted([*kept, "data-2"])
    remove_leftovers(tmp_path, keep=None)
    assert names(tmp_path) == sorted(kept)


def test_the_next_data_folder_has_the_next_number(tmp_path: Path) -> None:
    assert next_data_folder(tmp_path) == "data-1"
    for name in ("data-2", "data-10", "data-set", "data-99x", "data-²", "other"):
        (tmp_path / name).mkdir()
    assert next_data_folder(tmp_path) == "data-11"


def test_megabytes_count_the_files_of_all_folders(tmp_path: Path) -> None:
    assert folder_megabytes(tmp_path) == 0
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "one").write_bytes(b"x" * 1_500_000)
    (tmp_path / "a" / "b" / "two").write_bytes(b"x" * 500_001)
    assert folder_megabytes(tmp_path) == 2.000001


def test_a_folder_and_links_are_replaced(tmp_path: Path) -> None:
    for text in ("old", "new"):
        (tmp_path / "a.tmp" / "deeper").mkdir(parents=True)
        (tmp_path / "a.tmp" / "deeper" / f"{text}.txt").write_text(text)
        replace_folder(tmp_path / "a.tmp", tmp_path / "a")
        replace_link(tmp_path / "link", Path("a/deeper"))
        assert (tmp_path / "link" / f"{text}.txt").read_text() == text
    assert names(tmp_path) == ["a", "link"]
    assert names(tmp_path / "a" / "deeper") == ["new.txt"]


@needs_folder_sync
def test_a_folder_is_durable_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    opened: dict[int, str] = {}
    open_file, fsync, replace = os.open, os.fsync, Path.replace

    def remembered(path: str | Path, *others: int, **named: int | None) -> int:
        descriptor = open_file(path, *others, **named)
        opened[descriptor] = Path(path).name
        return descriptor

    def synced(descriptor: int) -> None:
        done.append(opened[descriptor])
        fsync(descriptor)

    monkeypatch.setattr("os.open", remembered)
    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr(Path, "replace", lambda path, new: (done.append(f"= {new.name}"), replace(path, new)))
    (tmp_path / "a.tmp" / "b").mkdir(parents=True)
    (tmp_path / "a.tmp" / "b" / "c").write_text("c")
    replace_folder(tmp_path / "a.tmp", tmp_path / "a")
    replace_link(tmp_path / "link", Path("a"))
    assert sorted(done[:3]) == ["a.tmp", "b", "c"]
    assert done[3:] == ["= a", tmp_path.name, "= link", tmp_path.name]
