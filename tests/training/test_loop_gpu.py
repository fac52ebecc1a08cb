"""Whole runs on a GPU: resumed, compiled, and by two processes that share it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lexlip.config_files import to_dict
from lexlip.training.log import Log
from lexlip.training.loop import pretrain
from tests.training.small_run import SMALL, WITH_DECODERS, WITH_QUEUES

ROOT = Path(__file__).parents[2]
MEASURED = ("samples_per_s", "memory_mb", "waited_s")

pytestmark = pytest.mark.gpu


def rows(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in MEASURED} for line in lines if "val" not in line]


def on_gpu(config: Any, folder: Path, **optim: Any) -> Any:
    changes = {"precision": "fp32", **optim}
    return replace(config, device="cuda:0", out=str(folder), optim=replace(config.optim, **changes))


def check_close(run: Path, other: Path, tolerance: float) -> None:
    for one, two in zip(rows(run), rows(other), strict=True):
        assert one == pytest.approx(two, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("config", [WITH_DECODERS, WITH_QUEUES], ids=["phase 1", "phase 2"])
def test_a_stopped_run_goes_on_as_before(
    config: Any, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pretrain(on_gpu(config, tmp_path / "whole", precision=precision))
    log_step, stopped = Log.step, on_gpu(config, tmp_path / "stopped", precision=precision)

    def stop(self: Log, number: int, *arguments: Any) -> None:
        log_step(self, number, *arguments)
        if number > 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(stopped)
    check_close(pretrain(stopped, resume=True), whole, 1e-2)


def test_a_compiled_run(tmp_path: Path) -> None:
    plain, compiled = (
        pretrain(on_gpu(SMALL, tmp_path / str(compiles), steps=4, compile=compiles))
        for compiles in (False, True)
    )
    assert len(rows(compiled)) == len(rows(plain)) == 4


def test_two_processes_share_a_gpu(tmp_path: Path) -> None:
    """Through Gloo; the losses are those of one process."""
    tree = {**to_dict(on_gpu(SMALL, tmp_path / "unused", micro_batch=None)), "out": None}
    for dropout in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        tree["model"]["text"]["options"][dropout] = 0.0
    tree["model"]["image"]["layers"] = 0  # whose dropout differs between processes
    (tmp_path / "configs.yaml").write_text(yaml.safe_dump({"run": tree}))
    script = str(Path(__file__).with_name("several_processes.py"))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for processes, launcher in ((1, []), (2, torchrun)):
        done = subprocess.run(
            [
                sys.executable,
                *launcher,
                script,
                str(tmp_path / "configs.yaml"),
                str(tmp_path / f"{processes}"),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT), "LEXLIP_BACKEND": "gloo"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    check_close(tmp_path / "2" / "run", tmp_path / "1" / "run", 1e-2)
