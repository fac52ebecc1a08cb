"""Checkpoints: a model folder plus what resuming needs; written whole or not at all; never a pickle.

RUN/checkpoints/step-00001200/   the model (see DualEncoder.save); for resuming: left_behind.safetensors
                                 (see Trainee), optimizer.safetensors, trainer.json
RUN/last, RUN/best               links to the newest and the best of them
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexlip.errors import ModelError
from lexlip.models.folder import read_words
from lexlip.training.processes import Processes
from lexlip.training.trainee import Trainee


def save_checkpoint(
    run: Path,
    step: int,
    trainee: Trainee,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    best: bool,
) -> Path:
    """Write a checkpoint, point `last` (and `best`) at it, and delete those that nothing points at."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    trainee.model.save(temporary)
    _save(trainee.left_behind(), temporary / "left_behind.safetensors")
    _save(_optimizer_tensors(optimizer), temporary / "optimizer.safetensors")
    (temporary / "trainer.json").write_text(json.dumps({"step": step, **state}), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    for name in ("last", "best") if best else ("last",):
        link = run / f".{name}"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.relative_to(run))
        link.replace(run / name)
    kept = {(run / name).resolve() for name in ("last", "best")}
    for other in (run / "checkpoints").iterdir():
        if other.resolve() not in kept:
            shutil.rmtree(other)
    return folder


def load_checkpoint(run: Path, trainee: Trainee, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Load `RUN/last` into a trainee and an optimizer of the same config.

    Returns:
        The state that was saved with it, "step" included.

    Raises:
        ModelError: the checkpoint is damaged, or of another model.
    """
    folder = run / "last"
    try:
        state: dict[str, Any] = json.loads((folder / "trainer.json").read_text(encoding="utf-8"))
        model = trainee.model
        words = folder / "vocabulary.txt"
        if model.vocabulary is not None and tuple(read_words(words)) != model.vocabulary.words:
            raise ModelError(f"{folder} has another vocabulary than this config and data make")
        model.load_state_dict(load_file(folder / "model.safetensors"))
        left_behind = load_file(folder / "left_behind.safetensors")
        if left_behind.keys() != trainee.left_behind().keys():
            raise ModelError(f"{folder} was trained on other objectives than this config's")
        trainee.load_state_dict(left_behind, strict=False)
        _restore_optimizer(optimizer, load_file(folder / "optimizer.safetensors"))
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"cannot resume from {folder}: {' '.join(str(error).split())}") from error
    return state


def random_state(processes: Processes) -> dict[str, list[list[int]]]:
    """The states of torch's generators in each process, for `set_random_state`; all must call it."""
    state = {"random": processes.collect(torch.get_rng_state().tolist())}
    if processes.device.type == "cuda":
        state["random_cuda"] = processes.collect(torch.cuda.get_rng_state(processes.device).tolist())
    return state


def set_random_state(state: Mapping[str, Any], processes: Processes) -> bool:
    """Go on with the generators as `random_state` found them; False if there were other processes then."""
    if len(state["random"]) != processes.world:
        return False
    torch.set_rng_state(torch.tensor(state["random"][processes.rank], dtype=torch.uint8))
    if processes.device.type == "cuda" and "random_cuda" in state:  # not if it was begun without a GPU
        states = state["random_cuda"]
        torch.cuda.set_rng_state(torch.tensor(states[processes.rank], dtype=torch.uint8), processes.device)
    return True


def _save(tensors: Mapping[str, Tensor], path: Path) -> None:
    # clones: safetensors refuses tensors that share memory, such as those of one shared decoder
    save_file({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}, path)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    states = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, s in states.items() for name, value in s.items()}


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".")
        states.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
