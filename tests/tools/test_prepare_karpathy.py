"""On tiny archives in the official layouts."""

from __future__ import annotations

import gzip
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lexlip.data import open_source
from tests.data.pictures import jpeg, write, write_tar
from tools import prepare_karpathy as tool

SPLITS = ["train", "restval", "val", "train", "test", "train", "restval", "train"]
COUNTS = {"train": 6, "val": 1, "test": 1}


@pytest.fixture(autouse=True)
def as_many_photos_as_the_tiny_archives_have(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data_set in tool.DATA_SETS.items():
        monkeypatch.setitem(tool.DATA_SETS, name, data_set._replace(counts=COUNTS))


def photo(number: int) -> bytes:
    return jpeg((20 + number, 30))


def image(number: int, folder: str, filename: str) -> dict[str, Any]:
    sentences = [{"raw": f"photo  {number}."}, {"raw": f"das {number}. Foto, schön\n"}]
    fields = {"filename": filename, "split": SPLITS[number], "sentences": sentences, "imgid": number}
    return {**fields, "filepath": folder, "cocoid": 1000 + number} if folder else fields


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """The downloads of COCO: two zips, and the split files in a zip."""
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    images = []
    for number in range(8):
        folder = "val2014" if SPLITS[number] != "train" else "train2014"
        images.append(image(number, folder, f"COCO_{folder}_{number:012}.jpg"))
    for folder in ("train2014", "val2014"):
        with zipfile.ZipFile(downloads / f"{folder}.zip", "w") as zipped:
            zipped.mkdir(folder)
            for number, entry in reversed(list(enumerate(images))):
                if entry["filepath"] == folder:
                    zipped.writestr(f"{folder}/{entry['filename']}", photo(number))
            zipped.writestr(f"{folder}/COCO_{folder}_000000009999.jpg", photo(9))  # in no split
    with zipfile.ZipFile(downloads / "caption_datasets.zip", "w") as zipped:
        zipped.writestr("dataset_flickr8k.json", "{}")
        zipped.writestr("dataset_coco.json", json.dumps({"images": images, "dataset": "coco"}))
    return downloads


@pytest.fixture
def flickr30k(tmp_path: Path) -> Path:
    """The downloads of Flickr30k: a tar.gz and a split file."""
    downloads = tmp_path / "downloads"
    files = {}
    for number in (5, 4, 3, 2, 1, 0, 6, 7):
        files[f"flickr30k-images/{number}36.jpg"] = photo(number)
        files[f"flickr30k-images/._{number}36.jpg"] = b"of macOS"
    tar = write_tar(tmp_path / "plain.tar", files)
    write(downloads / "flickr30k-images.tar.gz", gzip.compress(tar.read_bytes()))
    images = [image(number, "", f"{number}36.jpg") for number in range(8)]
    write(downloads / "dataset_flickr30k.json", json.dumps({"images": images}))
    return downloads


def run(name: str, downloads: Path, *options: object, code: int = 0) -> Result:
    arguments = [name, downloads, downloads.parent / "out", *options]
    result = CliRunner().invoke(tool.main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("name", ["coco", "flickr30k"])
def test_what_comes_out(name: str, request: pytest.FixtureRequest) -> None:
    downloads = request.getfixturevalue(name)
    result = run(name, downloads, "--per-tar", 4)
    out = downloads.parent / "out"
    assert result.stdout.splitlines()[0] == f"train: 6 photos in {out}/train-*.tar"
    assert sorted(state(out)) == [
        "SHA256SUMS",
        "test-0000.tar",
        "train-0000.tar",
        "train-0001.tar",
        "val-0000.tar",
    ]
    subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out, check=True, capture_output=True
    )
    for split, count in COUNTS.items():
        source = open_source(f"{out}/{split}-*.tar")
        assert source.skipped == []
        numbers = set()
        for index, item in enumerate(source.items):
            number = int(item.captions[0].removeprefix("photo ").removesuffix("."))
            assert item.captions == (f"photo {number}.", f"das {number}. Foto, schön")
            assert source.read(index) == photo(number)
            assert SPLITS[number].replace("restval", "train") == split
            numbers.add(number)
        assert len(numbers) == len(source) == count
    with tarfile.open(out / "val-0000.tar") as tar:
        [_, text, fields] = [(info.name, tar.extractfile(info)) for info in tar]
        assert text[1] is not None
        assert fields[1] is not None
        stem = text[0].removesuffix(".txt")
        assert text[1].read().decode() == "photo 2.\ndas 2. Foto, schön\n"
        assert json.load(fields[1]) == {
            "captions": ["photo 2.", "das 2. Foto, schön"],
            "filename": f"{stem}.jpg",
            "id": 1002 if name == "coco" else 2,
            "split": "val",
        }


@pytest.mark.parametrize("name", ["coco", "flickr30k"])
def test_going_on_after_an_interruption(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = request.getfixturevalue(name)
    out = downloads.parent / "out"
    run(name, downloads, "--per-tar", 2)
    whole = state(out)
    for path in out.iterdir():
        path.unlink()

    real, calls = tool.SplitWriter._write, []

    def interrupted(self: Any, name: str, data: bytes) -> None:
        calls.append(name)
        if len(calls) == 14:  # in the fifth photo
            raise KeyboardInterrupt
        real(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(tool.SplitWriter, "_write", interrupted)
        result = run(name, downloads, "--per-tar", 2, code=130)
    assert "interrupted: the same command goes on with the next tar" in result.output
    partly = state(out)
    assert 1 < len(partly) < len(whole)
    assert all(whole[tar] == data for tar, data in partly.items() if tar != "SHA256SUMS")

    times = {path: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    run(name, downloads, "--per-tar", 2)
    assert state(out) == whole
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())  # not written again

    (out / "train-0001.tar").write_bytes(b"damaged")
    run(name, downloads, "--per-tar", 2)
    assert state(out) == whole


def test_tars_of_another_run_are_not_mixed_in(flickr30k: Path) -> None:
    run("flickr30k", flickr30k, "--per-tar", 2)
    before = state(flickr30k.parent / "out")
    result = run("flickr30k", flickr30k, "--per-tar", 3, code=2)
    assert "train-0000.tar holds other photos: remove it, or name a new folder" in result.output
    assert state(flickr30k.parent / "out") == before
    sums = flickr30k.parent / "out" / "SHA256SUMS"
    write(sums, sums.read_text() + f"{'0' * 64}  dev-0000.tar\n")
    result = run("flickr30k", flickr30k, "--per-tar", 2, code=2)
    assert "out holds other tars, such as dev-0000.tar" in result.output


def test_checksums(flickr30k: Path) -> None:
    files = [path.name for path in flickr30k.iterdir()]
    done = subprocess.run(["md5sum", *files], cwd=flickr30k, capture_output=True, check=True)
    sums = write(flickr30k.parent / "sums", done.stdout)
    run("flickr30k", flickr30k, "--checksums", sums)
    write(flickr30k / "dataset_flickr30k.json", (flickr30k / "dataset_flickr30k.json").read_text() + " ")
    result = run("flickr30k", flickr30k, "--checksums", sums, code=2)
    assert "dataset_flickr30k.json is damaged: its md5 sum is" in result.output


def test_missing_downloads(coco: Path) -> None:
    (coco / "val2014.zip").rename(coco / "other.zip")
    message = "val2014.zip does not exist: download val2014.zip from https://cocodataset.org/#download"
    assert message in run("coco", coco, code=2).output
    (coco / "other.zip").rename(coco / "val2014.zip")
    (coco / "caption_datasets.zip").unlink()
    assert "caption_datasets.zip does not exist" in run("coco", coco, code=2).output


def test_wrong_split_files(flickr30k: Path) -> None:
    file = flickr30k / "dataset_flickr30k.json"
    images = json.loads(file.read_text())["images"]
    for content, message in [
        ("{", "does not hold a split file"),
        ('{"images": [{}]}', "does not hold a split file"),
        (json.dumps({"images": images[1:]}), "has {'train': 5, 'val': 1, 'test': 1} photos, Karpathy's has"),
    ]:
        write(file, content)
        assert message in run("flickr30k", flickr30k, code=2).output
    assert not (flickr30k.parent / "out").exists()


def test_photos_that_are_not_there(flickr30k: Path) -> None:
    file = flickr30k / "dataset_flickr30k.json"
    write(file, file.read_text().replace("436.jpg", "x.jpg"))
    result = run("flickr30k", flickr30k, code=2)
    assert "1 photos that dataset_flickr30k.json names are not in flickr30k-images.tar.gz" in result.output
    assert "(the first is x.jpg)" in result.output
    assert state(flickr30k.parent / "out") == {}


@pytest.mark.parametrize("damage", ["cut", "crc", "bit"])
def test_a_damaged_tar_gz(flickr30k: Path, damage: str) -> None:
    archive = flickr30k / "flickr30k-images.tar.gz"
    data = bytearray(archive.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "crc":
        data[-8] ^= 1
    else:  # a changed pixel, and the CRC of what was
        plain = gzip.decompress(data)
        changed = plain.replace(photo(5), photo(5)[:200] + b"?" + photo(5)[201:])
        assert changed != plain
        data = bytearray(gzip.compress(changed)[:-8] + data[-8:])
    archive.write_bytes(data)
    result = run("flickr30k", flickr30k, "--per-tar", 1, code=2)
    assert "flickr30k-images.tar.gz is damaged: " in result.output
    out = flickr30k.parent / "out"
    assert not (out / "SHA256SUMS").exists()  # so that a sound archive is read anew
    assert not list(out.glob(".*"))


def test_a_damaged_zip(coco: Path) -> None:
    data = bytearray((coco / "train2014.zip").read_bytes())
    data[data.index(photo(5)) + 200] ^= 1
    (coco / "train2014.zip").write_bytes(data)
    result = run("coco", coco, "--per-tar", 1, code=2)
    assert "train2014.zip is damaged: Bad CRC-32" in result.output
    (coco / "train2014.zip").write_bytes(b"<html>")
    assert "train2014.zip is damaged: File is not a zip file" in run("coco", coco, code=2).output


def test_a_folder_that_cannot_be_made(coco: Path) -> None:
    write(coco.parent / "out", "a file")
    assert "out: File exists" in run("coco", coco, code=2).output


def test_as_a_program(tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run_python(tool.__file__, "coco", tmp_path, tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {tmp_path}/train2014.zip does not exist")
