import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig, SourceConfig
from lexlip.config_files import DEFAULT_CONFIG, load_config, load_phases, to_dict
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.training.log import Log
from lexlip.training.loop import pretrain
from lexlip.training.run_folder import is_finished
from lexlip.training.step import SkippedStep, train_step
from tests.tiny import TINY, WITHOUT_DROPOUT, tiny_photos
from tests.training.run_folders import metrics
from tests.training.small_run import (
    DENSE,
    PHASE_1,
    SMALL,
    STEPS,
    WITH_DECODERS,
    WITH_QUEUES,
    with_data,
    write_captioned,
)

KILLED = """
import json, os, signal, sys
from lexlip.config import Config
from lexlip.config_files import from_dict
from lexlip.training import loop
from lexlip.training.log import Log

step = Log.step
for config, last in json.loads(sys.argv[1]):
    def step_and_die(self, number, *arguments):
        step(self, number, *arguments)
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)
    Log.step = step_and_die
    child = os.fork()
    if not child:
        loop.pretrain(from_dict(Config, config))
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""


def check_same(run: Path, finished: Path) -> None:
    """Both runs logged the same numbers and ended with the same weights, keys and queues, bit for bit."""
    assert metrics(run) == metrics(finished)
    for link in ("last", "best"):
        assert (run / link).resolve().name == (finished / link).resolve().name
        for file in ("model", "left_behind", "optimizer"):
            ours, theirs = (load_file(r / link / f"{file}.safetensors") for r in (run, finished))
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("stopped_at", [4, 6])
def test_a_stopped_run_goes_on_bit_for_bit(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    def stop(self: Log, number: int, *arguments: Any) -> None:
        log_step(self, number, *arguments)
        if number > stopped_at:
            raise KeyboardInterrupt

    log_step, config = Log.step, replace(SMALL, out=str(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(Log, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(config)
    check_same(pretrain(config, resume=True), finished)


KILLED_RUNS = {  # and the step after which each is killed; the newest checkpoint is an earlier one
    "another process reads": (with_data(SMALL, workers=1), 11),
    "phase 1": (WITH_DECODERS, 6),
    "phase 2": (WITH_QUEUES, 7),
    "dense": (DENSE, 6),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that were killed."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        (to_dict(replace(config, out=str(folder / name))), last)
        for name, (config, last) in KILLED_RUNS.items()
    ]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(runs)],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", KILLED_RUNS)
@pytest.mark.slow
def test_a_killed_run_goes_on_bit_for_bit(name: str, killed: Path, finished: Path, tmp_path: Path) -> None:
    """Also with another process that reads, and with decoders, keys and queues."""
    config, last = KILLED_RUNS[name]
    assert len([row for row in metrics(killed / name) if "val" not in row]) == last
    if name != "another process reads":
        finished = pretrain(replace(config, out=str(tmp_path / "finished")))
    check_same(pretrain(replace(config, out=str(killed / name)), resume=True), finished)
    left_behind = load_file(finished / "last" / "left_behind.safetensors")
    if config.objective.queue:
        assert int(left_behind["image_queue.count"]) == 8 * STEPS  # one enqueue a step, none in validation
        assert int(left_behind["text_queue.count"]) == 2 * 8 * STEPS
    if config.objective.decodes:
        assert any(name.startswith("text_decoder.") for name in left_behind)


LEARNING = Config(
    name="learning",
    validate_every=1000,
    checkpoint_every=1000,
    log_every=4,
    data=DataConfig((SourceConfig("scenes:640:0"),), (SourceConfig("scenes:100:9"),), workers=0),
    model=replace(
        TINY,
        image=replace(TINY.image, options={**TINY.image.options, "embed_dim": 64, "depth": 2}, size=48),
        text=replace(TINY.text, options={**TINY.text.options, "hidden_size": 64, "intermediate_size": 128}),
    ),
    objective=ObjectiveConfig(anchor_contrastive=0.5, anchor_words=0.5),
    optim=OptimConfig(epochs=3, batch=32, lr=2e-3, precision="fp32"),
)


def test_a_run_learns_to_describe_scenes_it_has_never_seen(tmp_path: Path) -> None:
    run = pretrain(replace(LEARNING, out=str(tmp_path / "run")))
    *steps, last = metrics(run)
    first, final = (sum(row["loss"] for row in rows) / len(rows) for rows in (steps[:5], steps[-5:]))
    assert final < 0.8 * first
    chance = (1 + 5 + 10) / 3  # mean of R@1, R@5 and R@10 among 100 photos
    recalls = [*last["val"]["t2i"].values(), *last["val"]["i2t"].values()]
    assert sum(recalls) / 6 > 4 * chance
    assert last["val"]["words@10"] > 0.2


@pytest.mark.slow
def test_the_experiment_that_runs_without_a_config(tmp_path: Path) -> None:
    """A few minutes; scenes.yaml says what it reaches."""
    run = pretrain(load_phases(DEFAULT_CONFIG, [f"out={tmp_path / 'run'}"]))
    reached = metrics(run)[-1]["val"]
    assert reached["t2i"]["R@1"] > 30  # chance is 0.25
    assert reached["i2t"]["R@1"] > 30
    assert reached["words@10"] > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning", "ignore::FutureWarning")
def test_compiled_encoders_learn_the_same(tmp_path: Path) -> None:
    """Some minutes, most of them compiling."""
    config = replace(SMALL, model=WITHOUT_DROPOUT, optim=replace(SMALL.optim, epochs=1, precision="fp32"))
    plain, compiled = (
        pretrain(replace(config, out=str(tmp_path / str(on)), optim=replace(config.optim, compile=on)))
        for on in (False, True)
    )
    ours, theirs = ([row["loss"] for row in metrics(run) if "val" not in row] for run in (compiled, plain))
    assert len(ours) == 3
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert LexLIP.from_pretrained(compiled / "best").encode_text(["a red circle"]).nnz > 0


LOGGED = "contrastive flops_image flops_text anchor_contrastive anchor_words loss terms_image terms_text"
MEASURED = "images captions t2i i2t terms_image terms_text terms_kept words@10 words@10_chance words@10_human"


def test_what_a_run_leaves(finished: Path) -> None:
    assert load_config(finished / "config.yaml") == replace(SMALL, out=str(finished))
    rows = metrics(finished)
    steps, validations = ([row for row in rows if ("val" in row) == has] for has in (False, True))
    assert [row["step"] for row in steps] == list(range(1, STEPS + 1))
    assert [row["step"] for row in validations] == [5, 10, 12]
    assert all(set(row) == {"step", "lr", "grad", *LOGGED.split()} for row in steps)
    assert all(math.isfinite(value) for row in steps for value in row.values())
    assert set(rows[-1]["val"]) == {*MEASURED.split(), "short_queries", "mean_recall"}
    best = max(
        validations, key=lambda row: sum(v for way in ("t2i", "i2t") for v in row["val"][way].values())
    )
    assert (finished / "best").resolve().name == f"step-{best['step']:08d}"
    assert (finished / "last").resolve().name == f"step-{STEPS:08d}"
    assert LexLIP.from_pretrained(finished / "best").name == "small"


def test_what_may_be_resumed(finished: Path, tmp_path: Path) -> None:
    """A finished run, which is left as it is; not one of another config, and not what is not there."""
    before, config = metrics(finished), replace(SMALL, out=str(finished))
    assert pretrain(config, resume=True) == finished
    assert metrics(finished) == before
    with pytest.raises(ConfigError, match="holds a run already; go on with --resume"):
        pretrain(config)
    others = [{"seed": 6}]
    others += [
        {"objective": replace(SMALL.objective, **c)} for c in (PHASE_1, {"queue": 21}, {"contrastive": 0.5})
    ]
    for changes in others:
        with pytest.raises(ConfigError, match=r"config\.yaml differs from this config"):
            pretrain(replace(config, **changes), resume=True)
    with pytest.raises(ConfigError, match="there is nothing to resume in"):
        pretrain(replace(SMALL, out=str(tmp_path / "run")), resume=True)
    assert not (tmp_path / "run").exists()


def test_an_unreadable_photo_is_reported_and_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_captioned(tmp_path, ["photo of a red cat", "photo of a red dog"] * 4, broken=[3])
    config = replace(
        SMALL, out=str(tmp_path / "run"), optim=replace(SMALL.optim, epochs=1, batch=4, micro_batch=None)
    )
    photos = (SourceConfig(str(tmp_path)),)
    pretrain(with_data(config, train=photos, val=photos))
    assert f"skipped {tmp_path}/3.jpg: not an image" in capsys.readouterr().err


@pytest.mark.parametrize("failures", [2, 10], ids=["some steps", "the whole run"])
def test_a_run_whose_photos_cannot_be_read_does_not_end_as_if_it_were_trained(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may have been taken away: its steps are not lost, as the run has not come to its end."""
    monkeypatch.setattr("lexlip.training.loop.FAILURES", failures)
    monkeypatch.setattr("lexlip.training.loop.train_step", lambda *_: SkippedStep.NO_PHOTO)
    config = replace(SMALL, out=str(tmp_path / "run"), optim=replace(SMALL.optim, steps=5))
    number = min(failures, 5)
    with pytest.raises(
        DataError, match=f"could be read in {number} steps in a row, the last of them {number};"
    ):
        pretrain(config)
    assert not is_finished(tmp_path / "run")


