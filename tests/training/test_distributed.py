"""Training does not depend on how many processes share a batch: 1 x 8 photos against 2 x 4, on gloo."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

import lexlip.training.distributed as processes_module
from lexlip.config_files import to_dict
from lexlip.errors import ConfigError
from lexlip.training.distributed import Processes
from lexlip.training.loop import pretrain
from tests.forks import OUTPUT, run_script, start_forked
from tests.tiny import WITHOUT_DROPOUT
from tests.training.run_folders import metrics
from tests.training.several_processes import phases_of
from tests.training.small_run import SMALL
from tests.training.test_loop import check_same

HERE = Path(__file__).parent
SCRIPT = HERE / "several_processes.py"
ROOT = Path(__file__).parents[2]

NO_WORDS = {"flops_image": 0.0, "flops_text": 0.0}
ANCHORS = {"anchor_contrastive": 0.5, "anchor_align": 0.5, "anchor_words": 0.5, "caption_gated": 0.5}
PHASE_1 = {"mlm": 1.0, "image_to_text": 1.0, "text_to_text": 1.0}

OBJECTIVES: dict[str, dict[str, Any]] = {
    "everything in the batch": {**PHASE_1, **ANCHORS, "flops_warmup": 0.0, "topk": [2, 5]},
    "masked words alone": {**NO_WORDS, "contrastive": 0.0, "mlm": 1.0},
    "a queue": {**NO_WORDS, "queue": 21, "topk": [3], "momentum": 0.6},
    "faithful": {"same_image_negatives": True, "flops_unit": True, "flops_warmup": 0.0, "share_decoder": True}
    | PHASE_1,
    "micro-batches": {**PHASE_1, **ANCHORS, "queue": 21},
    "dense": {**NO_WORDS, **PHASE_1, "queue": 21},
}
"""Each part of the loss is logged, so that it is compared by itself."""
PHASES = ("everything in the batch", "a queue")

ANOTHER_ENDED = (
    "another of the processes that train together ended; it has printed why, unless it was killed: then go on"
    " with the same command and --resume"
)


def config_of(name: str) -> dict[str, Any]:
    return {
        "seed": 3,
        "device": "cpu",
        "validate_every": 4,  # the first process validates alone; then every process must save
        "log_every": 1,
        "data": {
            "train": ["scenes:16:0"],
            "val": ["scenes:6:9"],
            "workers": 0,
            "captions_per_image": 2,
            "flip": True,
        },
        "model": {**to_dict(WITHOUT_DROPOUT), "kind": "dense" if name == "dense" else "lexlip"},
        "objective": OBJECTIVES[name],
        "optim": {
            "epochs": 2,
            "batch": 8,
            "lr": 0.003,
            "precision": "fp32",
            "micro_batch": 3 if name == "micro-batches" else None,
        },
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("runs")
    configs: dict[str, Any] = {name: config_of(name) for name in OBJECTIVES}
    configs["phases"] = [config_of(name) for name in PHASES]
    (folder / "configs.yaml").write_text(yaml.safe_dump(configs))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    for name, tree in configs.items():
        pretrain(phases_of(tree, str(folder / "1" / name)))
    command = [sys.executable, *torchrun, str(SCRIPT), str(folder / "configs.yaml"), str(folder / "2")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return {processes: folder / f"{processes}" for processes in (1, 2)}


@pytest.mark.parametrize("name", [*OBJECTIVES, *(f"phases/{number}" for number in range(len(PHASES)))])
@pytest.mark.slow
def test_one_process_or_two(runs: dict[int, Path], name: str) -> None:
    # keys are rounded to bf16, where the last bit of an fp32 sum can tip
    alone, together = (
        [row for row in metrics(runs[processes] / name) if "val" not in row] for processes in (1, 2)
    )
    assert len(alone) == len(together) == 4
    for one, two in zip(alone, together, strict=True):
        assert two == pytest.approx(
            one, rel=2e-3 if "queue" not in OBJECTIVES.get(name, {"queue": 1}) else 1e-2, abs=1e-5
        )
        assert all(math.isfinite(value) for value in one.values())
    assert any(row["grad"] > 0 for row in alone)
    for file in ("model.safetensors", "left_behind.safetensors"):
        one, two = (load_file(runs[processes] / name / "last" / file) for processes in (1, 2))
        assert one.keys() == two.keys()
        for key, weight in one.items():
            torch.testing.assert_close(two[key], weight, rtol=1e-2, atol=2e-3, msg=key)


def test_fewer_photos_in_a_batch_than_processes() -> None:
    many = Processes("cpu")
    many.rank, many.world = 1, 5
    with pytest.raises(ConfigError, match=r"optim\.batch=4 is fewer than the 5 processes; raise it"):
        many.part(4)


def test_what_has_no_gradient_anywhere_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with one process, where the optimizer leaves it alone; what another process has one of counts 0."""
    processes = Processes("cpu")
    processes.world = 2
    others = [0.0, 0.0, 1.0]  # gradients of the other process
    monkeypatch.setattr(processes, "sum", lambda mine: [a + b for a, b in zip(mine, others, strict=True)])
    summed: list[torch.Tensor] = []
    monkeypatch.setattr(processes_module, "_sum_together", summed.extend)
    mine, nowhere, elsewhere = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    mine.grad = torch.ones(2)
    processes.sum_gradients([mine, nowhere, elsewhere])
    assert nowhere.grad is None
    assert [gradient.tolist() for gradient in summed] == [[1, 1], [0, 0]]


