"""Runs attacks in processes of their own, side by side, and collects how the tries ended."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from .contract import Attack, Try
from .processes import environment, kill

STARTING = 240  # seconds that a process has to start, besides the seconds of its first try


def run(
    attacks: Sequence[tuple[Attack, int]],
    seed: int,
    prepared: Path,
    folder: Path,
    jobs: int,
    tell: Callable[[Try], None],
) -> None:
    """Try attacks, those with most tries first.

    Args:
        attacks: with the number of tries of each.
        seed: of the first try of each; the next one has the next seed.
        prepared: see `Place`.
        folder: for what the tries write.
        jobs: attacks at the same time.
        tell: is told how each try ended.
    """
    with ThreadPoolExecutor(jobs) as pool:
        longest = sorted(attacks, key=lambda one: -one[1] * one[0].seconds)
        tasks = [pool.submit(_try, *one, seed, prepared, folder / one[0].name, tell) for one in longest]
        for task in tasks:
            task.result()


def _try(
    attack: Attack, tries: int, seed: int, prepared: Path, folder: Path, tell: Callable[[Try], None]
) -> None:
    """Try one attack; if its process dies or hangs, that try has failed, and a new one goes on."""
    if missing := attack.missing():
        tell(Try(attack.name, seed, "not run", missing))
        return
    following, end = seed, seed + tries
    while following < end:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with _worker(attack, following, end - following, prepared, folder) as process:
            wait = STARTING + attack.seconds
            while following < end and (line := _next(process, wait)):
                wait = attack.seconds
                tell(Try(**json.loads(line)))
                following += 1
            if following < end:
                tell(Try(attack.name, following, "failed", _why(process, line, wait, folder)))
                following += 1
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _worker(
    attack: Attack, seed: int, tries: int, prepared: Path, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that tries an attack."""
    arguments = [str(prepared), str(folder), attack.name, str(seed), str(tries)]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [*attack.prefix, sys.executable, "-m", "tools.campaign.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            bufsize=0,  # so that a line that waits is seen by select
            cwd=folder,
            env=environment(folder),
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout:
        try:
            yield process
        finally:
            kill(process)


def _next(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """Return the next line; an empty one if the process has ended, None if it takes too long."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else None


def _why(process: subprocess.Popen[bytes], line: bytes | None, waited: float, folder: Path) -> str:
    if line is None:
        return f"it hangs: no end after {waited:g} s"
    code = process.wait()
    last = (folder / "stderr").read_text(errors="replace").strip().splitlines()[-1:]
    return f"the process died with exit code {code}: {' '.join(last)[:300]}"
