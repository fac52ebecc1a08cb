"""What Windows and macOS lack, taken away here; tests/anserini_bridge has the same for the index's folder."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anserini_bridge import storage
from lexlip.indexing.table_writer import remove_old_tables
from lexlip.machine import resources
from lexlip.retrieval import collection
from lexlip.training import augmentation

WITHOUT = """
import multiprocessing, os, shutil, sys
import fastapi, filelock, onnxruntime, timm, tokenizers, torch, torchvision, transformers, uvicorn, watchfiles
import concurrent.futures.process, subprocess, unittest.mock  # other people's code finds this system as it is

if os.environ["SYSTEM"] == "windows":
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    for name in ("register_at_fork", "O_NONBLOCK", "sched_getaffinity", "fork", "sysconf"):
        delattr(os, name)
    multiprocessing.get_all_start_methods = lambda: ["spawn"]
    shutil._use_fd_functions = False
    shutil._rmtree_impl = shutil._rmtree_unsafe  # since Python 3.14
del os.posix_fallocate
import lexlip, lexlip.cli
from lexlip.cli import main
from click.testing import CliRunner
import anserini_bridge.jvm, anserini_bridge.storage  # Java is called as it is here

anserini_bridge.storage.WINDOWS = os.environ["SYSTEM"] == "windows"
lexlip.index("photos", "index", model="model")
lexlip.update("index")
with lexlip.PhotoSearch("index", model="model") as photos:
    assert photos.text("two dogs play in the snow").hits
    lexlip.index("photos", "index", model="model", anew=True)  # replaced while a search has it open
    photos.refresh()
    assert photos.text("two dogs play in the snow").hits
for command in main.commands:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0, result.output
"""


@pytest.mark.parametrize("system", ["windows", "macos"])
@pytest.mark.slow
def test_photos_are_indexed_and_found(
    system: str,
    photos: Path,
    model_folder: Path,
    run_python: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (photos.parent / "model").symlink_to(model_folder)
    monkeypatch.setenv("SYSTEM", system)
    done = run_python("-c", WITHOUT)
    assert done.returncode == 0, done.stderr


def test_memory_that_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "Path", lambda name: Path("/nowhere"))
    assert resources.memory_mb() > 1
    monkeypatch.setitem(sys.modules, "resource", None)
    assert math.isnan(resources.memory_mb())


def test_a_process_of_its_own_is_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    assert resources.in_own_process(math.sqrt, 9.0) == 3


def test_room_for_an_array_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.posix_fallocate")
    file = tmp_path / "views.npy"
    augmentation._reserve(file, (3, 1000, 700))
    array = np.load(file, mmap_mode="r")
    assert array.shape == (3, 1000, 700)
    assert not array.any()
    assert file.stat().st_blocks * 512 >= array.nbytes


def test_a_table_that_a_search_has_open_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"photos-{number}.sqlite").touch()
    unlink = Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        if self.name == "photos-1.sqlite":
            raise PermissionError(13, "The process cannot access the file", str(self))
        unlink(self, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refused)
        with pytest.raises(PermissionError):
            remove_old_tables(tmp_path, keep="photos-3.sqlite")
        patched.setattr(storage, "WINDOWS", True)
        remove_old_tables(tmp_path, keep="photos-3.sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos-1.sqlite", "photos-3.sqlite"]
    remove_old_tables(tmp_path, keep="photos-3.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["photos-3.sqlite"]


def test_photos_on_another_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def relpath(path: str, start: str) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    (tmp_path / "photos").mkdir()
    monkeypatch.setattr(collection.os.path, "relpath", relpath)
    absolute, relative = collection.store_place(str(tmp_path / "photos"), tmp_path / "index")
    assert absolute == relative == str(tmp_path / "photos")
    assert collection.place_now(absolute, relative, tmp_path / "index") == absolute
