"""How far a run is and when it ends, by its steps or by the clock; and the learning rate there."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from lexlip.config import MOST, Config, OptimConfig
from lexlip.training.checkpoint import State

if TYPE_CHECKING:
    import torch

    from lexlip.training.distributed import Processes


class Schedule:
    """How far a run is, when it ends, and when it is validated and saved.

    A run has a number of steps, or is planned by the clock (`optim.minutes`). The clock begins here, before
    the first step, and counts everything: waiting for photos, validations, checkpoints. As much time as the
    slowest validation and checkpoint took is left for the last ones; so they come by half-time at the
    latest. All processes go by the clock of the first one. A resumed run goes on with the time that its
    checkpoint had used.

    Args:
        config: of the run.
        steps: of the whole run; None: planned by the clock.
        state: of the run; its times and `ended` are kept up to date here.
        processes: that train together.
    """

    def __init__(self, config: Config, steps: int | None, state: State, processes: Processes) -> None:
        self.config, self.state, self.processes = config, state, processes
        self._steps = steps
        self._budget = 60 * (config.optim.minutes or 0.0)
        self._zero, self._saved_at = monotonic() - state.seconds, state.seconds
        self._step = 0.0  # seconds that the last step took

    def steps(self, done: int) -> int:
        """Return the steps of the whole run; by the clock as many as there would be at the speed so far."""
        if self._steps is not None:
            return self._steps
        seconds, end = self.state.seconds, self._last_step_by(1)
        if seconds >= end:
            return done + 1
        return max(done + 1, round(done * end / seconds)) if done else MOST

    def count(self, done: int) -> None:
        """Note that so many steps are done; `state.ended` says if that was the last one."""
        self._step = self._passed()
        by_clock = self.state.seconds + self._step > self._last_step_by(1)
        self.state.ended = by_clock if self._steps is None else done == self._steps

    def validates(self, done: int) -> bool:
        """Return whether a validation comes now, after so many steps."""
        due = done % self.config.validate_every == 0
        if self.state.ended or self._steps is not None:
            return due or self.state.ended
        if not self.state.validation:
            return due or self.state.seconds >= self._budget / 2
        return due and self.state.seconds + self._step <= self._last_step_by(2)

    def validated(self) -> None:
        self.state.validation = max(self.state.validation, self._passed())

    def saves(self, done: int) -> bool:
        """Return whether a checkpoint is written now, after so many steps, whatever the validation says."""
        minutes, waited = self.config.checkpoint_minutes, self.state.seconds - self._saved_at
        in_time = minutes is not None and waited >= 60 * minutes
        return self.state.ended or done % self.config.checkpoint_every == 0 or in_time

    def saved(self) -> None:
        self._saved_at = self.state.seconds
        self.state.saving = max(self.state.saving, self._passed())

    def _passed(self) -> float:
        """Read the clock; return the seconds since it was read last."""
        before, mine = self.state.seconds, monotonic() - self._zero if self.processes.first else 0.0
        [self.state.seconds] = self.processes.sum([mine])
        return self.state.seconds - before

    def _last_step_by(self, validations: int) -> float:
        """Return when the last step must be done, so that so many validations fit behind it.

        Each has a checkpoint, and one more may come before. The last one is also of weights between the
        start's and the end's (`interpolate`).
        """
        state, between = self.state, len(self.config.interpolate)
        closing = validations * (state.validation + state.saving) + between * state.validation
        return self._budget - state.saving - closing


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, step: int, steps: int) -> float:
    """Set the rate for `step` (from 0): linear warm-up, then linear decay to 0; return that of scale 1."""
    warmup = max(1, round(config.warmup * steps))
    factor = min((step + 1) / warmup, (steps - step) / max(1, steps - warmup + 1))
    for group in optimizer.param_groups:
        group["lr"] = config.lr * factor * group["scale"]
    return config.lr * factor
