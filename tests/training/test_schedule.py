"""Runs that end by the clock: one that the test sets."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.config import Config, ObjectiveConfig, OptimConfig
from lexlip.errors import ConfigError
from lexlip.training import loop
from lexlip.training.checkpoint import State
from lexlip.training.distributed import Processes
from lexlip.training.log import Log
from lexlip.training.loop import pretrain
from lexlip.training.plan import plan
from lexlip.training.schedule import Schedule, set_learning_rate
from lexlip.training.step import make_optimizer
from tests.reference.losses import naive_learning_rate
from tests.tiny import tiny_method
from tests.training.run_folders import metrics
from tests.training.small_run import SMALL


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0.3), (7, 0.0), (1, 0.1), (20, 1.0), (100, 0.1)])
def test_learning_rate(steps: int, warmup: float) -> None:
    config = OptimConfig(lr=0.5, warmup=warmup, lr_scale={"text_encoder": 0.1})
    optimizer = make_optimizer(tiny_method(ObjectiveConfig()), config)
    rates = [set_learning_rate(optimizer, config, step, steps) for step in range(steps)]
    np.testing.assert_allclose(rates, [naive_learning_rate(0.5, s, steps, warmup) for s in range(steps)])
    assert max(rates) == pytest.approx(0.5)
    assert min(rates) > 0
    for group in optimizer.param_groups:
        assert group["lr"] == pytest.approx(rates[-1] * group["scale"])


@dataclass
class Clock:
    """What takes how many seconds, and what happened when."""

    step: float = 4.0
    validation: float = 10.0
    checkpoint: float = 3.0
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.happened: list[tuple[str, float]] = []  # what, and the seconds of the clock at its end

    def after(self, what: str) -> None:
        self.now += getattr(self, what)
        self.happened.append((what, self.now - 1000.0))

    def times(self, what: str) -> list[float]:
        return [time for name, time in self.happened if name == what]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("lexlip.training.schedule.monotonic", lambda: clock.now)

    def timed(what: str, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        done = real(*arguments, **named)
        clock.after(what)
        return done

    for name, what in (("train_step", "step"), ("validate", "validation"), ("save_checkpoint", "checkpoint")):
        monkeypatch.setattr(loop, name, partial(timed, what, getattr(loop, name)))
    return clock


def by_clock(out: Path, minutes: float, **changes: Any) -> Config:
    optim = replace(SMALL.optim, minutes=minutes, warmup=0.25)
    rarely = {"validate_every": 1000, "checkpoint_every": 1000}
    return replace(SMALL, **{"out": str(out), "optim": optim, **rarely, **changes})


def rates(run: Path) -> list[float]:
    return [row["lr"] for row in metrics(run) if "lr" in row]


def test_a_run_ends_in_time_with_a_finished_schedule(tmp_path: Path, clock: Clock) -> None:
    """Steps of 4 s until half-time, then 13 s for a validation and a checkpoint; as much is left then.

    And the time of another checkpoint, which may come before: the last step must be done by 104 s.
    """
    run = pretrain(by_clock(tmp_path / "run", minutes=2))
    assert clock.times("validation") == [70, 111]
    assert clock.times("checkpoint") == [73, 114]
    found = rates(run)
    assert len(found) == len(clock.times("step")) == 15 + (104 - 73) // 4
    for step, rate in enumerate(found[1:15], 1):
        assert rate == pytest.approx(naive_learning_rate(1e-3, step, 120 // 4, 0.25))
    for step, rate in enumerate(found[15:], 15):
        share = (73 + 4 * (step - 15)) / 104
        assert rate == pytest.approx(1e-3 * (1 - share) / 0.75, abs=6e-5)  # of whole steps
    assert json.loads((run / "last/trainer.json").read_text())["ended"]


def test_a_machine_that_becomes_slow_still_ends_in_time(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Log.step

    def slower(self: Log, step: int, *arguments: Any) -> None:
        if step == 10:
            clock.step = 9.0
        real(self, step, *arguments)

    monkeypatch.setattr(Log, "step", slower)
    run = pretrain(by_clock(tmp_path / "run", minutes=2, validate_every=10))
    assert 120 - clock.step - clock.checkpoint < clock.happened[-1][1] <= 120
    assert rates(run)[-1] < 0.2 * max(rates(run))


def test_flops_warm_up_follows_the_clock(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress, step = [], loop.Step

    def noted(*arguments: Any) -> Any:
        progress.append((arguments[3], clock.now - 1000))
        return step(*arguments)

    monkeypatch.setattr(loop, "Step", noted)
    pretrain(by_clock(tmp_path / "run", minutes=2, validate_every=5))
    for share, seconds in progress[6:]:  # a validation that is not the best, as the CPU rounds, saves nothing
        assert share == pytest.approx(seconds / (120 - 16), abs=0.03)


@pytest.mark.parametrize("at", [5, 18])
def test_an_interrupted_run_goes_on_with_the_time_that_is_left(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Of what the interruption took nothing counts, and nothing that came after the last checkpoint."""
    config = by_clock(tmp_path / "run", minutes=2, checkpoint_every=4)
    real = Log.step

    def interrupt(self: Log, step: int, *arguments: Any) -> None:
        if step == at:
            raise KeyboardInterrupt
        real(self, step, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pretrain(config)
    saved = json.loads((tmp_path / "run/last/trainer.json").read_text())
    clock.now += 5000
    resumed_at = clock.now
    clock.happened.clear()
    run = pretrain(config, resume=True)
    used = saved["seconds"] + clock.now - resumed_at
    assert 120 - clock.step - clock.checkpoint <= used <= 120
    found = rates(run)
    assert found[-1] < 0.1 * max(found)
    steps = [row["step"] for row in metrics(run) if "lr" in row]
    assert steps == list(range(1, len(steps) + 1))
    before, clock.step = metrics(run), 0.001
    assert pretrain(config, resume=True) == run  # it has ended, however fast steps are now
    assert metrics(run) == before


def test_checkpoints_by_the_clock(tmp_path: Path, clock: Clock) -> None:
    """Begun half a minute after the last one, whatever a step takes."""
    clock.step, clock.checkpoint = 5.0, 1.0
    optim = replace(SMALL.optim, steps=20)
    pretrain(by_clock(tmp_path / "fast", 1, optim=optim, checkpoint_minutes=0.5))
    assert clock.times("checkpoint") == [31, 62, 93, 114]  # each after 6 steps; the last after all
    clock.happened.clear()
    clock.now, clock.step = 1000.0, 45.0
    pretrain(by_clock(tmp_path / "slow", 1, optim=replace(optim, steps=3), checkpoint_minutes=0.5))
    assert clock.times("checkpoint") == [46, 92, 148]


def test_phases_have_a_time_each(tmp_path: Path, clock: Clock) -> None:
    one = by_clock(tmp_path / "one", minutes=2)
    two = replace(by_clock(tmp_path / "two", minutes=1.5), init=str(tmp_path / "one/best"))
    pretrain([one, two])
    first, second = (len(rates(tmp_path / name)) for name in ("one", "two"))
    assert clock.happened[-1][1] <= 120 + 90
    assert first > second > 5


def test_all_processes_go_by_the_clock_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own, which is faster, decides nothing."""
    config, readings = by_clock(Path(), minutes=1), list[list[float]]()
    now, steps = [0.0], range(1, 60)
    monkeypatch.setattr("lexlip.training.schedule.monotonic", lambda: now[0])

    def decisions(rank: int, speed: float) -> Iterator[tuple[int, bool, bool, bool]]:
        processes = Processes("cpu")
        processes.rank, processes.world, now[0] = rank, 2, 0.0
        sent = iter(list(readings))

        def total(values: list[float]) -> list[float]:
            if rank == 0:
                readings.append(values)
                return values
            assert values == [0.0]
            return next(sent)

        monkeypatch.setattr(processes, "sum", total)
        schedule = Schedule(config, None, State(), processes)
        for step in steps:
            now[0] += speed
            total_steps = schedule.steps(step - 1)
            schedule.count(step)
            validates = schedule.validates(step)
            yield total_steps, validates, schedule.saves(step), schedule.state.ended
            if validates:
                now[0] += 5 * speed
                schedule.validated()
            if schedule.state.ended:
                return

    first = list(decisions(0, 2.0))
    assert list(decisions(1, 0.1)) == first
    assert 10 < len(first) < 30


def test_a_plan_by_the_clock() -> None:
    found = plan(replace(SMALL, optim=replace(SMALL.optim, minutes=7.5, steps=3)))
    assert (found.steps, found.to_dict()["minutes"], found.missing) == (None, 7.5, [])
    lines = "\n".join(found.lines())
    assert "minutes    7.5, with validations and checkpoints" in lines
    assert "over 10% of them" in lines


@pytest.mark.parametrize("key", ["optim.minutes", "checkpoint_minutes"])
def test_no_time_at_all(key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key} is 0; it must be more than 0"):
        OptimConfig(minutes=0) if key == "optim.minutes" else replace(SMALL, checkpoint_minutes=0)


def test_a_time_that_is_too_short_has_one_step(tmp_path: Path, clock: Clock) -> None:
    run = pretrain(by_clock(tmp_path / "run", minutes=0.001))
    assert len(clock.times("step")) == len(clock.times("validation")) == 1
    assert (run / "best").is_dir()
