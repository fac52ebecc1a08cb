"""Runs attacks in processes of their own, side by side, and collects how the tries ended."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .contract import Attack, Try
from .processes import environment

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
        prepared: see `Workplace`.
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
        with _worker(attack, following, end - following, prepared, folder) as (process, lines):
            wait = STARTING + attack.seconds
            while following < end:
                line = _next(lines, wait)
                if not line:
                    break
                wait = attack.seconds
                tell(Try(attack.name, **json.loads(line)))
                following += 1
            else:
                continue
            why = _why(process, line, wait, folder)
        tell(Try(attack.name, following, "failed", why))
        following += 1
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _worker(
    attack: Attack, seed: int, tries: int, prepared: Path, folder: Path
) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str]]]:
    """Start a process that tries an attack; its lines come in a queue, which an empty one ends."""
    arguments = [attack.name, str(seed), str(tries), str(prepared), str(folder)]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [*attack.prefix, sys.executable, "-m", "tools.campaign.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env=environment(folder),
            start_new_session=True,
        )
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        process.wait()


def _read(output: IO[str], lines: queue.Queue[str]) -> None:
    with output:
        for line in output:
            lines.put(line)
    lines.put("")


def _next(lines: queue.Queue[str], seconds: float) -> str | None:
    """Return the next line; "" if the process has ended, None if it takes too long."""
    try:
        return lines.get(timeout=seconds)
    except queue.Empty:
        return None


def _why(process: subprocess.Popen[str], line: str | None, waited: float, folder: Path) -> str:
    if line is None:
        return f"it hangs: no end after {waited:g} s"
    code = process.wait()
    last = (folder / "stderr").read_text(errors="replace").strip().splitlines()[-1:]
    return f"the process died with exit code {code}: {' '.join(last)[:300]}"
