import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner, Result

from lexlip.bench import training_step as train
from lexlip.cli import main
from lexlip.cli.bench import bench
from tests.bench.tiny_size import TINY

SMALL = ["train", "--batch", "4", "--terms", "20", "--rounds", "2", "--device", "cpu", "--threads", "1"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(type(main)("lexlip", commands={"bench": bench}), ["bench", *arguments])


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(train.SIZES, "mini", TINY)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting others takes seconds."""
    monkeypatch.setattr(train, "in_own_process", lambda function, *given: function(*given))


def test_json() -> None:
    result = run(*SMALL, "--precision", "fp32", "--captions", "1", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    report = json.loads(result.stdout)
    wanted = {"size": "mini", "batch": 4, "captions": 1, "precision": "fp32", "device": "cpu", "threads": 1}
    assert wanted.items() <= report["conditions"].items()
    assert report["conditions"]["rounds"] == 2
    assert list(report["variants"]) == ["encoders", "naive", "lean"]
    for row in report["variants"].values():
        assert list(row) == ["step_ms", "samples_per_s", "peak_mb", "ratio"]
        assert all(value > 0 for value in row.values())


@pytest.mark.usefixtures("in_this_process")
def test_text() -> None:
    result = run(*SMALL, "--precision", "bf16")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
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
        (["--batch", "1"], "'--batch': 1 is not in the range x>=2"),
        (["--captions", "0"], "'--captions': 0 is not in the range x>=1"),
        (["--precision", "fp8"], "'fp8' is not one of 'auto', 'bf16', 'fp16', 'fp32'"),
        (["--rounds", "0"], "'--rounds': 0 is not in the range x>=1"),
        (["--threads", "0"], "'--threads': 0 is not in the range x>=1"),
        (["--terms", "0"], "'--terms': 0 is not in the range x>=1"),
        (["--terms", "300"], "300 terms are too many for 300 words"),
        (["--config", "mini.yaml"], "--config needs --source"),
        (["--device", "tpu"], "device 'tpu' cannot be used here"),
    ],
)
def test_bad_options(arguments: list[str], says: str) -> None:
    result = run("train", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""


def test_help_says_what_is_measured() -> None:
    assert isinstance(bench, click.Group)
    assert "train" in run("--help").stdout
    assert "--compile" in run("train", "--help").stdout


@pytest.mark.usefixtures("in_this_process")
def test_what_a_core_decodes(photos: Path) -> None:
    config = str(Path(__file__).parents[2] / "configs" / "cc4.3m-phase1.yaml")
    source = ["--source", str(photos)]
    report = json.loads(run(*SMALL, *source, "--config", config, "--json").stdout)
    decoding = report["decoding"]
    assert (decoding["photos"], decoding["randaugment"]) == (6, [2, 9])
    assert list(decoding["photos_per_s_and_core"]) == list(decoding["cores"]) == ["224", "384"]
    eaten = report["variants"]["lean"]["samples_per_s"]
    for pixels, rate in decoding["photos_per_s_and_core"].items():
        assert decoding["cores"][pixels] == math.ceil(eaten / rate)
    lines = run(*SMALL, *source).stdout.splitlines()
    assert lines[-4] == "6 photos decoded and augmented"
    says = r"at 224 pixels a core gives \d+ photos/s: a step of 4 photos needs \d+ cores?$"
    assert re.match(says, lines[-3])
    assert lines[-1] == "(the lean step above, of 32 pixels)"
