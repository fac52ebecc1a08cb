"""Processes that fork from one that has loaded torch and the models, which takes seconds, once."""

import multiprocessing
import os
from collections.abc import Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any


@cache
def forks() -> BaseContext:
    """Start the server of forks, in this process and before anything else does."""
    multiprocessing.set_forkserver_preload(["lexlip.models.lexlip", "lexlip.models.dense"])
    forkserver.ensure_running()
    return multiprocessing.get_context("forkserver")


def lexlip_forked(arguments: Sequence[str]) -> int | None:
    """Run `lexlip` in this folder, in a process of its own; return its exit code."""
    process: Any = forks().Process(target=_run, args=(arguments, Path.cwd(), dict(os.environ)))  # type: ignore[attr-defined]
    process.start()
    process.join()
    return process.exitcode  # type: ignore[no-any-return]


def _run(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    from lexlip.cli import main

    os.chdir(folder)
    os.environ.update(environment)
    main(list(arguments), prog_name="lexlip")
