"""Folders of runs: written as training leaves them, and read."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lexlip.config import Config
from lexlip.config_files import from_dict, to_dict


def write_run(
    folder: Path, config: dict[str, Any], recalls: Sequence[float] = (), checkpoint: Path | None = None
) -> Path:
    """A run with validations of these mean recalls, and `checkpoint` as its best."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(to_dict(from_dict(Config, config))))
    rows: list[dict[str, Any]] = [{"step": 1, "loss": 3.0}]
    rows += [{"step": 10 * number, "val": validation(recall)} for number, recall in enumerate(recalls, 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if checkpoint is not None:
        saved = folder / "checkpoints" / "step-00000010"
        shutil.copytree(checkpoint, saved)
        (folder / "best").symlink_to(saved.relative_to(folder))
    return folder


def validation(recall: float) -> dict[str, Any]:
    """What training writes of a report, all of whose recalls are the same."""
    ways = {"R@1": recall, "R@5": recall, "R@10": recall}
    counts = {"images": 10, "captions": 50, "terms_image": 20.0, "terms_text": 15.0, "words@10": 0.25}
    return {"t2i": ways, "i2t": ways, **counts}


def metrics(run: Path) -> list[dict[str, Any]]:
    """What a run has measured, without what depends on the machine."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("samples_per_s", "memory_mb")} for row in rows]
