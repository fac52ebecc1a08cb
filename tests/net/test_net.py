"""Commands, indexes, checkpoints and losses are as they were recorded (see record.py)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.net.commands import (
    COMMANDS,
    EXPECTED,
    OBJECTIVES,
    RESUMED,
    differences,
    in_this_process,
    metrics,
    renamed,
    run,
    set_up,
    training,
)
from tests.net.record import lexlip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The fixtures in a folder of the test's own, in which it runs."""
    threads = torch.get_num_threads()
    set_up(tmp_path)
    in_this_process(monkeypatch, tmp_path)
    yield tmp_path
    torch.set_num_threads(threads)  # measurements take one


def expected(name: str) -> object:
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def losses(name: str) -> list[dict[str, object]]:
    rows = json.loads((EXPECTED / f"losses-{name}.json").read_text(encoding="utf-8"))
    return [renamed(row) for row in rows]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_as_before(name: str) -> None:
    assert list(differences(run(COMMANDS[name]), expected(name))) == []


@pytest.mark.parametrize("name", OBJECTIVES)
def test_twenty_steps_lose_as_before(name: str, here: Path) -> None:
    lexlip(*training(name))
    assert list(differences(metrics(here / "trained" / name), losses(name))) == []


def test_an_interrupted_run_goes_on_as_before(here: Path) -> None:
    lexlip(*RESUMED, "--resume")
    assert list(differences(metrics(here / "run"), losses("resumed"))) == []
