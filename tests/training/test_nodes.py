"""Training on several nodes: two agents of torchrun, and their rendezvous in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lexlip.config_files import to_dict
from tests.training.small_run import SMALL
from tests.training.test_distributed import HERE, ROOT, two_processes
from tests.training.test_loop import check_same

RENDEZVOUS = """\
import time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
time.sleep(3000)
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def rendezvous() -> Iterator[str]:
    """The address of a store."""
    command = [sys.executable, "-c", RENDEZVOUS]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as store:
        try:
            yield f"127.0.0.1:{int(store.stdout.readline())}"
        finally:
            store.kill()


def agent(address: str, log: Path, happened: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start an agent of torchrun with one process."""
    torchrun = [
        *("--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-id=test", "--rdzv-backend=c10d"),
        *(f"--rdzv-endpoint={address}", "--local-addr=127.0.0.1"),
        "--rdzv-conf=is_host=false,join_timeout=120,keep_alive_interval=1",
    ]
    script = str(HERE / "killed_process.py")
    command = [sys.executable, "-m", "torch.distributed.run", *torchrun, script, *arguments]
    environment = {**ENVIRONMENT, "HAPPENED": str(happened)}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # see docs/gpu.md
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_dies_is_replaced(rendezvous: str, tmp_path: Path, rank: int) -> None:
    """Another joins, and all go on from the last checkpoint, with the losses of two undisturbed processes."""
    config, run = tmp_path / "small.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(to_dict(replace(SMALL, device="cpu"))))
    done = two_processes("killed_process.py", "-1", str(config), f"out={tmp_path / 'finished'}")
    assert [process.returncode for process in done] == [0, 0], done[0].stderr
    arguments = (tmp_path / "happened", str(rank), str(config), f"out={run}", "--resume")
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    agents = [agent(rendezvous, log, *arguments) for log in logs[:2]]
    try:
        end = time.monotonic() + 600
        while all(one.poll() is None for one in agents):
            assert time.monotonic() < end, logs[0].read_text()[-2000:]
            time.sleep(0.2)
        dead = next(one for one in agents if one.poll() is not None)
        assert dead.returncode == -signal.SIGKILL, logs[agents.index(dead)].read_text()[-2000:]
        assert (run / "last").resolve().name == "step-00000005"
        alive = agents[1 - agents.index(dead)]
        agents.append(agent(rendezvous, logs[2], *arguments))
        assert agents[2].wait(timeout=600) == 0, logs[2].read_text()[-2000:]
        assert alive.wait(timeout=600) == 0
    finally:
        for one in agents:
            if one.poll() is None:
                one.terminate()  # with its process
                one.wait(timeout=60)
    assert "going on at step 5" in "".join(log.read_text() for log in logs)
    check_same(run, tmp_path / "finished")
