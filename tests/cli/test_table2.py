import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_evaluate import write_karpathy
from tests.cli.test_index import error
from tests.conftest import write_photos
from tests.tiny import tiny_dense
from tests.tiny_clip import write_clip

Run = Callable[..., Any]

QUICK = ["--rounds", "1", "--workers", "0"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed is measured for a short time."""
    monkeypatch.setattr("lexlip.bench.throughput.queries_per_second.__defaults__", (5, 0.001, False))


@pytest.fixture
def two_captions(photos: Path) -> Path:
    for text in photos.glob("*.txt"):
        caption = text.read_text().strip()
        text.write_text(f"{caption}\n{' '.join(reversed(caption.split()))}\n")
    return photos


def test_text(lexlip: Run, two_captions: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 4)
    (two_captions / "bad.jpg").touch()
    result = lexlip("table", "2", "--queries", "photos", "--pool", "more", *QUICK)
    heading, *lines = result.stdout.split("\n\n")[0].splitlines()
    assert heading.startswith("system ")
    assert [line.split("  ")[0] for line in lines] == [
        "BM25",
        "CLIP, one by one",
        "CLIP, 256 together",
        *["LexLIP"] * 6,
    ]
    rows = [line.split() for line in lines[3:]]
    assert [row[1] for row in rows] == ["all", "top-64", "top-32", "top-16", "top-12", "top-8"]
    assert [row[-3:] for row in rows][3] == ["47.0", "610", "28.3"]
    notes = result.stdout.split("\n\n")[1].splitlines()
    assert notes[0] == (
        "Measured with the 6 photos and 12 captions of photos in a pool of 10 photos and 16 captions."
    )
    assert notes[-1].startswith("paper: its Table 2 (arXiv 2302.02908)")
    assert result.stderr.splitlines() == ["1 skipped:", "  photos/bad.jpg: empty file"]


def test_json_agrees_with_evaluate(lexlip: Run, two_captions: Path) -> None:
    options = ["--topk", "4", "--topk", "all", "--topk", "4", "--synthetic-distractors", "0"]
    table = json.loads(lexlip("table", "2", "--queries", "photos", *options, *QUICK, "--json").stdout)
    assert list(table) == ["table", "rows", "notes"]
    assert table["table"] == 2
    rows = {row["documents"]: row for row in table["rows"] if row["system"] == "LexLIP"}
    assert list(rows) == ["top-4", "all"]
    for documents, topk in (("top-4", 4), ("all", 999)):
        alone = json.loads(lexlip("evaluate", "photos", "--topk", topk, "--json").stdout)
        assert (rows[documents]["t2i"], rows[documents]["i2t"]) == (alone["t2i"], alone["i2t"])
    assert rows["top-4"]["photo_bytes_by_the_papers_accounting"] == 12


def test_clip_a_split_and_markdown(lexlip: Run, tmp_path: Path) -> None:
    write_clip(tmp_path / "clip")
    write_karpathy(tmp_path / "scenes")
    source = ["--queries", "dataset.json", "--images", "scenes", "--split", "test"]
    options = ["--clip", "clip", "--topk", "8", "--synthetic-distractors", "20", "--threads", "2"]
    lines = lexlip("table", "2", *source, *options, *QUICK, "--markdown").stdout.splitlines()
    assert lines[1].startswith("| --- | --- | ---: |")
    cells = [line.strip("| ").split(" | ") for line in lines[2:6]]
    assert [row[0] for row in cells] == ["BM25", "CLIP, one by one", "CLIP, 256 together", "LexLIP"]
    assert "-" not in cells[1][:13]
    assert cells[3][1] == "top-8"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--queries", "nothing"], "nothing does not exist"),
        (["--queries", "photos", "--pool", "nothing"], "nothing does not exist"),
        (["--queries", "photos", "--model", "maxi"], "no model 'maxi': "),
        (["--queries", "photos", "--model", "cls"], "cls holds a dense model, not a lexlip one"),
        (["--queries", "photos", "--clip", "nowhere"], "transformers cannot read the CLIP model 'nowhere': "),
        (["--queries", "photos", "--split", "test"], "photos has no splits: "),
        (["--queries", "bare"], "no photo of bare has a caption: there is nothing to measure with"),
    ],
)
def test_what_is_missing(lexlip: Run, photos: Path, options: list[str], says: str) -> None:
    tiny_dense().save("cls")
    Path("bare").mkdir()
    (photos / "0.jpg").rename("bare/0.jpg")
    assert error(lexlip("table", "2", *options, *QUICK, code=2)).startswith(says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "Missing option '--queries'"),
        (
            ["--queries", "a", "--pool", "b", "--pool", "a"],
            "--pool a: the photos of --queries are in the pool",
        ),
        (["--queries", "a", "--topk", "0"], "'--topk': 0 is not in the range x>=1"),
        (["--queries", "a", "--synthetic-distractors", "-1"], "-1 is not in the range x>=0"),
        (["--queries", "a", "--markdown", "--json"], "--markdown or --json, one of the two."),
        (["--queries", "a", "mini"], "Got unexpected extra argument (mini)"),
    ],
)
def test_misuse(lexlip: Run, options: list[str], says: str) -> None:
    result = lexlip("table", "2", *options, code=2)
    assert says in result.stderr.splitlines()[-1]
    assert result.stdout == ""
