from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped, Unlisted, UnreadableImage, open_source, tar_shards
from lexlip.data.files import read_location
from lexlip.data.tar_shards import list_shard, match_tars
from lexlip.errors import DataError
from tests.conftest import ROOT
from tests.data.pictures import jpeg, write, write_tar


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


def test_a_raw_file_beside_its_jpeg_is_left_out(tmp_path: Path) -> None:
    files = dict.fromkeys(("a.CR2", "a.jpg", "b.dng", "b.txt"), b"a dog")
    shard = list_shard(write_tar(tmp_path / "a.tar", files))
    assert [shard.item(number, "") for number in range(2)] == [Item("a.jpg", ()), Item("b.dng", ("a dog",))]
    assert (len(shard), shard.skipped) == (2, [])


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
    assert shard.item(1, "").captions == ()
    assert shard.skipped == [
        Skipped("1.json", "not JSON: nested more than 200 deep"),
        Skipped("1.txt", "not UTF-8 at byte 0"),
    ]


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


# ---- links, long names, huge captions ----


def entry(tar: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    tar.addfile(info, io.BytesIO(data))


def test_links_are_the_files_that_they_lead_to(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        entry(tar, "first.jpg", b"", type=tarfile.SYMTYPE, linkname="d/soft.jpg")
        entry(tar, "a.jpg", jpeg())
        entry(tar, "a.txt", b"a dog")
        entry(tar, "hard.jpg", type=tarfile.LNKTYPE, linkname="a.jpg")
        entry(tar, "hard.txt", type=tarfile.LNKTYPE, linkname="./a.txt")
        entry(tar, "d/soft.jpg", type=tarfile.SYMTYPE, linkname="../a.jpg")
        entry(tar, "out.jpg", type=tarfile.SYMTYPE, linkname="/etc/hostname")
        entry(tar, "loop.jpg", type=tarfile.SYMTYPE, linkname="loop.jpg")
        entry(tar, "README", type=tarfile.SYMTYPE, linkname="nowhere")
    shard = list_shard(tmp_path / "a.tar")
    photos = {shard.item(number, "").id: number for number in range(len(shard))}
    assert sorted(photos) == ["a.jpg", "d/soft.jpg", "first.jpg", "hard.jpg"]
    assert {int(offset) for offset in shard.offsets} == {int(shard.offsets[photos["a.jpg"]])}
    assert shard.item(photos["hard.jpg"], "").captions == ("a dog",)
    assert shard.skipped == [
        Skipped(name, "a link to nothing in the tar") for name in ("out.jpg", "loop.jpg")
    ]
    for name in photos:
        assert read_location(f"{tmp_path}/a.tar/{name}") == jpeg()


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_member_with_an_over_long_name_is_left_out(tmp_path: Path, format: int) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=format) as tar:
        for name in ("a.jpg", f"{'x' * 40_000}.jpg", "b.jpg"):
            entry(tar, name, jpeg())
    shard = list_shard(tmp_path / "a.tar")
    assert [shard.item(number, "").id for number in range(len(shard))] == ["a.jpg", "b.jpg"]
    assert shard.skipped == [Skipped(f"{'x' * 40}…xxxxxx.jpg", "its name has more than 4,096 bytes")]


def test_a_header_that_says_it_is_huge_ends_the_list(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        entry(tar, "a.jpg", jpeg())
    size = (tmp_path / "a.tar").stat().st_size
    with (tmp_path / "a.tar").open("r+b") as file:
        file.seek(-(-len(jpeg()) // 512) * 512 + 512)
        header = tarfile.TarInfo("x")
        header.type, header.size = tarfile.GNUTYPE_LONGNAME, 20 << 30
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(size + (21 << 30))
    shard = list_shard(tmp_path / "a.tar")
    assert len(shard) == 1
    assert shard.skipped[0].reason.startswith(
        "damaged: a header of more than 1,048,576 bytes; 1 photos before"
    )


def test_huge_captions_are_not_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        entry(tar, "a.jpg", jpeg())
    with (tmp_path / "a.tar").open("r+b") as file:
        file.seek(-(-len(jpeg()) // 512) * 512 + 512)
        header = tarfile.TarInfo("a.txt")
        header.size = 20 << 30
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(file.tell() + (20 << 30) + 1024)
    shard = list_shard(tmp_path / "a.tar")
    assert shard.item(0, "").captions == ()
    assert shard.skipped == [Skipped("a.txt", "21,474,836,480 bytes: more than 1,048,576")]


@pytest.fixture
def tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tar that is worth keeping a list of."""
    monkeypatch.setattr(tar_shards, "FEWEST", 2)
    return write_tar(tmp_path / "a.tar", {"0.jpg": b"x", "0.txt": "ein Mädchen".encode(), "1.jpg": b"y"})


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tars whose headers were walked."""
    paths: list[str] = []

    def walk(path: str) -> tar_shards.Shard:
        paths.append(path)
        return list_shard(path)

    monkeypatch.setattr(tar_shards, "list_shard", walk)
    return paths


def kept(cache_home: Path) -> list[Path]:
    return sorted((cache_home / "lexlip" / "shards").glob("*")) if cache_home.is_dir() else []


def test_a_user_without_a_home(tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", str)
    monkeypatch.chdir(tmp_path)
    assert len(open_source(tar)) == 2
    assert list(tmp_path.iterdir()) == [tar]


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
        loaded = tar_shards.load(tar)
        assert loaded is None or [loaded.item(index, "a.tar/") for index in range(2)] == list(expected)
    for cut in (0, 1, 100, len(whole) - 1):
        file.write_bytes(whole[:cut])
        assert tar_shards.load(tar) is None
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


def test_several_processes() -> None:
    """In a process of their own: forking one that runs a JVM, as other tests leave it, would crash it."""
    tests = Path(__file__).with_name("forked_listing.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout or "3 passed, 1 skipped" in done.stdout


def test_captions_come_from_the_list_then_the_string_then_the_text(tmp_path: Path) -> None:
    files = {
        "0.jpg": jpeg(colour="red"),
        "0.txt": b"not this",
        "0.json": json.dumps({"captions": ["a dog", " two  dogs ", "", None]}).encode(),
        "1.jpeg": jpeg(colour="blue"),
        "1.json": json.dumps({"caption": "a cat", "status": "success"}).encode(),
        "1.txt": b"nor this",
        "2.JPG": jpeg(),
        "2.txt": "ein Mädchen\n".encode(),
        "2.json": b"{broken",
        "3.jpg": jpeg(),
    }
    source = open_source(write_tar(tmp_path / "train-0000.tar", files))
    assert [(item.id, item.captions) for item in source.items] == [
        ("train-0000.tar/0.jpg", ("a dog", "two dogs")),
        ("train-0000.tar/1.jpeg", ("a cat",)),
        ("train-0000.tar/2.JPG", ("ein Mädchen",)),
        ("train-0000.tar/3.jpg", ()),
    ]
    assert [(skip.id, skip.reason[:8]) for skip in source.skipped] == [("train-0000.tar/2.json", "not JSON")]
    assert source.read(1) == files["1.jpeg"]
    assert source.path(1) == f"{tmp_path}/train-0000.tar/1.jpeg"
    assert source.image(0).getpixel((5, 5)) == (254, 0, 0)


def test_a_key_without_image_is_listed(tmp_path: Path) -> None:
    tar = write_tar(
        tmp_path / "a.tar", {"0.jpg": jpeg(), "1.txt": b"gone", "1.json": b"{}", "._0.jpg": b"mac"}
    )
    source = open_source(tar)
    assert len(source) == 1
    assert source.skipped == [Skipped("a.tar/1", "no image")]


def test_a_truncated_tar_keeps_what_could_be_read(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {f"{n}.jpg": jpeg() for n in range(4)})
    whole = tar.read_bytes()
    block = len(whole[: whole.index(b"1.jpg\0")])  # where the second member starts
    for cut, kept, reason in [
        (3 * block + 600, 3, "truncated in 3.jpg"),  # in a photo
        (3 * block + 100, 3, "truncated"),  # in a header
        (4 * block, 4, "truncated: no end mark"),
    ]:
        tar.write_bytes(whole[:cut])
        source = open_source(tar)
        assert len(source) == kept
        [skipped] = source.skipped
        assert skipped.id == "a.tar"
        assert skipped.reason.startswith(reason)
        assert f"{kept} photos before that are kept" in skipped.reason
        assert source.unlisted == [Unlisted("a.tar", skipped.reason)]
        source.image(kept - 1)


def test_a_damaged_header_keeps_what_comes_before(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {f"{n}.jpg": jpeg() for n in range(4)})
    data = bytearray(tar.read_bytes())
    start = data.index(b"2.jpg\0")
    data[start : start + 512] = b"x" * 512
    tar.write_bytes(data)
    source = open_source(tar)
    assert len(source) == 2
    assert source.skipped == [Skipped("a.tar", f"damaged at byte {start:,}; 2 photos before that are kept")]


def test_a_file_that_is_no_tar_is_skipped_among_others(tmp_path: Path) -> None:
    write_tar(tmp_path / "deep" / "b.tar", {"0.jpg": jpeg()})
    (tmp_path / "a.tar").write_bytes(b"<html>not found</html>" * 100)
    source = open_source(tmp_path)
    assert [item.id for item in source.items] == ["deep/b.tar/0.jpg"]
    assert [skipped.id for skipped in source.skipped] == ["a.tar"]
    with pytest.raises(DataError, match=r"no photos in the tars of .*a\.tar"):
        open_source(tmp_path / "a.tar")


@pytest.mark.parametrize(
    "pattern", ["train-*.tar", "train-{0..2}.tar", "train-[0-2].tar", "{train-0,train-1,train-2}.tar"]
)
def test_patterns(tmp_path: Path, pattern: str) -> None:
    for number in range(3):
        write_tar(tmp_path / f"train-{number}.tar", {"0.jpg": jpeg()})
    write_tar(tmp_path / "val-0.tar", {"0.jpg": jpeg()})
    source = open_source(f"{tmp_path}/{pattern}")
    assert [item.id for item in source.items] == [f"train-{number}.tar/0.jpg" for number in range(3)]
    assert source.name == f"{tmp_path}/{pattern}"


def test_a_pattern_that_names_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no tar matches .*train-\*\.tar"):
        open_source(f"{tmp_path}/train-*.tar")
    write_tar(tmp_path / "train-00.tar", {"0.jpg": jpeg()})
    with pytest.raises(DataError, match=r"^nothing does not exist$"):
        match_tars("nothing")
    with pytest.raises(DataError, match=r"train-01\.tar does not exist"):
        open_source(f"{tmp_path}/train-{{00..01}}.tar")
    message = r"^2 of the tars that .*\.tar names do not exist: train-01\.tar, train-02\.tar$"
    with pytest.raises(DataError, match=message):
        open_source(f"{tmp_path}/train-{{00..02}}.tar")
    with pytest.raises(DataError, match=r"9 of the tars .*train-05\.tar and 4 more$"):
        open_source(f"{tmp_path}/train-{{00..09}}.tar")


def test_what_img2dataset_writes(tmp_path: Path) -> None:
    """Beside the tars it leaves tables and statistics; a photo may have no caption, or not be one."""
    fields = {"url": "https://example.org/1.jpg", "key": "000000001", "status": "success"}
    described = {"caption": "a dog", "error_message": None, **fields}
    files = {
        "000000001.jpg": jpeg(),
        "000000001.json": json.dumps(described).encode(),
        "000000001.txt": b"a dog",
        "000000002.jpg": jpeg()[:300],
        "000000002.json": json.dumps({**described, "caption": None}).encode(),
        "000000002.txt": b"",
    }
    write_tar(tmp_path / "cc3m" / "00000.tar", files)
    write(tmp_path / "cc3m" / "00000.parquet", b"PAR1")
    write(tmp_path / "cc3m" / "00000_stats.json", json.dumps({"count": 2, "successes": 2}))
    source = open_source(tmp_path / "cc3m")
    assert source.items == [Item("00000.tar/000000001.jpg", ("a dog",)), Item("00000.tar/000000002.jpg", ())]
    assert source.captioned().tolist() == [0]
    assert source.skipped == [Skipped(".", "files of other kinds: 1 .json, 1 .parquet")]
    with pytest.raises(UnreadableImage, match=r"00000\.tar/000000002\.jpg: truncated$"):
        source.image(1)


def test_a_tar_that_vanishes(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {"0.jpg": jpeg()})
    source = open_source(tar)
    tar.unlink()
    with pytest.raises(DataError, match=r"a\.tar/0\.jpg: No such file"):
        source.read(0)


def test_a_pattern_that_names_too_many_tars_is_refused_at_once() -> None:
    for pattern in ("{0..99999999999}.tar", "{0..9}{0..9}{0..9}{0..9}{0..9}{0..9}.tar"):
        with pytest.raises(DataError, match=r"names too many tars: name at most 100,000$"):
            match_tars(pattern)
    with pytest.raises(DataError):
        match_tars(f"{{0..{'9' * 5000}}}.tar")
