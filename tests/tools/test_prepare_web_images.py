"""On tiny lists in the official layouts, with a program in img2dataset's place."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result

from lexlip.data import open_source
from tests.data.pictures import write, write_tar
from tools import prepare_web_images as tool

ROWS = [
    ("https://example.org/0.jpg", "a dog"),
    ("http://example.org/1.jpg?a=b c", '"two" dogs, in snow'),
    ("https://example.org/2.jpg", "ein Mädchen"),
]
# Reads its list as img2dataset does, and writes a tar, a table and statistics.
PROGRAM = """#!{python}
import csv, io, json, pathlib, sys, tarfile
options = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
folder = pathlib.Path(options["output_folder"])
(folder / "called.txt").write_text(json.dumps(sys.argv[1:]))
if (folder / "fail").exists():
    sys.exit(3)
rows = list(csv.DictReader(open(options["url_list"], encoding="utf-8", newline=""), delimiter="\\t"))
with tarfile.open(folder / "00000.tar", "w") as tar:
    for number, row in enumerate(rows[:-1]):
        fields = {{"caption": row[options["caption_col"]], "url": row[options["url_col"]]}}
        for end, data in ((".jpg", b"jpeg"), (".json", json.dumps(fields).encode())):
            info = tarfile.TarInfo(f"{{number:09}}{{end}}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
(folder / "00000.parquet").write_bytes(b"PAR1")
(folder / "00000_stats.json").write_text(json.dumps({{"count": len(rows), "successes": len(rows) - 1}}))
"""


@pytest.fixture(autouse=True)
def lists_have_three_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "PHOTOS", dict.fromkeys(tool.PHOTOS, 3))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in img2dataset's place."""
    file = write(tmp_path / "bin" / "img2dataset", PROGRAM.format(python=sys.executable))
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(file.parent))
    return file


def tar_of(files: dict[str, str]) -> bytes:
    with TemporaryDirectory() as folder:
        tar = write_tar(Path(folder, "a.tar"), {name: text.encode() for name, text in files.items()})
        return gzip.compress(tar.read_bytes())