def test_a_gpu_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(*arguments: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 9 GiB.")

    monkeypatch.setattr("lexlip.training.loop.train_step", step)
    with pytest.raises(ConfigError, match=r"^the GPU's memory is too small for a step; lower optim\.micro_b"):
        pretrain(replace(SMALL, out=str(tmp_path / "run")))


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.objectives.losses.align", lambda texts, _: texts.sum() * math.nan)
    monkeypatch.setattr("lexlip.training.loop.FAILURES", 2)
    with pytest.raises(ModelError, match="not finite in 2 steps in a row, the last of them 2; start again"):
        pretrain(replace(SMALL, out=str(tmp_path / "run"), objective=ObjectiveConfig(anchor_align=1.0)))


@pytest.mark.parametrize("config", [SMALL, WITH_QUEUES], ids=["in the batch", "with queues"])
def test_a_step_without_a_finite_gradient_changes_nothing(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a run ends with the weights and queues of a run that left the step out."""
    config = replace(config, model=WITHOUT_DROPOUT)

    def run(name: str, third_step: Callable[..., object]) -> Path:
        calls = itertools.count(1)

        def step(*arguments: Any) -> object:
            return (third_step if next(calls) == 3 else train_step)(*arguments)

        monkeypatch.setattr("lexlip.training.loop.train_step", step)
        return pretrain(replace(config, out=str(tmp_path / name)))

    def broken(*arguments: Any) -> object:
        with monkeypatch.context() as patch:
            patch.setattr("lexlip.objectives.losses.flops", lambda mean: mean.sum() * math.nan)
            return train_step(*arguments)

    skipped = run("skipped", broken)
    assert "step      3  skipped: its gradient is not finite" in capsys.readouterr().err
    left_out = run("left-out", lambda *_: SkippedStep.NO_PHOTO)
    for file in ("model", "left_behind", "optimizer"):
        found, expected = (load_file(r / "last" / f"{file}.safetensors") for r in (skipped, left_out))
        assert all(tensor.isfinite().all() for tensor in found.values())
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_training_goes_on_at_another_size(finished: Path, tmp_path: Path) -> None:
    image = replace(SMALL.model.image, size=48)
    config = replace(
        SMALL,
        out=str(tmp_path / "run"),
        init=str(finished / "best"),
        model=replace(SMALL.model, image=image),
        data=replace(SMALL.data, sizes=(48, 32)),
        optim=replace(SMALL.optim, epochs=2),
    )
    run = pretrain(config)
    assert len([row for row in metrics(run) if "val" not in row]) == 6
    saved = LexLIP.from_pretrained(run / "last")
    assert saved.config.image.size == 48
    assert saved.encode_image(tiny_photos(2, 48)).shape[0] == 2