def two_processes(script: str, *arguments: str, ports: int = 1) -> list[subprocess.CompletedProcess[str]]:
    """Run a script of this folder in two processes, without torchrun: it would end the other one itself.

    They are forked from one that has torch loaded.
    """
    with ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(ports)]
        for one in free:
            one.bind(("127.0.0.1", 0))
        found = [str(one.getsockname()[1]) for one in free]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": found[0], "PORTS": " ".join(found)}
    common |= {"WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}
    done = []
    with TemporaryDirectory() as folder:
        started = []
        for rank in range(2):
            output = Path(folder, str(rank))
            output.mkdir()
            environment = {**os.environ, "OMP_NUM_THREADS": "1", **common}
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            given = run_script, HERE / script, *arguments
            started.append(start_forked(*given, environment=environment, output=output))
        try:
            for rank, process in enumerate(started):
                process.join(600)
                printed = [Path(folder, str(rank), name).read_text() for name in OUTPUT]
                done.append(subprocess.CompletedProcess([script, *arguments], process.exitcode, *printed))
        finally:
            for process in started:
                process.kill()
    return done


PLACES = ("numbers", "weights", "rows")


@pytest.fixture(scope="module")
def pair() -> list[subprocess.CompletedProcess[str]]:
    return two_processes("paired_process.py", *PLACES, ports=4)


def test_a_process_that_fails_ends_the_others(pair: list[subprocess.CompletedProcess[str]]) -> None:
    waiting, failing = pair
    ended = "".join(f"{place} 2\n" for place in PLACES)
    assert failing.stdout == ended
    assert waiting.stdout.startswith(ended)
    for place in PLACES:
        assert f"{place}: this one fails\n" in failing.stderr
        assert f"{place}: {ANOTHER_ENDED}\n" in waiting.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config whose run two processes have finished undisturbed, beside it."""
    file = tmp_path_factory.mktemp("small") / "small.yaml"
    file.write_text(yaml.safe_dump(to_dict(replace(SMALL, device="cpu"))))
    done = two_processes("killed_process.py", "-1", str(file), f"out={file.parent / 'finished'}")
    assert [process.returncode for process in done] == [0, 0], done[0].stderr
    return file


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_killed(small: Path, tmp_path: Path, killed: int) -> None:
    """The other one ends by itself, and the run goes on as if nothing had been."""
    out = f"out={tmp_path / 'run'}"
    done = two_processes("killed_process.py", str(killed), str(small), out)
    assert done[killed].returncode == -signal.SIGKILL
    assert done[1 - killed].returncode == 2
    assert done[1 - killed].stderr.endswith(f"Error: {ANOTHER_ENDED}\n")
    assert "Traceback" not in done[1 - killed].stderr
    assert (tmp_path / "run" / "last").resolve().name == "step-00000005"
    done = two_processes("killed_process.py", "-1", str(small), out, "--resume")
    assert [process.returncode for process in done] == [0, 0], done[0].stderr
    check_same(tmp_path / "run", small.parent / "finished")


def test_sums_during_the_backward_pass_are_those_after_it(
    pair: list[subprocess.CompletedProcess[str]],
) -> None:
    first, second = pair
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    (found, buckets, refused), other = json.loads(first.stdout.splitlines()[-1])
    assert found == other[0]  # in both processes
    assert len(buckets) > 1
    assert "second backward pass" in refused
    for step in range(4):
        turn = step % 2 == 1
        expected = {
            "nowhere": None,
            "often": [3.0] * 3,
            "first_only": [5.0] * 3,
            "turns": [14.0] * 3 if turn else None,
            "shared": [6.0 if turn else 4.0] * 3,
            "last": [6.0] * 3,
        }
        for how, steps in found.items():
            assert steps[step] == expected, f"{how}, step {step}"


def test_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes may share a GPU through Gloo; NCCL needs one for each."""
    pick = processes_module._pick_backend
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert (pick(cpu), pick(gpu)) == ("gloo", "nccl")
    for name in ("gloo", "nccl"):
        monkeypatch.setenv("LEXLIP_BACKEND", name)
        assert pick(gpu) == name
    with pytest.raises(ConfigError, match=r"^LEXLIP_BACKEND is 'nccl'; for the device cpu it must be gloo$"):
        Processes("cpu")
    monkeypatch.setenv("LEXLIP_BACKEND", "mpi")
    with pytest.raises(ConfigError, match=r"'mpi'; for the device cuda it must be nccl or gloo$"):
        pick(gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert processes_module._own_gpu("gloo") == 1
    with pytest.raises(ConfigError, match="process 3 finds no GPU of its own, as there are 2: start 2 proc"):
        processes_module._own_gpu("nccl")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"RANK": "x"}, "RANK is 'x', where torchrun sets a whole number"),
        ({"WORLD_SIZE": "2"}, "the 2 processes that WORLD_SIZE names cannot meet: .* RANK expected"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "cannot meet: .* MASTER_ADDR expected"),
    ],
)
def test_variables_that_torchrun_did_not_set(
    given: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        Processes("cpu")
