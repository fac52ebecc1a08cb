import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_index import error

Run = Callable[..., Any]


def test_json(lexlip: Run, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    result = lexlip("evaluate", "photos", "--json")
    report = json.loads(result.stdout)
    assert list(report) == ["images", "captions", "t2i", "i2t", "terms_image", "terms_text", "words@10"]
    assert (report["images"], report["captions"]) == (6, 6)
    for way in ("t2i", "i2t"):
        recalls = report[way]
        assert list(recalls) == ["R@1", "R@5", "R@10"]
        assert 0 <= recalls["R@1"] <= recalls["R@5"] <= recalls["R@10"] <= 100
    assert report["terms_image"] > 0
    assert report["terms_text"] > 0
    assert 0 <= report["words@10"] <= 1
    assert result.stderr.splitlines() == ["1 skipped:", "  bad.jpg: empty file"]


@pytest.mark.parametrize("engine", ["lucene", "exact"])
def test_text(lexlip: Run, photos: Path, engine: str) -> None:
    report = json.loads(lexlip("evaluate", "photos", "--json", "--engine", engine).stdout)
    lines = lexlip("evaluate", "photos", "--engine", engine).stdout.splitlines()
    assert lines[0] == f"6 images, 6 captions, {engine} engine, top-32"
    for line, name, way in zip(lines[1:3], ("text to image", "image to text"), ("t2i", "i2t"), strict=True):
        assert line.split("   ")[0].strip() == name
        assert [float(part.split()[1]) for part in line.split("   ")[1:]] == [
            round(value, 1) for value in report[way].values()
        ]
    assert lines[4] == f"  words@10 {report['words@10']:.3f}"
    assert not Path(".lexlip").exists()


def test_options_reach_the_measurement(lexlip: Run, photos: Path) -> None:
    whole = json.loads(lexlip("evaluate", "photos", "--json").stdout)
    words = json.loads(lexlip("evaluate", "photos", "--json", "--query-encoder", "words").stdout)
    assert words["terms_text"] < whole["terms_text"]
    assert words["terms_image"] == whole["terms_image"]
    for options in (["--topk", "1"], ["--query-topk", "1"], ["--quantization", "paper"], ["--workers", "0"]):
        assert json.loads(lexlip("evaluate", "photos", "--json", *options).stdout)["images"] == 6


def test_without_captions(lexlip: Run, photos: Path) -> None:
    for text in photos.glob("*.txt"):
        text.unlink()
    says = error(lexlip("evaluate", "photos", code=2))
    assert says == "no photo of photos has a caption: there is nothing to measure with"


def test_a_table_and_its_images(lexlip: Run, photos: Path) -> None:
    rows = "".join(f"{number}.jpg\ta dog\n{number}.jpg\ta cat\n" for number in range(3))
    Path("captions.tsv").write_text(rows)
    report = json.loads(lexlip("evaluate", "captions.tsv", "--images", "photos", "--json").stdout)
    assert (report["images"], report["captions"]) == (3, 6)
    assert "captions.tsv" in error(lexlip("evaluate", "captions.tsv", code=2))


def test_what_is_missing(lexlip: Run, photos: Path) -> None:
    assert error(lexlip("evaluate", "nothing", code=2)) == "nothing does not exist"
    assert error(lexlip("evaluate", "photos", "--model", "maxi", code=2)).startswith("no model 'maxi': ")
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"")
    assert "photos" in error(lexlip("evaluate", "photos", code=2))
