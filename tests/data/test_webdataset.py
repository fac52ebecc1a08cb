import json
import os
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped, Unlisted, UnreadableImage, open_source
from lexlip.data.webdataset import match_tars
from lexlip.errors import DataError
from tests.data.pictures import jpeg, write, write_tar


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


def test_a_tar_that_is_cut_short_is_unlisted(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.jpg": jpeg(), "1.jpg": jpeg()})
    first = 512 + -(-len(jpeg()) // 512) * 512
    os.truncate(tmp_path / "a.tar", first + 600)  # in the second photo
    write_tar(tmp_path / "b.tar", {"2.jpg": jpeg()})
    source = open_source(tmp_path)
    assert source.unlisted == [Unlisted("a.tar", "truncated in 1.jpg; 1 photos before that are kept")]
