"""Folders of training runs: RUN/config.yaml, RUN/metrics.jsonl, RUN/best and the runs that came before."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lexlip.config import Config
from lexlip.config_files import load_config
from lexlip.errors import ConfigError, DataError
from lexlip.evaluation.evaluate import Report
from lexlip.models.folder import is_hub_name, model_folder


@dataclass(frozen=True)
class Lineage:
    """A run and those whose weights it went on from.

    Attributes:
        configs: the run's own, then that of the run before it, and so on.
        origin: what the first of them started from, if that is no run that can be found.
    """

    configs: list[Config]
    origin: str | None


def checkpoint_of(name: str | Path) -> str | Path:
    """The model that a user means: RUN is RUN/best, a hub's name itself, else as `model_folder` has it.

    Raises:
        ModelError: there is none.
    """
    best = Path(name) / "best"
    if (best / "config.json").is_file():
        return best
    return name if is_hub_name(name) else model_folder(name)


def run_of(place: str | Path) -> Path:
    """The run that a folder is, or whose checkpoint it is.

    Raises:
        DataError: it is neither.
    """
    found = _find_run(Path(place))
    if found is None:
        raise DataError(f"{place} is neither a training run nor one of its checkpoints: no config.yaml there")
    return found


def best_validation(run: Path) -> Report:
    """What the checkpoint RUN/best reached on the run's own validation photos (`data.val`).

    Raises:
        DataError: it is no run, has no validation yet, or its log is damaged.
    """
    path = run / "metrics.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        reports = [Report.from_dict(row["val"]) for row in rows if "val" in row]
    except (FileNotFoundError, NotADirectoryError):
        reports = []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if not reports:
        raise DataError(
            f"{run} has no validation results (metrics.jsonl); name a run's folder, or give photos to measure"
            " on (--source)"
        )
    return max(reports, key=lambda report: report.mean_recall)  # the first, as in training


def lineage(run: Path) -> Lineage:
    """The configs of a run and of the runs that its `init` leads back to.

    Raises:
        ConfigError: a config cannot be read.
    """
    configs: list[Config] = []
    seen: set[Path] = set()
    while True:
        seen.add(run.resolve())
        config = read_config(run)
        configs.append(config)
        if config.init is None:
            return Lineage(configs, None)
        before = _find_run(Path(config.init))
        if before is None or before.resolve() in seen:
            return Lineage(configs, config.init)
        run = before


def read_config(run: Path) -> Config:
    """RUN/config.yaml.

    Raises:
        ConfigError: it cannot be read; names the file.
    """
    path = run / "config.yaml"
    try:
        return load_config(path)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if str(path) in text else f"{path}: {text}") from error


def _find_run(place: Path) -> Path | None:
    checkpoint = place.resolve()  # RUN/best is a link to RUN/checkpoints/step-N
    for folder in (place, checkpoint.parent, checkpoint.parent.parent):
        if (folder / "config.yaml").is_file():
            return folder
    return None
