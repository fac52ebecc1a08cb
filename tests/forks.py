"""Processes that fork from one that has loaded torch and the models, which takes seconds, once."""

import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

OUTPUT = "stdout", "stderr"
SECONDS = 600  # that a process may take


@cache
def forks() -> BaseContext:
    """Start the server of forks, in this process and before anything else does."""
    multiprocessing.set_forkserver_preload(["lexlip.models.lexlip", "lexlip.models.dense"])
    forkserver.ensure_running()
    return multiprocessing.get_context("forkserver")


def run_forked(
    function: Callable[..., object],
    *arguments: object,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
) -> Any:
    """Run a function in a process of its own, as `subprocess.run` does a program; return its exit code.

    Args:
        function: what runs.
        arguments: of it.
        folder: where it runs, in place of this process's.
        environment: variables that it has, in place of this process's.
        output: a folder for what it prints, in the files stdout and stderr.
    """
    process = start_forked(function, *arguments, folder=folder, environment=environment, output=output)
    process.join(SECONDS)
    process.kill()  # if it hangs
    process.join()
    return process.exitcode


def start_forked(
    function: Callable[..., object],
    *arguments: object,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
) -> Any:
    """Start such a process."""
    given = folder or Path.cwd(), dict(environment or os.environ), output, multiprocessing.get_start_method()
    process: Any = forks().Process(target=_run, args=(function, arguments, *given))  # type: ignore[attr-defined]
    process.start()
    return process


def run_script(script: Path, *arguments: str) -> None:
    """Do what `python SCRIPT ARGUMENTS` does."""
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")


def _run(
    function: Callable[..., object],
    arguments: tuple[object, ...],
    folder: Path,
    environment: dict[str, str],
    output: Path | None,
    method: str,
) -> None:
    multiprocessing.set_start_method(method, force=True)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if output is not None:
        print_to(output)
    function(*arguments)


def print_to(folder: Path) -> None:
    """Print to the files stdout and stderr of a folder from now on."""
    for number, name in enumerate(OUTPUT, 1):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
