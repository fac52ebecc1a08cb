"""Commands in processes of their own, and what may be expected of their ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .contract import Broken

ROOT = Path(__file__).parents[2]
LEXLIP = (sys.executable, "-m", "lexlip")
WRITER = (sys.executable, "-m", "tools.campaign.writer")
HASTY_SERVER = (sys.executable, "-m", "tools.campaign.hasty_server")
SECONDS = 120  # that a command may take

_STACK = re.compile(r"Traceback \(most recent|^\s+at [\w.$]+\(|^Exception in thread|hs_err_pid", re.MULTILINE)


class Ended(NamedTuple):
    """What is left of a command: its exit code, or minus the signal, and what it printed."""

    code: int
    stdout: str
    stderr: str


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that keeps its cache in a folder, and asks no hub."""
    own = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "200"}
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **own}


def run(arguments: Sequence[object], folder: Path, seconds: float = SECONDS) -> Ended:
    """Run a command in a folder until it ends.

    Raises:
        Broken: it hangs.
    """
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
    """Run `lexlip` in this process, which is quick.

    Raises:
        Broken: an error came through that is not for users.
    """
    from click.testing import CliRunner

    from lexlip.cli import main

    result = CliRunner().invoke(main, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        error = result.exception
        raise Broken(
            f"lexlip {shown(arguments)} ends with a traceback: {type(error).__name__} at {place_of(error)}:"
            f" {str(error)[:300]}"
        ) from error
    return Ended(result.exit_code, result.stdout, result.stderr)


def check_end(ended: Ended, what: str, *codes: int) -> None:
    """Check that a command has ended with one of some exit codes, and if not with 0, with a sentence.

    Raises:
        Broken: it has not.
    """
    if found := _STACK.search(ended.stderr + ended.stdout):
        last = ended.stderr.strip().splitlines()[-1:] or [found[0]]
        raise Broken(f"{what} shows a stack ({found[0].strip()}; exit code {ended.code}): {last[0][:300]}")
    if ended.code not in codes:
        raise Broken(f"{what} ends with exit code {ended.code}: {ended.stderr.strip()[-300:]}")
    if ended.code == 2 and not re.search(r"^Error: \S", ended.stderr, re.MULTILINE):
        raise Broken(f"{what} ends with exit code 2 and no sentence: {ended.stderr.strip()[-300:]!r}")


def shown(arguments: Sequence[object]) -> str:
    """Return arguments as one may type them."""
    return " ".join(ascii(str(one))[1:-1][:80] or "''" for one in arguments)


def place_of(error: BaseException) -> str:
    """Return where in the project an error comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if Path(one.filename).is_relative_to(ROOT) and ".venv" not in one.filename]
    last = (ours or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"
