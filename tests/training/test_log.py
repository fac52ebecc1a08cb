import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lexlip.errors import MissingPackage
from lexlip.training.distributed import Processes
from lexlip.training.log import Log, check_log
from lexlip.training.loop import pretrain
from lexlip.training.plan import plan
from tests.training.small_run import SMALL

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


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows, by its own reader."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed: pip install 'lexlip[tensorboard]'",
    )
    board = accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {
        name: [(point.step, point.value) for point in board.Scalars(name)] for name in board.Tags()["scalars"]
    }


def test_tensorboard_shows_what_metrics_jsonl_says(tmp_path: Path) -> None:
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed: pip install 'lexlip[tensorboard]'"
    )
    whole = replace(SMALL.optim, micro_batch=None)  # then a validation has shares of the gradient
    pretrain(replace(SMALL, out=str(tmp_path), log=("tensorboard",), optim=whole))
    found, written = curves(tmp_path), rows(tmp_path)
    steps = [row for row in written if "val" not in row]
    for name in steps[0].keys() - {"step"}:
        expected = [(row["step"], row[name]) for row in steps]
        assert found[f"train/{name}"] == [(step, pytest.approx(value, rel=1e-6)) for step, value in expected]
    validations = [row for row in written if "val" in row]
    assert (
        [step for step, _ in found["val/mean_recall"]] == [row["step"] for row in validations] == [5, 10, 12]
    )
    for way in ("t2i", "i2t"):
        assert [value for _, value in found[f"val/{way}/R@5"]] == pytest.approx(
            [row["val"][way]["R@5"] for row in validations]
        )
    assert any(name.startswith("gradient/") for name in found)
    assert not any("step" in name for name in found)


def test_a_resumed_run_goes_on_in_the_same_curves(tmp_path: Path) -> None:
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed: pip install 'lexlip[tensorboard]'"
    )
    for first, values in ((0, (1.0, 2.0, 3.0)), (2, (30.0, 40.0))):  # step 3 came after the last checkpoint
        log = Log(tmp_path, first, 4, 1, ALONE, tensorboard=True)
        for step, value in enumerate(values, first + 1):
            log.step(step, {"loss": torch.tensor(value)}, lr=0.5, samples=8)
        log.close()
    assert curves(tmp_path)["train/loss"] == [(1, 1), (2, 2), (3, 30), (4, 40)]


def test_without_tensorboard_no_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    config = replace(SMALL, out=str(tmp_path / "run"), log=("tensorboard",))
    says = r"^this needs tensorboard: pip install 'lexlip\[tensorboard\]'$"
    with pytest.raises(MissingPackage, match=says):
        check_log(config)
    with pytest.raises(MissingPackage, match=says):
        pretrain(config)
    assert not (tmp_path / "run").exists()
    assert plan(config).missing[0] == "this needs tensorboard: pip install 'lexlip[tensorboard]'"
