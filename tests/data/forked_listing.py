"""Run by test_tar_shards.py in a process without a JVM, which must not be forked."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from lexlip.data import open_source, tar_shards
from lexlip.data.tar_shards import list_shard
from lexlip.errors import DataError
from tests.data.pictures import write_tar


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six tars, one of them none, which are listed by processes."""
    for number in range(5):
        files = {f"{number}{n}.jpg": bytes([n]) for n in range(number + 1)}
        write_tar(tmp_path / "tars" / f"{number}.tar", files)
    (tmp_path / "tars" / "9.tar").write_bytes(b"no tar" * 1000)
    monkeypatch.setattr(tar_shards, "LITTLE", 0)
    monkeypatch.setattr(tar_shards, "cores", lambda: 2)
    return tmp_path / "tars"


@pytest.mark.parametrize("jvm", [False, True])
def test_the_same_as_in_one_process(folder: Path, jvm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = []
    real = tar_shards.multiprocessing.get_context

    def get_context(method: str | None) -> object:
        contexts.append(method)
        return real(method)

    monkeypatch.setattr(tar_shards.multiprocessing, "get_context", get_context)
    monkeypatch.delitem(sys.modules, "jnius", raising=False)
    if jvm:
        monkeypatch.setitem(sys.modules, "jnius", types.ModuleType("jnius"))
    many = open_source(folder)
    assert contexts == ["spawn" if jvm else None]
    monkeypatch.setattr(tar_shards, "cores", lambda: 1)
    one = open_source(folder)
    assert len(contexts) == 1
    assert len(many) == 15
    assert (many.items, many.skipped) == (one.items, one.skipped)
    assert [many.read(index) for index in range(15)] == [bytes([n]) for k in range(5) for n in range(k + 1)]


def test_a_tar_that_goes_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_shards, "cores", lambda: 1)
    paths = [str(folder / "1.tar"), str(folder / "gone.tar")]
    first, second = tar_shards.list_shards(paths)
    assert len(first) == 2
    assert [tuple(skip) for skip in second.skipped] == [("", "No such file or directory")]
    assert len(second) == 0


def test_a_killed_process_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: str) -> None:
        os._exit(9)

    if tar_shards.multiprocessing.get_start_method() != "fork":
        pytest.skip("the replaced function is not inherited here")
    monkeypatch.delitem(sys.modules, "jnius", raising=False)
    monkeypatch.setattr(tar_shards, "list_shard", killed)
    with pytest.raises(DataError, match="a process that listed tars was killed, or could not start"):
        open_source(folder)
    monkeypatch.setattr(tar_shards, "list_shard", list_shard)
    assert len(open_source(folder)) == 15
