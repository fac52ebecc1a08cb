from __future__ import annotations

import os
from pathlib import Path

import pytest

from lexlip.data import open_source, tar_cache, tar_listing, tar_shard
from tests.data.pictures import write_tar


@pytest.fixture
def tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tar that is worth keeping a list of."""
    monkeypatch.setattr(tar_cache, "FEWEST", 2)
    return write_tar(tmp_path / "a.tar", {"0.jpg": b"x", "0.txt": "ein Mädchen".encode(), "1.jpg": b"y"})


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tars whose headers were walked."""
    paths: list[str] = []

    def walk(path: str) -> tar_shard.Shard:
        paths.append(path)
        return tar_shard.list_shard(path)

    monkeypatch.setattr(tar_listing, "list_shard", walk)
    return paths


def kept(cache_home: Path) -> list[Path]:
    return sorted((cache_home / "lexlip" / "shards").glob("*")) if cache_home.is_dir() else []


def test_a_second_start_does_not_walk(tar: Path, walked: list[str], cache_home: Path) -> None:
    first, second = open_source(tar), open_source(tar)
    assert walked == [str(tar)]
    assert (first.items, first.skipped) == (second.items, second.skipped)
    assert [second.read(index) for index in range(2)] == [b"x", b"y"]
    assert len(kept(cache_home)) == 1


def test_what_is_skipped_is_kept_too(tar: Path, walked: list[str]) -> None:
    tar.write_bytes(tar.read_bytes()[: 6 * 512])  # without the end mark
    first, second = open_source(tar), open_source(tar)
    assert len(walked) == 1
    assert first.skipped == second.skipped
    assert second.skipped[0].reason.startswith("truncated: no end mark")


def test_a_changed_tar_is_walked_again(tar: Path, walked: list[str], cache_home: Path) -> None:
    open_source(tar)
    os.utime(tar, ns=(0, 0))
    open_source(tar)
    write_tar(tar, {f"{number}.jpg": b"" for number in range(3)})
    assert len(open_source(tar)) == 3
    assert len(walked) == 3
    assert len(kept(cache_home)) == 1  # not one for each state


def test_any_damage_is_noticed(tar: Path, walked: list[str], cache_home: Path) -> None:
    expected = open_source(tar).items
    [file] = kept(cache_home)
    whole = file.read_bytes()
    for place in range(0, len(whole), 23):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        file.write_bytes(damaged)
        loaded = tar_cache.load(tar)
        assert loaded is None or [loaded.item(index, "a.tar/") for index in range(2)] == list(expected)
    for cut in (0, 1, 100, len(whole) - 1):
        file.write_bytes(whole[:cut])
        assert tar_cache.load(tar) is None
    assert open_source(tar).items == expected
    assert len(walked) == 2
    assert file.read_bytes()[:4] == whole[:4]  # kept anew


def test_small_tars_are_not_kept(tmp_path: Path, cache_home: Path) -> None:
    open_source(write_tar(tmp_path / "a.tar", {"0.jpg": b"x"}))
    assert kept(cache_home) == []


def test_where_nothing_can_be_written_all_is_listed(
    tar: Path, walked: list[str], cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache_home / "lexlip").write_text("in the way")
    assert len(open_source(tar)) == len(open_source(tar)) == 2
    assert len(walked) == 2
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(cache_home / "home"))
    open_source(tar)
    assert len(list((cache_home / "home" / ".cache" / "lexlip" / "shards").iterdir())) == 1