def zip_of(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    return made.getvalue()


def official(kind: str) -> tuple[str, str, bytes]:
    """Data set, file name and contents."""
    urls, captions = zip(*ROWS, strict=True)
    in_json = json.dumps({"image_urls": urls, "captions": captions, "user_ids": ["u"] * 3})
    folder = "dataset/SBU_captioned_photo_dataset"
    lines = {
        f"{folder}_urls.txt": "".join(f"{url}\n" for url in urls),
        f"{folder}_captions.txt": "".join(f"{caption}\n" for caption in captions),
        "dataset/README": "no list",
    }
    if kind == "cc3m":
        return kind, "Train_GCC-training.tsv", "".join(f"{c}\t{u}\n" for u, c in ROWS).encode()
    if kind == "cc12m":
        return kind, "cc12m.tsv", "".join(f"{u}\t{c}\n" for u, c in ROWS).encode()
    if kind == "sbu json":
        return "sbu", "sbu-captions-all.json", in_json.encode()
    if kind == "sbu json in tar":
        return "sbu", "sbu-captions-all.tar.gz", tar_of({"sbu-captions-all.json": in_json})
    if kind == "sbu lines in tar":
        return "sbu", "SBUCaptionedPhotoDataset.tar.gz", tar_of(lines)
    return "sbu", "SBUCaptionedPhotoDataset.zip", zip_of(lines)


def run(name: str, addresses: Path, *options: object, code: int = 0) -> Result:
    arguments = [name, addresses, addresses.parent / "out", *options]
    result = CliRunner().invoke(tool.main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


KINDS = ["cc3m", "cc12m", "sbu json", "sbu json in tar", "sbu lines in tar", "sbu lines in zip"]


@pytest.mark.parametrize("kind", KINDS)
def test_from_list_to_source(program: Path, tmp_path: Path, kind: str) -> None:
    name, filename, content = official(kind)
    result = run(name, write(tmp_path / filename, content), "--processes", 5, "--threads", 7, "--size", 224)
    out = tmp_path / "out"
    with (out / "urls.tsv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file, delimiter="\t")) == [["url", "caption"], *map(list, ROWS)]
    called = json.loads((out / "called.txt").read_text())
    assert " ".join(called) == (
        f"--url_list={out}/urls.tsv --input_format=tsv --url_col=url --caption_col=caption"
        f" --output_format=webdataset --output_folder={out} --number_sample_per_shard=10000"
        " --image_size=224 --resize_mode=keep_ratio --resize_only_if_bigger=True"
        " --processes_count=5 --thread_count=7 --incremental_mode=incremental"
    )
    assert "2 of 3 photos (67%) in 1 tars" in result.output
    assert "complete list" not in result.output
    [line] = (out / "SHA256SUMS").read_text().splitlines()
    assert line == f"{tool.checksum(out / '00000.tar')}  00000.tar"
    (out / "called.txt").unlink()
    assert [item.captions for item in open_source(out).items] == [(ROWS[0][1],), (ROWS[1][1],)]


def test_lines_that_make_no_sense_are_left_out(program: Path, tmp_path: Path) -> None:
    good = "".join(f"https://example.org/{number}.jpg\ta dog\n" for number in range(20))
    addresses = write(tmp_path / "cc12m.tsv", "https://example.org/x.jpg\t \n" + good + "no tab\n")
    result = run("cc12m", addresses)
    assert "20 addresses in " in result.output
    assert "2 left out, line 1 has no caption" in result.output
    assert len((tmp_path / "out" / "urls.tsv").read_text().splitlines()) == 21


def test_another_list(program: Path, tmp_path: Path) -> None:
    _, filename, content = official("cc3m")
    result = run("cc12m", write(tmp_path / filename, content), code=2)
    assert "is another list: 3 of its 3 lines make no sense (line 1 has no address)" in result.output
    assert list((tmp_path / "out").iterdir()) == []
    assert "is another list: 0 of its 0 lines" in run("cc3m", write(tmp_path / "e", ""), code=2).output
    for name, content in [
        ("a.json", b"{}"),
        ("b.json", b"{"),
        ("c.json", json.dumps({"image_urls": ["http://a"], "captions": []}).encode()),
        ("d.zip", zip_of({"x_urls.txt": "http://a"})),
    ]:
        result = run("sbu", write(tmp_path / name, content), code=2)
        assert f"{name} is not the list of sbu: " in result.output


def test_damaged_lists(program: Path, tmp_path: Path) -> None:
    for kind in ("sbu lines in tar", "sbu lines in zip"):
        name, filename, content = official(kind)
        result = run(name, write(tmp_path / filename, content[: len(content) // 2]), code=2)
        assert f"{filename} cannot be read: " in result.output
    result = run("cc3m", write(tmp_path / "a.tsv", b"\xff\thttp://a\n"), code=2)
    assert "a.tsv is not the list of cc3m: UnicodeDecodeError" in result.output
    assert "none.tsv does not exist" in run("cc3m", tmp_path / "none.tsv", code=2).output
    sums = write(tmp_path / "sums", f"{'0' * 32}  a.tsv\n")
    result = run("cc3m", tmp_path / "a.tsv", "--checksums", sums, code=2)
    assert "a.tsv is damaged: its md5 sum is" in result.output


def test_a_list_that_was_cut_short_is_noticed(program: Path, tmp_path: Path) -> None:
    _, filename, content = official("cc12m")
    result = run("cc12m", write(tmp_path / filename, content[: content.rindex(b"https")]))
    assert "the complete list has 3 lines" in result.output


def test_without_img2dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    name, filename, content = official("cc3m")
    result = run(name, write(tmp_path / filename, content), code=2)
    assert "img2dataset is not installed: pip install img2dataset" in result.output
    assert f"or run: img2dataset --url_list={tmp_path}/out/urls.tsv --input_format=tsv" in result.output
    assert (tmp_path / "out" / "urls.tsv").is_file()


def test_img2dataset_fails(program: Path, tmp_path: Path) -> None:
    name, filename, content = official("cc3m")
    addresses = write(tmp_path / filename, content)
    write(tmp_path / "out" / "fail", "")
    assert "img2dataset ended with status 3" in run(name, addresses, code=2).output
    program.write_text("#!/bin/sh\nexit 0\n")
    assert f"img2dataset wrote no tars to {tmp_path}/out" in run(name, addresses, code=2).output


def test_missing_tars_and_known_sums(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, filename, content = official("cc3m")
    addresses = write(tmp_path / filename, content)
    run(name, addresses)
    sums = (tmp_path / "out" / "SHA256SUMS").read_text()
    program.write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(tool, "PER_TAR", 1)
    monkeypatch.setattr(tool, "checksum", lambda tar: "0" * 64)
    result = run(name, addresses)
    assert "2 tars are missing; the same command goes on" in result.output
    assert (tmp_path / "out" / "SHA256SUMS").read_text() == sums  # the tar did not change
    (tmp_path / "out" / "00000.tar").touch()
    run(name, addresses)
    assert (tmp_path / "out" / "SHA256SUMS").read_text() == f"{'0' * 64}  00000.tar\n"
