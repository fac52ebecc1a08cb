import json
import sys
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import numpy as np
import pytest

from lexlip.bench import reproduction
from lexlip.bench.reproduction import declared
from lexlip.cli import main
from lexlip.cli.reproduce import TABLES
from lexlip.data import Scenes
from lexlip.measure.evaluate import evaluate
from lexlip.models.lexlip import LexLIP
from lexlip.search.engines.exact import engine_for
from tests.cli.conftest import Run, as_json, error
from tests.forks import run_forked
from tests.tiny import TINY

TINY_RUNS = [
    "data.train=[scenes:24:0]",
    "data.val=[scenes:8:9]",
    *("data.sample=null", "data.expected=null", "data.randaugment=[0, 0]", "data.workers=0", "device=cpu"),
    f"model.image.name={TINY.image.name}",
    *("model.image.weights=null", "model.image.size=32"),
    f"model.image.options={json.dumps(TINY.image.options)}",
    *("model.text.name=null", "model.text.tokenizer=captions"),
    f"model.text.options={json.dumps(TINY.text.options)}",
    *("optim.batch=8", "optim.micro_batch=null", "optim.epochs=0.2", "optim.precision=fp32"),
]
"""Turn a run of the paper into one of three steps on drawn scenes."""
ROW = ("reproduce", "table-3", "--row", "without phase 2", "--source", "scenes:8:3", "--seeds", 2)


def test_tables_are_those_that_are_declared() -> None:
    assert set(TABLES) == set(declared().tables)


def run_lexlip(arguments: list[str]) -> None:
    main(arguments, prog_name="lexlip")


def trained(command: list[str], stdout: int, check: bool) -> CompletedProcess[str]:
    """Run `python -m lexlip ...` in a process of its own, which has torch loaded."""
    assert (command[:3], stdout, check) == ([sys.executable, "-m", "lexlip"], 2, False)
    return CompletedProcess(command, run_forked(run_lexlip, command[3:]))


