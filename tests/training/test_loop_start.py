"""Runs that start from a checkpoint: the start is validated, and is the best if nothing beats it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lexlip.config import Config
from lexlip.models.lexlip import LexLIP
from lexlip.training import loop
from lexlip.training.log import Log
from lexlip.training.loop import Run, pretrain
from lexlip.training.run_folder import best_validation
from lexlip.words.vocabulary import Vocabulary
from tests.training.run_folders import metrics
from tests.training.small_run import SMALL


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
