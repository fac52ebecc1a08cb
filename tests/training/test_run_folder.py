import shutil
from pathlib import Path

import pytest

from lexlip.errors import ConfigError, DataError
from lexlip.training.run_folder import (
    best_validation,
    lineage,
    read_config,
    run_of,
    training_of,
)
from tests.training.run_folders import validation, write_run


def test_the_run_of_a_checkpoint(tmp_path: Path, model_folder: Path) -> None:
    run = write_run(tmp_path / "run", {}, [1], model_folder)
    for place in (run, run / "best", run / "checkpoints" / "step-00000010"):
        assert run_of(place).resolve() == run
    copy = shutil.copytree(run, tmp_path / "copy")  # without links
    assert run_of(copy / "best") == copy
    with pytest.raises(DataError, match="mini is neither a training run nor one of its checkpoints"):
        run_of("mini")


def test_names_of_nothing_here_are_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", {})
    (run / "notes").mkdir()
    monkeypatch.chdir(run)
    assert [training_of([name]) for name in ("mini", "bm25", "notes")] == [None] * 3
    monkeypatch.chdir(run / "notes")
    (tmp_path / "config.yaml").write_text("server: of something else")
    assert training_of(["mini"]) is None


def test_the_best_validation_is_the_first_of_the_highest(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {}, [10, 30, 30, 20])
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace("0.25", "0.75")  # words@10 at step 20
    (run / "metrics.jsonl").write_text("".join(lines))
    best = best_validation(run)
    assert (best.mean_recall, best.words_at_10, best.terms_kept, best.captions) == (30, 0.75, 20, 50)
    assert best.t2i == validation(30)["t2i"]


def test_a_run_without_validations(tmp_path: Path) -> None:
    says = r"has no validation results \(metrics.jsonl\); name a run's folder, or give photos"
    with pytest.raises(DataError, match=says):
        best_validation(write_run(tmp_path / "run", {}))
    with pytest.raises(DataError, match=says):
        best_validation(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=says):
        best_validation(tmp_path / "file")


@pytest.mark.parametrize("line", ["{", '{"val": 3}', '{"val": {"images": 3}}', "3"])
def test_a_damaged_log(tmp_path: Path, line: str) -> None:
    run = write_run(tmp_path / "run", {}, [10])
    (run / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"metrics.jsonl is damaged: "):
        best_validation(run)


def test_phases_are_followed_back(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_run(tmp_path / "one", {"name": "one", "init": "gone"}, [1], model_folder)
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "two", {"name": "two", "init": "one/best"}, [1], model_folder)
    third = write_run(tmp_path / "three", {"name": "three", "init": f"{tmp_path}/two"}, [1])
    found = lineage(third)
    assert ([config.name for config in found.configs], found.origin) == (["three", "two", "one"], "gone")
    shutil.rmtree(first)
    assert lineage(third).origin == "one/best"
    assert lineage(write_run(tmp_path / "alone", {"name": "alone"})).origin is None


def test_a_run_that_leads_back_to_itself(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"init": str(tmp_path / "run")})
    found = lineage(run)
    assert (len(found.configs), found.origin) == (1, str(run))


def test_configs_that_cannot_be_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {})
    (run / "config.yaml").write_text("optim: {lrr: 1}")
    with pytest.raises(ConfigError, match=r"run/config.yaml: unknown config key optim.lrr; did you mean"):
        read_config(run)
    (run / "config.yaml").write_text("[")
    with pytest.raises(ConfigError, match=r"^\S*run/config.yaml is not YAML"):
        read_config(run)


def test_minutes_are_photos_by_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 steps of 64 photos at 32 a second, 10 more at 64, and 5 after the last line."""
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "run", {"optim": {"batch": 64}})
    lines = [
        '{"step": 20, "samples_per_s": 32.0}',
        '{"step": 20, "val": {}}',
        '{"step": 30, "samples_per_s": 64.0}',
        '{"step": 35, "val": {}}',
    ]
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    training = training_of([run])
    assert training.steps == 35
    assert training.minutes == pytest.approx((20 * 64 / 32 + 15 * 64 / 64) / 60)
    assert training_of([run, run]) == training
    assert lineage(run).runs == [run]
    second = write_run(tmp_path / "second", {"init": "run/best", "optim": {"batch": 64}})
    (second / "metrics.jsonl").write_text('{"step": 60, "samples_per_s": 64.0}\n')
    assert training_of(["run", "second"]) == training_of(["second"])
    both = training_of(["second"])
    assert (both.steps, both.minutes) == (95, pytest.approx(training.minutes + 1))


def test_minutes_that_nobody_knows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"init": "elsewhere/best"})
    assert training_of([run]) is None
    assert training_of(["mini"]) is None
    run = write_run(tmp_path / "damaged", {})
    (run / "metrics.jsonl").write_text('{"loss": 1}\n')
    with pytest.raises(DataError, match=r"metrics.jsonl is damaged"):
        training_of([run])
