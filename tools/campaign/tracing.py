"""System calls of a command that touch a folder, and what strace does to it at one of them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .contract import Broken
from .processes import SECONDS, Ended, environment, run

CHANGING = (
    *("write", "pwrite64", "writev", "fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink"),
    *("unlinkat", "openat", "mkdir", "mkdirat", "rmdir", "ftruncate", "symlink", "symlinkat", "flock"),
)
"""Those that matter, on one machine or another."""

NEVER_CAME = "in some tries the call that was chosen did not come, as threads work in another order each time"


class Call(NamedTuple):
    """One system call: the `number`th of this name that touches this path."""

    name: str
    path: str
    number: int


@cache
def missing() -> str | None:
    """Return why nothing can be traced here, or None."""
    if shutil.which("strace") is None:
        return "strace is missing: install it (on Debian: apt-get install strace)"
    done = subprocess.run(["strace", "-f", "-e", "trace=getpid", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()[:200]}"


def record(command: Sequence[object], folder: Path, watched: Path) -> list[Call]:
    """Run a command, and return its calls that touch what lies in a folder.

    Args:
        command: to run.
        folder: to run it in.
        watched: the folder.

    Raises:
        Broken: the command fails, without any attack.
    """
    log = folder / "strace.log"
    names = ",".join(f"?{name}" for name in CHANGING)
    ended = run(
        [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-y",
            "-s",
            "0",
            "-o",
            log,
            "-e",
            f"trace={names}",
            *command,
        ],
        folder,
    )
    if ended.code:
        raise Broken(f"without an attack it ends with exit code {ended.code}: {ended.stderr[-300:]}")
    touching = re.compile(rf'\d+ +(\w+)\(.*?["<]({re.escape(str(watched))}[^">]*)')
    calls: list[Call] = []
    counts: dict[tuple[str, str], int] = {}
    for line in log.read_text(errors="replace").splitlines():
        if (found := touching.match(line)) is not None:
            name, path = found.groups()
            counts[name, path] = counts.get((name, path), 0) + 1
            calls.append(Call(name, path, counts[name, path]))
    return calls


def at(call: Call, what: str, command: Sequence[object], folder: Path) -> tuple[Ended, bool]:
    """Run a command, and let something happen at a call.

    Args:
        call: of the same command.
        what: as strace has it, such as signal=KILL or error=ENOSPC.
        command, folder: see `record`.

    Returns:
        How it ended, and whether the call came.
    """
    log = folder / "injected.log"
    when = f"inject={call.name}:{what}:when={call.number}"
    fast = [] if what.startswith("signal") else ["--seccomp-bpf"]  # with which no signal comes
    strace = ["strace", "-f", *fast, "-qq", "-o", log, "-P", call.path]
    tracing = [*strace, "-e", f"trace={call.name}", "-e", when]
    ended = run([*tracing, *command], folder)
    text = log.read_text(errors="replace")
    return ended, "INJECTED" in text or ended.code == -signal.SIGKILL


def spawn(command: Sequence[object], folder: Path, output: Path) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, whose output goes to a file."""
    with output.open("wb") as file:
        return subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_for_writing(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a command adds names to a folder or one below it, or removes some, or ends."""
    before = _changed(folder)
    until = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < until:
        if _changed(folder) != before:
            return
        time.sleep(0.003)


def _changed(folder: Path) -> dict[str, int]:
    """Return when names were last added to each folder, or removed."""
    changed = {}
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            changed[path] = Path(path).stat().st_mtime_ns
    return changed


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that `spawn` started, with all that it started, if it has not ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
