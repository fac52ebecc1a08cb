"""Runs a measurement where nothing ran before."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process, which starts processes of its own as this one does.

    Raises:
        BrokenProcessPool: the system ended the process, as it does where memory runs out.
    """
    context = multiprocessing.get_context("forkserver")  # forks from one with neither threads nor a GPU
    context.set_forkserver_preload([function.__module__])
    with ProcessPoolExecutor(1, context, _start_by, (multiprocessing.get_start_method(),)) as pool:
        return pool.submit(function, *arguments).result()


def _start_by(method: str) -> None:
    """What a forkserver started would use one itself, and so import everything again."""
    multiprocessing.set_start_method(method, force=True)
