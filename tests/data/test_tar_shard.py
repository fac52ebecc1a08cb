from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped
from lexlip.data.tar_shard import list_shard
from tests.data.pictures import write_tar


def test_packing_loses_nothing(tmp_path: Path) -> None:
    numbers = random.Random(0)
    words = ["a", "dog", "Mädchen", "犬", "🐕", '"', "\\", "|"]
    files: dict[str, bytes] = {}
    expected = []
    for number in range(50):
        captions = [" ".join(numbers.choices(words, k=6)) for _ in range(numbers.randrange(4))]
        name = f"{'x/' * numbers.randrange(3)}{number}ü.{numbers.choice(['jpg', 'PNG', 'v2.webp'])}"
        files[name] = numbers.randbytes(numbers.randrange(1500))
        files[name.rpartition(".")[0] + ".json"] = json.dumps({"captions": captions}).encode()
        expected.append((name, captions))
    tar = write_tar(tmp_path / "a.tar", files)
    shard = list_shard(tar)
    data = tar.read_bytes()
    for index, (name, captions) in enumerate(expected):
        assert shard.item(index, "p/") == Item(f"p/{name}", tuple(captions))
        offset, size = int(shard.offsets[index]), int(shard.sizes[index])
        assert data[offset : offset + size] == files[name]
    assert shard.captioned().tolist() == [index for index, (_, captions) in enumerate(expected) if captions]
    assert len(shard) == 50
    assert shard.skipped == []


def test_a_tar_without_photos(tmp_path: Path) -> None:
    shard = list_shard(write_tar(tmp_path / "a.tar", {"a.txt": b"a dog"}))
    assert len(shard) == 0
    assert shard.captioned().tolist() == []
    assert shard.skipped == [Skipped("a", "no image")]


def test_odd_captions(tmp_path: Path) -> None:
    fields = {"captions": ["a\0b\n c", "\0", "\ud800x", " "]}
    deep = b"[" * 200_000
    shard = list_shard(
        write_tar(
            tmp_path / "a.tar",
            {
                "0.jpg": b"",
                "0.json": json.dumps(fields).encode(),
                "1.jpg": b"",
                "1.json": deep,
                "1.txt": b"\xff dog",
            },
        )
    )
    assert shard.item(0, "").captions == ("a b c", "?x")
    assert shard.item(1, "").captions == ("\ufffd dog",)


def test_of_two_files_with_one_name_the_later_counts(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {"a.jpg": b"old", "b.jpg": b"b"})
    with tarfile.open(tar, "a") as file:
        info = tarfile.TarInfo("a.jpg")
        info.size = 5
        file.addfile(info, io.BytesIO(b"newer"))
    shard = list_shard(tar)
    assert [shard.item(index, "").id for index in range(len(shard))] == ["a.jpg", "b.jpg"]
    assert shard.sizes.tolist() == [5, 1]


def test_names_that_no_index_could_store(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {"\udcff.jpg": b"", "a.jpg": b"", ".hidden.jpg": b""})
    shard = list_shard(tar)
    assert shard.skipped == [Skipped("\\xff.jpg", "the name is not UTF-8")]
    assert len(shard) == 1


def test_a_tar_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_shard(tmp_path / "a.tar")
