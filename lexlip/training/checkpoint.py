"""Checkpoints: a model's folder and what resuming needs; written as a whole or not at all, never pickled.

RUN/checkpoints/step-00001200/   the model (see DualEncoder.save), and for resuming left_behind.safetensors
                                 (see Method.left_behind), optimizer.safetensors and trainer.json
RUN/last, RUN/best               links to the newest and to the best checkpoint
RUN/start                        a link to what a run started from, until it has looked for the best weights
                                 between that and its end; what it finds there is saved as a model alone

Others are removed, but for those that an index was made with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from anserini_bridge.given_files import read_json
from anserini_bridge.storage import CHECKSUM, checksum, fields_checksum, replace_link
from lexlip.errors import ModelError
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.model_folder import KEPT, check_model, read_words
from lexlip.training.distributed import Processes
from lexlip.training.method import Method
from lexlip.training.run_folder import replacing_folder, writing_run

LEFT_BEHIND, OPTIMIZER, TRAINER = "left_behind.safetensors", "optimizer.safetensors", "trainer.json"


@dataclass
class State:
    """How far a run is, beside its steps."""

    best: float = -1.0  # the best checkpoint's mean recall in percent
    best_step: int = 0
    seconds: float = 0.0  # of the clock, from the first step on
    validation: float = 0.0  # seconds that the slowest one took
    saving: float = 0.0  # seconds that the slowest checkpoint took
    ended: bool = False  # no step follows


def save_checkpoint(
    run: Path,
    step: int,
    method: Method,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    state: State,
    processes: Processes,
    links: Sequence[str] = (),
) -> None:
    """Write a checkpoint, point `last` and other links to it, and delete those that nothing points to.

    Every process must call it; the first one writes. What is written is durable before anything points to it.
    DataError: it cannot be written; the checkpoints before it stay.
    """
    generators = _generator_states(processes)
    if not processes.first:
        return
    folder = run / "checkpoints" / f"step-{step:08d}"
    _remove_others(run)  # what a killed run left half-written
    with writing_run(run):
        with replacing_folder(folder) as temporary:
            method.model.save(temporary, graph=False)
            _save(method.left_behind(), temporary / LEFT_BEHIND)
            _save(_optimizer_tensors(optimizer), temporary / OPTIMIZER)
            trainer = {"step": step, **asdict(state), **generators, "scaler": scaler.state_dict()}
            trainer["files"] = {name: checksum(temporary / name) for name in (LEFT_BEHIND, OPTIMIZER)}
            trainer[CHECKSUM] = fields_checksum(trainer)
            (temporary / TRAINER).write_text(json.dumps(trainer), encoding="utf-8")
        for name in (*links, "last"):  # a run goes on from `last`: it comes last
            replace_link(run / name, folder.relative_to(run))
    _remove_others(run)


def save_best(run: Path, name: str, model: DualEncoder) -> None:
    """Write a model that no run goes on from, and point `best` to it; DataError: it cannot be written."""
    folder = run / "checkpoints" / name
    with writing_run(run):
        with replacing_folder(folder) as temporary:
            model.save(temporary, graph=False)
        replace_link(run / "best", folder.relative_to(run))


def forget_start(run: Path) -> None:
    """Delete what a finished run started from, unless it is the best."""
    (run / "start").unlink(missing_ok=True)
    _remove_others(run)


def _remove_others(run: Path) -> None:
    """Remove the checkpoints, half-written ones too, that neither links nor indexes need."""
    kept = {(run / name).resolve() for name in ("last", "best", "start")}
    for other in (run / "checkpoints").glob("*"):
        if other.resolve() not in kept and not (other / KEPT).exists():
            shutil.rmtree(other)


def load_checkpoint(
    run: Path,
    method: Method,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    processes: Processes,
) -> tuple[int, State, bool]:
    """Load `RUN/last` into a method, an optimizer and a scaler of the same config.

    Returns the number of steps that are done, the best checkpoint so far, and whether as many processes train
    as before, so that torch's generators could be restored. ModelError: the checkpoint is damaged, or of
    another model.
    """
    folder = run / "last"
    try:
        trainer = _checked(folder)
        model = method.model
        words = folder / "vocabulary.txt"
        if model.vocabulary is not None and tuple(read_words(words)) != model.vocabulary.words:
            raise ModelError(f"{folder} has another vocabulary than this config and its photos give")
        model.load_state_dict(load_file(folder / "model.safetensors"))
        left_behind = load_file(folder / LEFT_BEHIND)
        if left_behind.keys() != method.left_behind().keys():
            raise ModelError(f"{folder} was trained with other objectives than this config's")
        method.load_state_dict(left_behind, strict=False)
        _restore_optimizer(optimizer, load_file(folder / OPTIMIZER))
        scaler.load_state_dict(trainer["scaler"])
        restored = _restore_generators(trainer, processes)
        known = [key.name for key in fields(State) if key.name in trainer]  # older ones have no clock
        return trainer["step"], State(**{name: trainer[name] for name in known}), restored
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"cannot resume from {folder}: {' '.join(str(error).split())}") from error


def _checked(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's trainer.json, after a check of all that resuming reads.

    In checkpoints of older versions only the model has checksums. OSError or ValueError: something was
    changed.
    """
    try:
        check_model(folder)
    except ModelError as error:
        raise ValueError(str(error)) from error
    trainer: dict[str, Any] = read_json(folder / TRAINER)
    if not isinstance(trainer, dict):
        raise ValueError(f"{TRAINER} is no dictionary")
    if "files" not in trainer and CHECKSUM not in trainer:
        return trainer
    whole = trainer.get(CHECKSUM) == fields_checksum(trainer)
    files = trainer["files"] if whole else {}
    changed = [name for name, wanted in files.items() if checksum(folder / name) != wanted]
    if changed or not whole:
        raise ValueError(f"{', '.join(changed) or TRAINER} is not as it was written")
    return trainer


def _generator_states(processes: Processes) -> dict[str, list[list[int]]]:
    states = {"random": processes.collect(torch.get_rng_state().tolist())}
    if processes.device.type == "cuda":
        states["random_cuda"] = processes.collect(torch.cuda.get_rng_state(processes.device).tolist())
    return states


def _restore_generators(trainer: Mapping[str, Any], processes: Processes) -> bool:
    """Restore the generators of this process; return False if the number of processes has changed."""
    if len(trainer["random"]) != processes.world:
        return False
    torch.set_rng_state(torch.tensor(trainer["random"][processes.rank], dtype=torch.uint8))
    if processes.device.type == "cuda" and "random_cuda" in trainer:  # not there if the run began on a CPU
        state = torch.tensor(trainer["random_cuda"][processes.rank], dtype=torch.uint8)
        torch.cuda.set_rng_state(state, processes.device)
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
