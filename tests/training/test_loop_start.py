"""Runs that start from a checkpoint: the best may be the start, or lie between the start and the end."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lexlip.config import Config, SourceConfig
from lexlip.errors import ConfigError, DataError
from lexlip.models.lexlip import LexLIP
from lexlip.training import loop
from lexlip.training.log import Log
from lexlip.training.loop import Run, pretrain
from lexlip.training.plan import plan
from lexlip.training.run_folder import best_validation
from lexlip.words.vocabulary import Vocabulary
from tests.training.run_folders import metrics
from tests.training.small_run import SMALL, with_data, write_captioned


@pytest.fixture
def going_on(finished: Path, tmp_path: Path) -> Config:
    """A run of six steps, with dropout, from the end of another."""
    optim = replace(SMALL.optim, epochs=2)
    return replace(SMALL, seed=6, init=str(finished / "last"), out=str(tmp_path / "run"), optim=optim)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def equal(a: Path, b: Path) -> bool:
    ours, theirs = weights(a), weights(b)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def with_recalls(patch: pytest.MonkeyPatch, *recalls: float) -> None:
    """Let validations find these mean recalls, one after another."""
    left, validate = iter(recalls), loop.validate

    def found(*arguments: Any) -> Any:
        ways = dict.fromkeys(("R@1", "R@5", "R@10"), next(left))
        return replace(validate(*arguments), t2i=ways, i2t=ways)

    patch.setattr(loop, "validate", found)


def test_a_start_that_nothing_beats_is_the_best(
    going_on: Config, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_recalls(monkeypatch, 50, 40, 50)
    run = pretrain(going_on)
    assert [row["step"] for row in metrics(run) if "val" in row] == [0, 5, 6]
    assert equal(run / "best", finished / "last")
    assert not equal(run / "last", finished / "last")
    assert best_validation(run).mean_recall == 50


def test_a_start_that_is_beaten_is_removed(going_on: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    with_recalls(monkeypatch, 50, 40, 50.5)
    run = pretrain(going_on)
    assert [folder.name for folder in (run / "checkpoints").iterdir()] == ["step-00000006"]
    assert (run / "best").resolve() == (run / "last").resolve()


def test_the_validation_of_the_start_changes_nothing_else(
    going_on: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it draws numbers, it has the losses and the end of a run without it, bit for bit."""
    validate = loop.validate

    def drawing(*arguments: Any) -> Any:
        torch.rand(3)
        return validate(*arguments)

    monkeypatch.setattr(loop, "validate", drawing)
    run = pretrain(going_on)
    monkeypatch.setattr(loop, "consider_start", lambda run: None)
    without = pretrain(replace(going_on, out=str(tmp_path / "without")))
    assert metrics(run)[1:] == metrics(without)
    assert equal(run / "last", without / "last")


