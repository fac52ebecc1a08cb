"""The training loop."""

from __future__ import annotations

from pathlib import Path

import torch

from lexlip.config import Config
from lexlip.errors import ConfigError, ModelError
from lexlip.machine.resources import keep_freed_memory
from lexlip.training.checkpoint import save_checkpoint
from lexlip.training.distributed import Processes
from lexlip.training.optimizer import set_learning_rate
from lexlip.training.run_folder import begin_run, something_to_resume
from lexlip.training.setup import Run, set_up
from lexlip.training.step import Skipped, train_step
from lexlip.training.validation import validate

FAILURES = 10  # steps in a row without a finite gradient that end a run


def pretrain(config: Config, resume: bool = False) -> Path:
    """Train a model as a config says, alone or with the processes that torchrun started.

    Writes RUN/config.yaml, RUN/metrics.jsonl, RUN/last and RUN/best (see lexlip.training.checkpoint),
    where RUN is `config.out` or runs/NAME. The best checkpoint has the highest mean recall on `data.val`.

    Args:
        config: the experiment.
        resume: go on from RUN/last; under torchrun, begin if there is none.

    Returns:
        RUN.

    Raises:
        LexLIPError: photos, encoders or the config cannot be used, RUN exists already, or with `resume` it
            does not.
    """
    # Some CPUs multiply denormal numbers over a hundred times slower. Set before the first parallel
    # operation, as its threads inherit it.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    try:
        with Processes(config.device) as processes:
            resume = resume and processes.collect(something_to_resume(config))[0]
            folder = begin_run(config, resume, processes.first)
            train(set_up(config, folder, resume, processes))
    finally:
        torch.set_flush_denormal(False)
    return folder


def train(run: Run) -> None:
    """Train to the end of a run, with validations and checkpoints."""
    config, method, processes, state = run.config, run.method, run.processes, run.state
    method.train()
    failed = 0
    for step, batch in enumerate(run.batches, run.first):
        run.log.report_unreadable(batch)
        batch = batch.to(processes.device)
        lr = set_learning_rate(run.optimizer, config.optim, step, run.steps)
        method.take_turn(step)
        try:
            progress = step / run.steps
            outcome = train_step(method, batch, run.optimizer, run.scaler, config.optim, progress, processes)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                "the GPU's memory is too small for a step; lower optim.micro_batch, or set"
                " optim.checkpoint_activations=true"
            ) from error
        done = step + 1
        if isinstance(outcome, Skipped):
            run.log.skip(done, outcome.value)
        else:
            run.log.step(done, outcome, lr, len(batch.photos))
        failed = failed + 1 if outcome is Skipped.NOT_FINITE else 0
        if failed == FAILURES:
            raise ModelError(
                f"the gradient was not finite in {FAILURES} steps in a row, the last of them {done};"
                " start again with a lower optim.lr or optim.precision=fp32"
            )

        if done % config.validate_every == 0 or done == run.steps:
            if processes.first:
                report = validate(method.model, run.val, config.data.workers)
                run.log.validation(done, report)
                if report.mean_recall > state.best:
                    state.best, state.best_step = report.mean_recall, done
            state.best, state.best_step = processes.collect((state.best, state.best_step))[0]
            run.log.restart()
            method.train()
        is_best = state.best_step == done
        if is_best or done % config.checkpoint_every == 0 or done == run.steps:
            save_checkpoint(run.folder, done, method, run.optimizer, run.scaler, state, processes, is_best)
    processes.wait()
    run.log.close()
