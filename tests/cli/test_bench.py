"""`lexlip bench` without `bench engine`, which has a file of its own."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lexlip.bench import training_step
from lexlip.bench.response import STAGES
from tests.bench.tiny_size import TINY
from tests.cli.conftest import Run, error
from tests.search.indexes import Indexed
from tests.server.conftest import library  # noqa: F401
from tests.server.serving import serving

QUICK = ("--seconds", 0.5, "--clients", 2, "--rate", 10, "-k", 3)
SMALL = ("--batch", 4, "--terms", 20, "--rounds", 2, "--device", "cpu", "--threads", 1)


def bench(lexlip: Run, *arguments: object) -> dict[str, Any]:
    """What a benchmark prints with --json."""
    result = lexlip("bench", *arguments, "--json")
    assert result.stderr == ""  # a progress bar is for terminals
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def error_of_usage(lexlip: Run, *arguments: object) -> str:
    """The last line of a benchmark that refuses what it is given."""
    result = lexlip("bench", *arguments, code=2)
    assert result.stdout == ""
    return str(result.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *(("encode photos", "--photos", 0), ("encode photos", "--rounds", 0)),
        *(("encode photos", "--workers", -1), ("train", "--batch", 1), ("train", "--captions", 0)),
        *(("train", "--rounds", 0), ("train", "--threads", 0), ("train", "--terms", 0)),
    ],
)
def test_numbers_that_are_too_small(lexlip: Run, command: str, option: str, value: int) -> None:
    said = error_of_usage(lexlip, *command.split(), option, value)
    assert f"'{option}': {value} is not in the range x>={value + 1}" in said


def test_help_says_what_is_measured(lexlip: Run) -> None:
    assert {"engine", "plot", "latency", "encode", "train", "serve"} <= set(
        lexlip("bench", "--help").stdout.split()
    )
    assert "--compile" in lexlip("bench", "train", "--help").stdout


# ---- encode ----


@pytest.mark.slow
def test_encoding(lexlip: Run, photos: Path) -> None:
    (photos / "bad.jpg").write_text("no photo")
    report = bench(lexlip, "encode", "photos", "--rounds", 1, "--workers", 1)
    conditions = report["conditions"]
    wanted = {"model": "mini", "pixels": 32, "photos": 6, "unreadable": 1, "photo_width": 96, "workers": 1}
    assert wanted.items() <= conditions.items()
    assert {"cpu", "cores", "threads", "torch", "batch", "rounds", "photo_height", "photo_kb"} < {*conditions}
    assert list(report["loops"]) == ["index", "plain"]
    for row in report["loops"].values():
        assert 0 <= row["busy"] < 1.1  # the clock of processors ticks ten milliseconds
        rates = row["photos_per_s"]
        assert 0 < rates["least"] == rates["median"] == rates["most"]
    assert list(report["ratio"]) == ["median", "least", "most"]


@pytest.mark.usefixtures("in_this_process")
def test_encoding_as_text(lexlip: Run, photos: Path) -> None:
    result = lexlip("bench", "encode", "photos", "--photos", 3, "--rounds", 2, "--workers", 0)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 photos of 96 x 96 pixels (")
    assert lines[1] == "mini: vit_tiny_patch16_224 at 32 pixels on cpu, batches of 8"
    assert ", workers: 0, rounds: 2, torch " in lines[2]
    assert [line[:26].strip() for line in lines[4:]] == ["lexlip index", "plain, as with open_clip", "ratio"]
    assert result.stderr == ""


@pytest.mark.usefixtures("in_this_process")
def test_what_cannot_be_encoded(lexlip: Run, photos: Path) -> None:
    assert error(lexlip("bench", "encode", "nowhere", code=2)).startswith("nowhere ")
    assert error(lexlip("bench", "encode", "photos", "--model", "maxi", code=2)).startswith("no model 'maxi'")
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"no photo")
    says = "no photo in photos can be read (6 tried)"
    assert error(lexlip("bench", "encode", "photos", "--json", code=2)) == says


# ---- latency ----


@pytest.fixture
def with_index(lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, where .lexlip has the six photos, and warming up takes no time."""
    monkeypatch.setattr("lexlip.bench.clocks.WARM_UP", 0.01)
    lexlip("index", "photos", "--topk", 4)
    return lexlip


def test_latency(with_index: Run) -> None:
    report = bench(with_index, "latency", "photos", "--query-topk", 2)
    assert report["conditions"]["documents"] == report["conditions"]["queries"] == 6
    assert list(report["encoders"]) == ["network", "words"]
    assert [tuple(stages) for stages in report["encoders"].values()] == [("terms", *STAGES)] * 2


def test_latency_as_text(with_index: Run) -> None:
    lines = with_index("bench", "latency", "photos", "--docs", 50, "--queries", 3).stdout.splitlines()
    assert lines[0] == "50 documents, 3 queries of up to 24 words, k = 10"
    assert [line.split()[0].strip(",") for line in lines[2:]] == ["network", *STAGES, "words", *STAGES]


def test_cold_starts(with_index: Run, model_folder: Path) -> None:
    how = ("--model", model_folder)
    report = bench(with_index, "latency", "photos", "--cold", 2, *how)
    assert report["conditions"]["documents"] == 6
    for name in ("search", "import"):
        assert 0 < report[name]["min"] <= report[name]["p50"] <= report[name]["max"]
    assert report["ratio"] == pytest.approx(report["search"]["p50"] / report["import"]["p50"])
    lines = with_index("bench", "latency", "photos", "--cold", 1, *how).stdout.splitlines()
    assert lines[0] == "1 start of a process, 6 documents"
    assert [line.split()[0] for line in lines[2:]] == ["lexlip", "numpy,", "ratio"]