def test_words_that_join_are_in_the_start(
    going_on: Config, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that the run trains on, not the checkpoint as it was."""
    model = LexLIP.from_pretrained(finished / "last")
    few = Vocabulary.from_words(model.vocabulary.words[:20], model.tokenizer)
    LexLIP(model.config, model.tokenizer, few).save(tmp_path / "before")
    started: list[dict[str, torch.Tensor]] = []
    train = loop.train

    def noted(run: Run) -> None:
        started.append({name: value.clone() for name, value in run.method.model.state_dict().items()})
        train(run)

    with_recalls(monkeypatch, 50, 40, 50)
    monkeypatch.setattr(loop, "train", noted)
    run = pretrain(replace(going_on, init=str(tmp_path / "before"), new_words=1))
    words = LexLIP.from_pretrained(run / "best").vocabulary.words
    assert words[:20] == few.words
    assert len(words) > 20
    best = weights(run / "best")
    assert all(torch.equal(best[name], value) for name, value in started[0].items())


def test_a_run_that_stopped_at_its_start_goes_on(
    going_on: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, and the start is validated once."""

    def stop(self: Log, number: int, *arguments: Any) -> None:
        raise KeyboardInterrupt

    finished = pretrain(replace(going_on, out=str(tmp_path / "finished")))
    with monkeypatch.context() as patch:
        patch.setattr(Log, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(going_on)
    run = pretrain(going_on, resume=True)
    assert metrics(run) == metrics(finished)
    assert all(equal(run / link, finished / link) for link in ("last", "best"))


def test_a_run_that_was_killed_at_its_start_begins_again(
    going_on: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the validation of the start was written, and before its checkpoint."""

    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain(going_on)
    assert [row["step"] for row in metrics(pretrain(going_on)) if "val" in row] == [0, 5, 6]


# ---- between the start and the end ----


def between(config: Config) -> Config:
    """Such a run looks there, too, and leaves the bag of words as it is."""
    optim = replace(config.optim, lr_scale={"bag_of_words": 0.0})
    return replace(config, interpolate=(0.25, 0.75), optim=optim)


def ways(run: Path) -> list[tuple[int, float | None]]:
    return [(row["step"], row.get("way")) for row in metrics(run) if "val" in row]


def test_the_best_weights_may_lie_between(
    going_on: Config, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the formula, (1 - way) start + way end; what was not trained is as it was, bit for bit."""
    with_recalls(monkeypatch, 50, 40, 50, 51, 52)
    run = pretrain(between(going_on))
    assert ways(run) == [(0, None), (5, None), (6, None), (6, 0.25), (6, 0.75)]
    assert best_validation(run).mean_recall == 52
    start, end, best = (weights(folder) for folder in (finished / "last", run / "last", run / "best"))
    for name, value in best.items():
        torch.testing.assert_close(value, 0.25 * start[name] + 0.75 * end[name])
        assert torch.equal(value, start[name]) or not name.startswith("bag_of_words.")
    assert not torch.equal(best["text_head.decoder"], end["text_head.decoder"])
    assert LexLIP.from_pretrained(run / "best").name == "small"
    assert not (run / "start").exists()
    assert len(list((run / "checkpoints").iterdir())) == 2


@pytest.mark.parametrize(("recalls", "best"), [((60, 40, 50), "start"), ((50, 40, 60), "end")])
def test_nothing_between_is_better(
    going_on: Config, finished: Path, monkeypatch: pytest.MonkeyPatch, recalls: tuple[float], best: str
) -> None:
    with_recalls(monkeypatch, *recalls, 55, 60)
    run = pretrain(between(going_on))
    assert equal(run / "best", finished / "last" if best == "start" else run / "last")
    assert not (run / "start").exists()


def test_the_end_is_that_of_a_run_that_does_not_look_between(going_on: Config, tmp_path: Path) -> None:
    run, other = pretrain(between(going_on)), replace(going_on, out=str(tmp_path / "other"))
    other = pretrain(replace(other, optim=between(going_on).optim))
    assert equal(run / "last", other / "last")
    assert [row for row in metrics(run) if "way" not in row] == metrics(other)


def test_a_run_that_stopped_between_goes_on(
    going_on: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, also if what it started from is no longer there."""
    finished = pretrain(replace(between(going_on), out=str(tmp_path / "finished")))
    before = shutil.copytree(going_on.init, tmp_path / "before")
    config = replace(between(going_on), init=str(before))
    consider = loop.consider

    def stop(run: Run, step: int, gradient: Any = None, way: float | None = None) -> bool:
        if way == 0.75:
            raise KeyboardInterrupt
        return consider(run, step, gradient, way)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "consider", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(config)
    shutil.rmtree(before)
    run = pretrain(config, resume=True)
    assert metrics(run) == metrics(finished)
    assert all(equal(run / link, finished / link) for link in ("last", "best"))
    assert pretrain(config, resume=True) == run
    assert metrics(run) == metrics(finished)


def test_where_nothing_lies_between() -> None:
    with pytest.raises(ConfigError, match="interpolate is for runs that start from a model: give one"):
        replace(SMALL, interpolate=(0.5,))
    with pytest.raises(ConfigError, match=r"interpolate is \[0\.5, 2\]; it must be between 0 and 1"):
        replace(SMALL, init="mini", interpolate=(0.5, 2))


# ---- what was gained and lost ----

OTHERS = (SourceConfig("scenes:7:77"),)


def last_lines(capsys: pytest.CaptureFixture[str], number: int) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "pretrain:" not in line][-number:]


def test_the_best_has_forgotten_a_point_at_most(
    going_on: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the start, step 5, the end and two between; a finished run says it again, and measures nothing."""
    with_recalls(monkeypatch, 50, 70, 60, 68.5, 55, 40, 52, 69.25, 54, 68.75)
    config = with_data(between(going_on), others=OTHERS)
    run = pretrain(config)
    expected = [
        f"{what}: mean recall {ways}, R@1 text to image {ways}, image to text {ways}"
        for what, ways in (
            ("gained on 8 drawn scenes of seed 9", "50.0 → 52.0"),
            ("in return, on 7 drawn scenes of seed 77", "70.0 → 69.2"),
        )
    ]
    assert last_lines(capsys, 2) == expected
    assert (run / "best").resolve().name == "step-00000006-way-0.25"
    assert best_validation(run).mean_recall == 52
    before = metrics(run)
    assert pretrain(config, resume=True) == run
    assert last_lines(capsys, 2) == expected
    assert metrics(run) == before


def test_a_run_that_gained_nothing_says_so(
    going_on: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_recalls(monkeypatch, 50, 40, 50)
    run = pretrain(going_on)
    gained, nothing, how = last_lines(capsys, 3)
    assert gained.startswith("gained on 8 drawn scenes of seed 9: mean recall 50.0 → 50.0,")
    assert nothing.startswith("no weights were better there, so the start is the best")
    assert f"lexlip package {run} FOLDER, then compare lexlip evaluate PHOTOS --model FOLDER with" in how


def test_other_photos_that_cannot_be_used(going_on: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.others is for runs that start from a model: give one"):
        with_data(SMALL, others=OTHERS)
    config = with_data(going_on, others=(SourceConfig(str(write_captioned(tmp_path / "others", [None]))),))
    with pytest.raises(DataError, match=r"has no captions to .* name other photos in data\.others"):
        pretrain(config)
    assert [what for what in plan(config).missing if what.startswith("data.others: ")] != []
