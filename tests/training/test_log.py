import json
from pathlib import Path

import pytest
import torch

from lexlip.training.distributed import Processes
from lexlip.training.log import Log

ALONE = Processes("cpu")


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_line_that_a_killed_run_left_unfinished_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 4}\n{"step": 9}\n{"ste')
    Log(tmp_path, 4, 10, 1, ALONE).close()
    assert path.read_text() == '{"step": 1}\n{"step": 4}\n'


def test_every_so_many_steps_the_losses_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log(tmp_path, 0, 4, 2, ALONE)
    for step in range(1, 5):
        log.step(step, {"loss": torch.tensor(10.0 * step)}, lr=0.5, samples=8)
    log.close()
    assert [(row["step"], row["loss"], row["lr"]) for row in rows(tmp_path)] == [(2, 20, 0.5), (4, 40, 0.5)]
    assert all(row["samples_per_s"] > 0 and row["memory_mb"] > 0 for row in rows(tmp_path))
    printed = capsys.readouterr().err
    assert "step      2  loss 20  lr 0.5" in printed
    assert "step      3" not in printed


def test_losses_that_take_turns_are_written_with_their_latest_value(tmp_path: Path) -> None:
    log = Log(tmp_path, 0, 2, 2, ALONE)
    log.step(1, {"triplet": torch.tensor(1.0)}, lr=0.1, samples=8)
    log.step(2, {"matching": torch.tensor(2.0)}, lr=0.1, samples=8)
    log.close()
    assert {key: rows(tmp_path)[0][key] for key in ("triplet", "matching")} == {"triplet": 1, "matching": 2}
