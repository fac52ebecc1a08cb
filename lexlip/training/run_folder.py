"""The folder of a training run: RUN/config.yaml, RUN/metrics.jsonl, RUN/best, and the runs before it.

Also that of a model that is saved by itself: as a whole, or not at all. Nothing here loads torch.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from anserini_bridge.given_files import parse_json, read_json
from anserini_bridge.storage import atomic_write, replace_folder
from lexlip.config import Config, shown
from lexlip.config_files import first_difference, load_config, to_dict
from lexlip.errors import ConfigError, DataError, writing
from lexlip.measure.recalls import Report
from lexlip.models.hub import CARD
from lexlip.models.model_folder import files_of

if TYPE_CHECKING:
    from lexlip.models.dual_encoder import DualEncoder
    from lexlip.training.distributed import Processes


def begin_run(config: Config, resume: bool, processes: Processes) -> tuple[Path, bool]:
    """Return RUN, and whether it goes on; the first process checks that it may be written.

    torchrun starts its processes again with the same command when one has ended, perhaps before the first
    checkpoint, so under it a run without one begins. Elsewhere `check_run` refuses it.

    Raises:
        ConfigError: RUN holds a run already; with `resume`, it holds none, or one of another config.
        DataError: RUN cannot be written.
    """
    run = config.folder
    something = "TORCHELASTIC_RUN_ID" not in os.environ or (run / "last").exists()
    resume = resume and bool(processes.collect(something)[0])
    if processes.first:
        check_run(config, resume)
    if processes.first and not resume:
        with writing_run(run):
            run.mkdir(parents=True, exist_ok=True)
            (run / "metrics.jsonl").unlink(missing_ok=True)  # of one that was killed before its checkpoint
            with atomic_write(run / "config.yaml") as file:
                file.write(yaml.safe_dump(to_dict(config), sort_keys=False))
    return run, resume


def phase_to_begin_with(phases: Sequence[Config], resume: bool) -> int:
    """Return the number of a phase: the first, or with `resume` the last one that has a checkpoint.

    ConfigError: without `resume`, one of them holds a run already; with it, one that has begun has another
    config.
    """
    begun = [number for number, config in enumerate(phases) if (config.folder / "last").exists()]
    for number in begun:
        check_run(phases[number], resume)
    return max(begun, default=0)


def way_on(run: Path) -> str:
    """Say how to go on with a run, or with one that it is a phase of, after it was stopped."""
    try:
        whole = run.parent if load_config(run / "config.yaml").phase == run.name else run  # see `load_phases`
    except ConfigError:  # it is not written yet
        whole = run
    if (whole / "last").exists() or any(whole.glob("*/last")):
        return "go on from the last checkpoint with the same command and --resume"
    return "there is no checkpoint yet: start again with the same command"


@contextmanager
def writing_run(run: Path, place: Path | None = None) -> Iterator[None]:
    """Raise DataError, which says how to go on, if the `with` block cannot write to RUN, or to `place`."""
    what = f"the run {run}" if place is None else str(place)
    with writing(what, lambda: f"; when that is mended, {way_on(run)}"):  # which reads its config
        yield


def check_run(config: Config, resume: bool) -> None:
    """Raise ConfigError if RUN holds a run already; with `resume`, if it holds none, or another config's."""
    run = config.folder
    file = run / "config.yaml"
    if resume:
        if not (run / "last").exists():
            raise ConfigError(
                f"there is nothing to resume in {run}: it has no checkpoint yet; leave out --resume"
            )
        # older versions had no such keys
        before = replace(load_config(file), finetuning=config.finetuning, prepared=config.prepared)
        if before != config:
            key, old, new = first_difference(to_dict(before), to_dict(config))
            raise ConfigError(
                f"{file} differs from this config: {key} is {shown(old)} there, and {shown(new)} here; resume"
                " with what that file says, or use another out="
            )
    elif (run / "last").exists():
        raise ConfigError(
            f"{run} holds a run already; go on with --resume, or choose another with out=FOLDER"
        )


def is_finished(run: Path) -> bool:
    """Return whether a run has come to its end; DataError: its last checkpoint is damaged."""
    file = run / "last" / "trainer.json"
    try:
        return file.exists() and bool(read_json(file).get("ended"))
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"{file} is damaged: {error}") from error


@dataclass(frozen=True)
class Lineage:
    """A run and the runs whose weights it continued."""

    configs: list[Config]  # the run's own, then that of the run before it, and so on
    origin: str | None  # what the earliest run started from, if that is not a run that can be found
    runs: list[Path] = field(default_factory=list)  # their folders, in the same order


@dataclass(frozen=True)
class Training:
    """What runs cost: their steps, and the minutes that the steps took, without validations."""

    steps: int
    minutes: float


def run_of(place: str | Path) -> Path:
    """Return the run that a folder is, or whose checkpoint it is; DataError: it is neither."""
    found = find_run(Path(place))
    if found is None:
        raise DataError(f"{place} is neither a training run nor one of its checkpoints: no config.yaml there")
    return found


@dataclass(frozen=True)
class Validation:
    step: int
    own: Report  # on `data.val`
    others: Report | None  # on `data.others`


MAY_FORGET = 1.0  # points of mean recall on `data.others` that a best checkpoint may have lost


def best_validation(run: Path) -> Report:
    """Return what RUN/best reached on the run's own `data.val`; DataError: nothing, or it cannot be read."""
    rows = validations(run)
    if not rows:
        raise DataError(
            f"{run} has no validation results (metrics.jsonl); name a run's folder, or give photos to measure"
            " on (--source)"
        )
    return best_of(rows).own


