"""System calls of a command that touch a folder, and what strace does to it at one of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from .contract import Broken, Place
from .prepare import made_once
from .processes import Ended, run

CHANGING = (
    "write pwrite64 writev fsync fdatasync rename renameat renameat2 unlink unlinkat openat mkdir mkdirat"
    " rmdir ftruncate symlink symlinkat flock"
).split()
"""Those that matter, on one machine or another."""

NEVER_CAME = "in some tries the call that was chosen did not come, as threads work in another order each time"


class Call(NamedTuple):
    """One system call: the `number`th of this name that touches this path."""

    name: str
    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.name} {self.number} of {self.path}"


class Job(Protocol):
    """A command, and the folder that it changes."""

    command: list[object]
    watched: Path


@cache
def missing() -> str | None:
    """Return why nothing can be traced here, or None."""
    if shutil.which("strace") is None:
        return "strace is missing: install it (on Debian: apt-get install strace)"
    done = subprocess.run(["strace", "-f", "-e", "trace=getpid", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()[:200]}"


def record(command: Sequence[object], folder: Path, watched: Path) -> list[Call]:
    """Run a command in a folder; return its calls that touch what lies in the folder `watched`.

    Raises:
        Broken: the command fails, without any attack.
    """
    log = folder / "strace.log"
    names = ",".join(f"?{name}" for name in CHANGING)
    strace = ["strace", *"-f --seccomp-bpf -qq -y -s 0 -o".split(), log, "-e", f"trace={names}"]
    ended = run([*strace, *command], folder)
    if ended.code:
        raise Broken(f"without an attack it ends with exit code {ended.code}: {ended.stderr[-300:]}")
    touching = re.compile(rf'\d+ +(\w+)\(.*?["<]{re.escape(str(watched))}([^">]*)')
    counts: Counter[tuple[str, str]] = Counter()
    calls = []
    for line in log.read_text(errors="replace").splitlines():
        if found := touching.match(line):
            name, path = found.groups()
            counts[name, path] += 1
            calls.append(Call(name, path, counts[name, path]))
    return calls


def calls_of(name: str, place: Place, begin: Callable[[Place], Job]) -> list[Call]:
    """Return the calls of a job, which begins in a place of its own; recorded once in a campaign."""

    def record_once(kept: Path) -> None:
        folder = place.prepared / f"tracing-{name}-{os.getpid()}"
        folder.mkdir()
        job = begin(Place(place.prepared, folder))
        kept.write_text(json.dumps(record(job.command, folder, job.watched)))
        shutil.rmtree(folder)

    kept = made_once(place.prepared / f"calls-{name}.json", record_once)
    return [Call(*call) for call in json.loads(kept.read_text())]


def at(call: Call, what: str, command: Sequence[object], folder: Path, watched: Path) -> tuple[Ended, bool]:
    """Run a command, and let something happen at a call.

    Args:
        call: of the same command.
        what: as strace has it, such as signal=KILL or error=ENOSPC.
        command, folder, watched: see `record`.

    Returns:
        How it ended, and whether the call came.
    """
    log = folder / "injected.log"
    fast = [] if what.startswith("signal") else ["--seccomp-bpf"]  # with which no signal comes
    tracing = ["strace", "-f", *fast, "-qq", "-o", log, "-P", f"{watched}{call.path}"]
    inject = ["-e", f"trace={call.name}", "-e", f"inject={call.name}:{what}:when={call.number}"]
    ended = run([*tracing, *inject, *command], folder)
    return ended, "INJECTED" in log.read_text(errors="replace") or ended.code == -signal.SIGKILL
