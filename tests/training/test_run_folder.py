import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lexlip.config import Config
from lexlip.errors import ConfigError, DataError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import check_model
from lexlip.training import run_folder
from lexlip.training.run_folder import (
    best_validation,
    check_place,
    check_run,
    lineage,
    read_config,
    run_of,
    save_whole,
    training_of,
)
from tests.tiny import tiny_model
from tests.training.run_folders import validation, write_run


def test_the_run_of_a_checkpoint(tmp_path: Path, model_folder: Path) -> None:
    run = write_run(tmp_path / "run", {}, [1], model_folder)
    for place in (run, run / "best", run / "checkpoints" / "step-00000010"):
        assert run_of(place).resolve() == run
    copy = shutil.copytree(run, tmp_path / "copy")  # without links
    assert run_of(copy / "best") == copy
    with pytest.raises(DataError, match="mini is neither a training run nor one of its checkpoints"):
        run_of("mini")


def test_what_differs_is_named_when_a_run_cannot_go_on(tmp_path: Path, model_folder: Path) -> None:
    config = Config(out=str(tmp_path / "run"))
    write_run(tmp_path / "run", {"out": config.out}, [10], model_folder)
    (tmp_path / "run" / "last").mkdir()
    check_run(config, resume=True)
    changed = replace(config, optim=replace(config.optim, lr=0.5, batch=9))
    with pytest.raises(ConfigError, match=r"this config: optim\.batch is 64 there, and 9 here; resume with"):
        check_run(changed, resume=True)


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


def test_a_model_replaces_another_and_its_card_stays(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    check_place(folder)
    save_whole(tiny_model(), folder)
    (folder / "README.md").write_text("# mine\n")
    (folder / "honest_end.json").write_text("{}")  # of the weights before
    with pytest.raises(
        DataError, match=r"own holds more than a model, such as honest_end\.json: give another"
    ):
        check_place(folder, may_replace=True)
    (folder / "honest_end.json").unlink()
    check_place(folder, may_replace=True)
    other = tiny_model(seed=1)
    save_whole(other, folder, small=True)
    assert LexLIP.from_pretrained(folder).identity == other.identity
    assert (folder / "README.md").read_text() == "# mine\n"
    assert check_model(folder) == []
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_what_is_there_already(tmp_path: Path, model_folder: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    with pytest.raises(DataError, match=r"model exists already: give another folder"):
        check_place(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "empty", may_replace=True)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file exists already: give another folder"):
        check_place(tmp_path / "file", may_replace=True)
    (tmp_path / "model" / "checksums.txt").write_text("no sum\n")
    with pytest.raises(DataError, match=r"model holds more than a model, such as README\.md: give another"):
        check_place(tmp_path / "model", may_replace=True)
    with pytest.raises(DataError, match=r"^cannot write the model .*none/own: No such file or directory$"):
        check_place(tmp_path / "none" / "own")


def test_the_folder_one_is_in_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"^\. exists already"):
        check_place(Path(), may_replace=True)


@pytest.mark.parametrize("before", [False, True])
def test_an_interrupted_save_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    if before:
        save_whole(tiny_model(seed=1), tmp_path / "own")
    identity = LexLIP.from_pretrained(tmp_path / "own").identity if before else None

    def fail(*folders: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "replace_folder", fail)
    with pytest.raises(DataError, match=r"cannot write the model .*own: No space left on device"):
        save_whole(tiny_model(), tmp_path / "own")
    assert [path.name for path in tmp_path.iterdir()] == ["own"] * before
    assert not before or LexLIP.from_pretrained(tmp_path / "own").identity == identity
