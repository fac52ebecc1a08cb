"""Commands, in processes of their own or in this one, and what may be expected of their ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anserini_bridge.errors import FixableError

from .contract import Broken, T

ROOT = Path(__file__).parents[2]
LEXLIP = (sys.executable, "-m", "lexlip")
SECONDS = 120  # that a command may take

_STACK = re.compile(r"Traceback \(most recent|^\s+at [\w.$]+\(|^Exception in thread|hs_err_pid", re.MULTILINE)


class Ended(NamedTuple):
    """What is left of a command: its exit code, or minus the signal, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def hits(self) -> list[Any]:
        """Those of a search with --json."""
        return hits_of(self.stdout)


def hits_of(answer: str | bytes, digits: int = 5) -> list[Any]:
    """Return id and score of the hits in JSON, and where below a folder `index` the photo is."""
    return [
        [hit["id"], hit["path"].partition("/index/")[2], round(hit["score"], digits)]
        for hit in json.loads(answer)["hits"]
    ]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that keeps its cache in a folder, and asks no hub."""
    own = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "200"}
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **own}


def run(arguments: Sequence[object], folder: Path, seconds: float = SECONDS) -> Ended:
    """Run a command in a folder until it ends; Broken: it hangs."""
    try:
        done = subprocess.run(
            list(map(str, arguments)),
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise Broken(f"{shown(arguments)} has not ended after {seconds:g} s") from None
    return Ended(done.returncode, done.stdout, done.stderr)


def invoke(*arguments: object) -> Ended:
    """Run `lexlip` in this process, which is quick; Broken: an error came through that is not for users."""
    from click.testing import CliRunner

    from lexlip.cli import main

    result = CliRunner().invoke(main, list(map(str, arguments)))
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        what = f"{type(error).__name__} at {place_of(error)}: {str(error)[:300]}"
        raise Broken(f"lexlip {shown(arguments)} ends with a traceback: {what}") from error
    return Ended(result.exit_code, result.stdout, result.stderr)


def must(*arguments: object, after: str = "") -> Ended:
    """Run `lexlip` in this process; Broken, which says `after` what: it does not work."""
    ended = invoke(*arguments)
    if ended.code:
        what = f"{after and f'after {after} '}lexlip {shown(arguments)}"
        raise Broken(f"{what} ends with exit code {ended.code}: {ended.stderr[-300:]}")
    return ended


def check_end(ended: Ended, what: str, *codes: int) -> None:
    """Check that a command has ended with one of some exit codes, and if with 2, with a sentence."""
    if found := _STACK.search(ended.stderr + ended.stdout):
        last = ended.stderr.strip().splitlines()[-1:] or [found[0]]
        raise Broken(f"{what} shows a stack ({found[0].strip()}; exit code {ended.code}): {last[0][:300]}")
    if ended.code not in codes:
        raise Broken(f"{what} ends with exit code {ended.code}: {ended.stderr.strip()[-300:]}")
    if ended.code == 2 and not re.search(r"^Error: \S", ended.stderr, re.MULTILINE):
        raise Broken(f"{what} ends with exit code 2 and no sentence: {ended.stderr.strip()[-300:]!r}")


@contextmanager
def refusals() -> Iterator[None]:
    """Let errors for users pass.

    Raises:
        Broken: the message, or the reason why a photo cannot be read, is not one line.
    """
    try:
        yield
    except FixableError as error:
        said = str(getattr(error, "reason", error))
        if not said or "\n" in said:
            raise Broken(f"the error says {said!r}") from error


def spawn(command: Sequence[object], folder: Path, name: str = "output") -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; what it prints goes to files NAME and NAME.err."""
    with (folder / name).open("wb") as output, (folder / f"{name}.err").open("wb") as errors:
        return subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )


def printed(folder: Path, name: str = "output") -> str:
    """Return what a command that `spawn` started has printed."""
    return "".join((folder / file).read_text(errors="replace") for file in (name, f"{name}.err"))


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, with all that it started, if it has not ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(ready: Callable[[], T], process: subprocess.Popen[bytes], seconds: float = 60) -> T | None:
    """Return the first true answer, or None if the process ends before it, or the time does."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        if found := ready():
            return found
        time.sleep(0.003)
    return None


def address_of(process: subprocess.Popen[bytes], folder: Path, name: str = "output") -> str:
    """Wait until a server answers, and return its address; Broken: it does not start."""
    ready = wait_for(lambda: re.search(r"(http://\S+)/ \(Ctrl-C ends", printed(folder, name)), process)
    if not ready:
        kill(process)
        raise Broken(f"lexlip serve does not start: {printed(folder, name)[-300:]}")
    return ready[1]


@contextmanager
def serving(command: Sequence[object], folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a server, and kill it in the end."""
    process = spawn(command, folder)
    try:
        yield address_of(process, folder), process
    finally:
        kill(process)


def shown(arguments: Sequence[object]) -> str:
    """Return arguments as one may type them."""
    return " ".join(ascii(str(one))[1:-1][:80] or "''" for one in arguments)


def place_of(error: BaseException) -> str:
    """Return where in the project an error comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if Path(one.filename).is_relative_to(ROOT) and ".venv" not in one.filename]
    last = (ours or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"