def test_what_has_no_latency(lexlip: Run, photos: Path) -> None:
    assert error(lexlip("bench", "latency", "photos", code=2)).startswith("there is no index at .lexlip")
    lexlip("index", "photos")
    for caption in photos.glob("*.txt"):
        caption.unlink()
    assert "caption" in error(lexlip("bench", "latency", "photos", code=2))


# ---- train ----


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(training_step.SIZES, "mini", TINY)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("tiny", "forked")
@pytest.mark.slow
def test_training(lexlip: Run) -> None:
    report = bench(lexlip, "train", *SMALL, "--precision", "fp32", "--captions", 1)
    wanted = {"size": "mini", "batch": 4, "captions": 1, "precision": "fp32", "device": "cpu", "threads": 1}
    assert wanted.items() <= report["conditions"].items()
    assert report["conditions"]["rounds"] == 2
    assert list(report["variants"]) == ["encoders", "naive", "lean"]
    for row in report["variants"].values():
        assert list(row) == ["step_ms", "samples_per_s", "peak_mb", "ratio"]
        assert all(value > 0 for value in row.values())


@pytest.mark.usefixtures("tiny", "in_this_process")
def test_training_as_text(lexlip: Run) -> None:
    lines = lexlip("bench", "train", *SMALL, "--precision", "bf16").stdout.splitlines()
    assert lines[0] == "mini, 4 photos x 2 captions, V = 300"
    assert lines[1].split()[1:4] == ["words", "an", "image,"]
    assert lines[2] == "bf16 on cpu, threads: 1, rounds: 2"
    assert lines[3].split("  ")[-1].strip() == "peak MB"
    assert [line.split()[0] for line in lines[4:]] == ["encoders", "naive", "lean"]
    assert lines[4].split()[2] == "1.000"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--size", "huge"], "'huge' is not one of 'mini', 'base'"),
        (["--precision", "fp8"], "'fp8' is not one of 'auto', 'bf16', 'fp16', 'fp32'"),
        (["--terms", "300"], "300 terms are too many for 300 words"),
        (["--config", "mini.yaml"], "--config needs --source"),
        (["--device", "tpu"], "device 'tpu' cannot be used here"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_steps_that_cannot_be_measured(lexlip: Run, arguments: list[str], says: str) -> None:
    assert says in error_of_usage(lexlip, "train", *arguments)


@pytest.mark.usefixtures("tiny", "in_this_process")
def test_what_a_core_decodes(lexlip: Run, photos: Path) -> None:
    config = str(Path(__file__).parents[2] / "configs" / "cc4.3m-phase1.yaml")
    source = ("--source", photos)
    report = bench(lexlip, "train", *SMALL, *source, "--config", config)
    decoding = report["decoding"]
    assert (decoding["photos"], decoding["randaugment"]) == (6, [2, 9])
    assert list(decoding["photos_per_s_and_core"]) == list(decoding["cores"]) == ["224", "384"]
    eaten = report["variants"]["lean"]["samples_per_s"]
    for pixels, rate in decoding["photos_per_s_and_core"].items():
        assert decoding["cores"][pixels] == math.ceil(eaten / rate)
    lines = lexlip("bench", "train", *SMALL, *source).stdout.splitlines()
    assert lines[-4] == "6 photos decoded and augmented"
    says = r"at 224 pixels a core gives \d+ photos/s: a step of 4 photos needs \d+ cores?$"
    assert re.match(says, lines[-3])
    assert lines[-1] == "(the lean step above, of 32 pixels)"


# ---- serve ----


def test_a_server_under_load(lexlip: Run, library: Indexed) -> None:  # noqa: F811
    report = bench(lexlip, "serve", "--index", library.words, *QUICK)
    assert report["conditions"]["documents"] == 19
    assert report["start_s"] > 0 < report["first_ms"]
    assert report["memory_mb"] > 50
    for what in ("searches", "thumbnails"):
        assert list(report[what]) == ["closed", "open"]
        for values in report[what].values():
            assert 0 < values["p50"] <= values["p95"] <= values["p99"] <= values["max"]
            assert values["rate"] > 0
            assert values["errors"] == {}


def test_a_server_that_runs_as_text(lexlip: Run, library: Indexed) -> None:  # noqa: F811
    with serving(library.bm25) as server:
        lines = lexlip("bench", "serve", "--url", server.client.base_url, *QUICK).stdout.splitlines()
    assert lines[0].startswith("18 photos, k = 3; ")
    assert lines[1].split() == ["milliseconds", "p50", "p95", "p99", "max", "per", "s", "errors"]
    assert [line.partition(",")[0] for line in lines[2:]] == ["searches"] * 2 + ["thumbnails"] * 2


def test_what_is_no_server(lexlip: Run, tmp_path: Path) -> None:
    said = error(lexlip("bench", "serve", "--index", tmp_path / "none", code=2))
    assert said.startswith("the server did not start: there is no index at ")
    said = error(lexlip("bench", "serve", "--url", "http://127.0.0.1:9", code=2))
    assert "does not answer" in said
    assert "leave it out" in error(lexlip("bench", "serve", "--url", "x", "--index", "y", code=2))
