import sys
from pathlib import Path

import pytest

from tools.campaign.campaign import run
from tools.campaign.contract import Attack, Try

HELD = 'print(\'{"attack": "some.attack", "seed": %d, "outcome": "held"}\', flush=True)'


def outcomes(
    folder: Path, program: str, tries: int = 3, seconds: float = 60, reason: str | None = None
) -> list[Try]:
    """Run an attack whose process is a program of the test's own, which gets the first seed."""
    attack = Attack(
        "some.attack",
        lambda random, place: None,
        tries,
        tries,
        seconds,
        missing=lambda: reason,
        prefix=(sys.executable, "-c", "import os, sys, time; seed = int(sys.argv[7])\n" + program),
    )
    done: list[Try] = []
    run([(attack, tries)], 7, folder / "prepared", folder, 1, done.append)
    return done


def test_tries_that_hold(tmp_path: Path) -> None:
    done = outcomes(tmp_path, "\n".join(HELD % seed for seed in (7, 8, 9)))
    assert done == [Try("some.attack", seed, "held") for seed in (7, 8, 9)]


def test_a_process_that_dies_has_failed_and_the_next_tries_go_on(tmp_path: Path) -> None:
    dies = f"if seed == 7:\n {HELD % 7}\n print('a bad end', file=sys.stderr)\n os.kill(os.getpid(), 11)\n"
    done = outcomes(tmp_path, dies + HELD % 9)
    assert [(one.seed, one.outcome) for one in done] == [(7, "held"), (8, "failed"), (9, "held")]
    assert done[1].why == "the process died with exit code -11: a bad end"
    assert done[1].again == "python -m tools.campaign --seed 8 --one some.attack"


def test_a_process_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.campaign.campaign.STARTING", 0.5)
    (one,) = outcomes(tmp_path, "time.sleep(600)", tries=1, seconds=0.5)
    assert (one.outcome, one.why) == ("failed", "it hangs: no end after 1 s")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = outcomes(tmp_path, "", reason="strace is missing")
    assert done == [Try("some.attack", 7, "not run", "strace is missing")]
