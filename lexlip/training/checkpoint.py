"""Checkpoints: a model folder plus what resuming needs; written whole or not at all; never a pickle.

RUN/checkpoints/step-00001200/   the model (see LexLIP.save), optimizer.safetensors, trainer.json
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
from lexlip.models.lexlip import LexLIP


def save_checkpoint(
    run: Path,
    step: int,
    model: LexLIP,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    best: bool,
) -> Path:
    """Write a checkpoint, point `last` (and `best`) at it, and delete those that nothing points at."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    model.save(temporary)
    save_file(_optimizer_tensors(optimizer), temporary / "optimizer.safetensors")
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


def load_checkpoint(run: Path, model: LexLIP, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Load `RUN/last` into a model and an optimizer of the same config.

    Returns:
        The state that was saved with it, "step" included.

    Raises:
        ModelError: the checkpoint is damaged, or of another model.
    """
    folder = run / "last"
    try:
        state: dict[str, Any] = json.loads((folder / "trainer.json").read_text(encoding="utf-8"))
        words = (folder / "vocabulary.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        if tuple(words) != model.vocabulary.words:
            raise ModelError(f"{folder} has another vocabulary than this config and data make")
        model.load_state_dict(load_file(folder / "model.safetensors"))
        _restore_optimizer(optimizer, load_file(folder / "optimizer.safetensors"))
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"cannot resume from {folder}: {' '.join(str(error).split())}") from error
    return state


def random_state(device: torch.device) -> dict[str, list[int]]:
    """The states of torch's generators that training on `device` draws from, for `set_random_state`."""
    state = {"random": torch.get_rng_state().tolist()}
    if device.type == "cuda":
        state["random_cuda"] = torch.cuda.get_rng_state(device).tolist()
    return state


def set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Go on with the generators as `random_state` found them."""
    torch.set_rng_state(torch.tensor(state["random"], dtype=torch.uint8))
    if device.type == "cuda" and "random_cuda" in state:  # a run that was begun without a GPU has none
        torch.cuda.set_rng_state(torch.tensor(state["random_cuda"], dtype=torch.uint8), device)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    states = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": value.cpu().contiguous()
        for index, s in states.items()
        for name, value in s.items()
    }


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".")
        states.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