def validations(run: Path) -> list[Validation]:
    """Return the validations of a run, the first one first; DataError: they cannot be read."""
    try:
        return [
            Validation(
                row["step"],
                Report.from_dict(row["val"]),
                Report.from_dict(row["others"]) if "others" in row else None,
            )
            for row in _metrics(run)
            if "val" in row
        ]
    except (KeyError, TypeError) as error:
        raise DataError(f"{run / 'metrics.jsonl'} is damaged: {error}") from error


def best_of(rows: Sequence[Validation]) -> Validation:
    """Return the first of the highest mean recall, of those that have forgotten MAY_FORGET at most."""
    start = rows[0].others
    kept = [
        row
        for row in rows
        if start is None or row.others is None or row.others.mean_recall >= start.mean_recall - MAY_FORGET
    ]
    return max(kept, key=lambda row: row.own.mean_recall)


def lineage(run: Path) -> Lineage:
    """Return the configs of a run and of those that its `init` leads back to; ConfigError: unreadable."""
    configs: list[Config] = []
    runs: list[Path] = []
    seen: set[Path] = set()
    while True:
        seen.add(run.resolve())
        runs.append(run)
        config = read_config(run)
        configs.append(config)
        if config.init is None:
            return Lineage(configs, None, runs)
        before = _phase_before(run, Path(config.init)) or find_run(Path(config.init))
        if before is None or before.resolve() in seen:
            return Lineage(configs, config.init, runs)
        run = before


def _phase_before(run: Path, init: Path) -> Path | None:
    """Return the phase of the same run that a phase started from, also if the run was moved since."""
    for folder in (run / init.parent.name, run.parent / init.parent.name):
        if find_run(folder) and read_config(folder).phase == init.parent.name:
            return folder
    return None


def training_of(places: Sequence[str | Path]) -> Training | None:
    """Return the cost of models and of the runs that they go back to, each counted once; None: unknown.

    Several `places`, runs or their checkpoints, are given if one model reranks what another finds. Minutes
    are computed from the speeds in metrics.jsonl. The cost is unknown if one is not a run, or started from a
    model whose run cannot be found.
    """
    runs: dict[Path, Config] = {}
    for place in places:
        run = find_run(Path(place))
        if run is None:
            return None
        line = lineage(run)
        if line.origin is not None:
            return None
        runs |= {folder.resolve(): config for folder, config in zip(line.runs, line.configs, strict=True)}
    costs = [_cost(run, config.optim.batch) for run, config in runs.items()]
    return Training(sum(steps for steps, _ in costs), sum(minutes for _, minutes in costs))


def _cost(run: Path, batch: int) -> tuple[int, float]:
    steps, pending = 0, 0
    seconds, rate = 0.0, 1.0
    for row in _metrics(run):
        pending += row["step"] - steps
        steps = row["step"]
        if "samples_per_s" in row:
            seconds += pending * batch / row["samples_per_s"]
            rate, pending = row["samples_per_s"], 0
    if pending and seconds:
        seconds += pending * batch / rate  # after the last line
    return steps, seconds / 60


def _metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of RUN/metrics.jsonl, none if it does not exist; DataError: it is damaged."""
    path = run / "metrics.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [parse_json(line) for line in lines]
        _ = [row["step"] for row in rows]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    return rows


def read_config(run: Path) -> Config:
    """Read RUN/config.yaml; ConfigError names the file if it cannot be read."""
    path = run / "config.yaml"
    try:
        return load_config(path)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if str(path) in text else f"{path}: {text}") from error


def find_run(place: Path) -> Path | None:
    """Return the run that a folder is, or whose checkpoint it is; None if it is neither."""
    folders = [place]
    if place.name in ("best", "last"):
        folders.append(place.absolute().parent)
    checkpoints = place.resolve().parent  # RUN/best is a link to RUN/checkpoints/step-N
    if checkpoints.name == "checkpoints":
        folders.append(checkpoints.parent)
    return next((folder for folder in folders if (folder / "config.yaml").is_file()), None)


# ---- a saved model's folder ----


def check_place(folder: Path, may_replace: bool = False) -> None:
    """Check that a model can be saved into a folder, before the work.

    With `may_replace` it may be there already, with a saved model and nothing else in it. DataError: it
    cannot be made, or is there already.
    """
    with writing(f"the model {folder}"), tempfile.TemporaryDirectory(dir=folder.parent):
        exists, is_folder = os.path.lexists(folder), folder.is_dir()
        others = {path.name for path in folder.iterdir()} - files_of(folder) if is_folder else set()
    if exists and not (may_replace and is_folder and folder.name):
        raise DataError(f"{folder} exists already: give another folder")
    if others:
        raise DataError(f"{folder} holds more than a model, such as {min(others)}: give another folder")


def save_whole(model: DualEncoder, folder: Path, small: bool = False) -> None:
    """Save a model as a new folder, or in place of one, whose card stays; DataError: it cannot be written."""
    with writing(f"the model {folder}"), replacing_folder(folder) as temporary:
        if (folder / CARD).is_file():
            temporary.mkdir()
            shutil.copyfile(folder / CARD, temporary / CARD)
        model.save(temporary, small)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a place beside a folder for its new content, which replaces it unless the `with` block fails."""
    temporary = folder.with_name(f".{folder.name[:40]}.{os.getpid()}")
    try:
        yield temporary
        replace_folder(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