def test_a_row_of_the_paper_on_drawn_scenes(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds in two phases each; a second time nothing is trained."""
    monkeypatch.setattr(reproduction, "subprocess", SimpleNamespace(run=trained))
    result = lexlip(*ROW, *TINY_RUNS)
    folders = [
        Path(f"runs/reproduce/paper/{name}-{seed}")
        for seed in (0, 1)
        for name in ("full-phase1", "no-phase-2")
    ]
    assert result.stderr.count("lexlip pretrain configs/") == 4
    assert all((folder / "best").is_dir() for folder in folders)
    title, _, heading, line = result.stdout.splitlines()
    assert title.startswith("LexLIP's Table 3 (arXiv 2302.02908), ")
    assert title.endswith("; preset paper")
    assert heading.split() == [
        "photos",
        "seeds",
        *"T2I R@1 T2I R@5 T2I R@10 I2T R@1 I2T R@5 I2T R@10".split(),
    ]
    assert line.startswith("without phase 2  scenes:8:3      2  ")
    assert line.count("±") == 6

    expected = []
    for folder in folders[1::2]:
        model = LexLIP.from_pretrained(folder / "best")
        assert model.metric == "dot"
        report = evaluate(model, Scenes(8, seed=3), engine_for(model, "exact")[1], workers=0)
        expected.append([*report.t2i.values(), *report.i2t.values()])
    again = as_json(lexlip, *ROW, *TINY_RUNS)
    [row] = again["rows"]
    np.testing.assert_allclose(row["recalls"], expected)
    np.testing.assert_allclose(list(row["mean"].values()), np.mean(expected, axis=0))
    np.testing.assert_allclose(list(row["deviation"].values()), np.std(expected, axis=0, ddof=1))
    assert (row["paper"], row["runs"]) == (None, [str(folder) for folder in folders[1::2]])

    [cut] = as_json(lexlip, *ROW, *TINY_RUNS, "--topk", 2)["rows"]
    model = LexLIP.from_pretrained(folders[1] / "best")
    report = evaluate(model, Scenes(8, seed=3), engine_for(model, "exact")[1], 2, workers=0)
    np.testing.assert_allclose(cut["recalls"][0], [*report.t2i.values(), *report.i2t.values()])

    planned = as_json(lexlip, *ROW, *TINY_RUNS, "--dry-run")
    assert [run["state"] for run in planned["runs"]] == ["finished"] * 4
    other = error(lexlip(*ROW, *TINY_RUNS, "optim.lr=1", code=2))
    assert "differs from this config" in other


def test_what_is_planned(lexlip: Run) -> None:
    lines = lexlip("reproduce", "zero-shot", "--dry-run", "--seeds", 2).stdout.splitlines()
    assert lines[0] == "LexLIP's zero-shot model, CC4.2M, without fine-tuning; preset paper"
    assert lines[2].startswith("runs/reproduce/paper/cc4.2m-phase1-0: to train, about 28")
    assert lines[3].startswith(
        "  lexlip pretrain configs/cc4.3m-phase1.yaml preset=paper 'data.train=[data/cc3m, "
    )
    photos = "trains on data/cc3m, data/sbu, data/coco/train-*.tar; validates on data/coco/val-*.tar"
    assert lines[4] == f"  {photos}"
    assert "4 of 4 runs to train, " in "\n".join(lines)
    assert "missing: data.train: data/cc3m does not exist" in lines
    assert not any("init: " in line for line in lines)
    assert not Path("runs").exists()


def test_a_table_without_a_preset(lexlip: Run) -> None:
    """Its runs have their configs' own keys; nobody has computed their hours."""
    lines = lexlip("reproduce", "photos", "--dry-run", "--row", "without phase 2").stdout.splitlines()
    assert lines[0] == "Table 3 in small, on real photos"
    assert lines[2:4] == [
        "runs/reproduce/own/photos-phase1-0: to train",
        "  lexlip pretrain configs/mini-ablation.yaml prepared=runs/reproduce/prepared seed=0"
        " name=photos-phase1 out=runs/reproduce/own/photos-phase1-0",
    ]
    assert "2 of 2 runs to train" in lines
    assert any(line.startswith("missing: data.train") for line in lines)
    assert lines[-1] == "missing: to measure on (--source): data/flickr8k/val-0000.tar does not exist"
    given = lexlip("reproduce", "photos", "--dry-run", "--source", "scenes:9:0", "--row", "without phase 2")
    assert "to measure on" not in given.stdout


def test_a_run_that_was_interrupted(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[str, bool]] = []
    begun = ["scenes-no-l-self"]
    monkeypatch.setattr(
        reproduction.Run, "state", property(lambda run: "begun" if run.name in begun else "finished")
    )
    monkeypatch.setattr(reproduction.Run, "missing", lambda run, processes: [])
    monkeypatch.setattr(reproduction.Run, "train", lambda run, resume, _: trained.append((run.name, resume)))
    monkeypatch.setattr(reproduction, "measure_rows", lambda *given: iter(()))
    assert error(lexlip("reproduce", "scenes", code=2)) == (
        "the run runs/reproduce/fixed/scenes-no-l-self-0 was interrupted: go on with --resume"
    )
    lexlip("reproduce", "scenes", "--resume")
    assert trained == [("scenes-no-l-self", True)]


def test_bad_input(lexlip: Run) -> None:
    assert "'table-9' is not one of 'table-1', 'table-3'" in lexlip("reproduce", "table-9", code=2).stderr
    assert "it has LexLIP, without L_self" in lexlip("reproduce", "table-3", "--row", "no", code=2).stderr
    assert "'lr' is not of the form KEY=VALUE" in lexlip("reproduce", "scenes", "lr", code=2).stderr
    wordless = lexlip("reproduce", "table-1", "--topk", 32, code=2).stderr
    assert "'Dense CC4.3M, Flickr30k' has no words: leave out --topk, or give other rows by" in wordless
    for own in ("preset=paper", "seed=3", "out=runs", "init=mini"):
        assert (
            f"'{own}' is not for all runs: give --preset" in lexlip("reproduce", "scenes", own, code=2).stderr
        )
    assert error(lexlip("reproduce", "table-1", code=2)).startswith(
        "no tar matches data/flickr30k/test-*.tar"
    )
    missing = error(lexlip("reproduce", "table-3", "--source", "scenes:8:3", code=2))
    assert missing.startswith(
        "the run runs/reproduce/paper/full-phase1-0 cannot start: data.train: data/cc3m "
    )
    assert error(lexlip("reproduce", "scenes", "no.such=1", code=2)).startswith("unknown config key no; ")
