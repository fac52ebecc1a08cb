"""How further processes are started, and how a function is run in one of its own."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

Result = TypeVar("Result")


def worker_context() -> BaseContext:
    """Return the multiprocessing context for worker processes.

    It is the system's default, which forks on Linux, unless this process runs a JVM: a JVM does not survive
    a fork, so workers are then spawned.
    """
    return multiprocessing.get_context("spawn" if "jnius" in sys.modules else None)


def in_own_process(
    function: Callable[..., Result], *arguments: Any, killed: Exception | None = None
) -> Result:
    """Run a function in a new process in which nothing ran before, and return what it returns.

    The new process starts its own workers by this process's start method.

    Raises:
        BrokenProcessPool: the system killed the process, for example because memory ran out; or `killed`.
    """
    if "forkserver" in multiprocessing.get_all_start_methods():
        context: Any = multiprocessing.get_context("forkserver")  # forks from one without threads or a GPU
        context.set_forkserver_preload([function.__module__])
    else:
        context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, _set_start_method, (multiprocessing.get_start_method(),)) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            if killed is None:
                raise
            raise killed from error


def _set_start_method(method: str) -> None:
    """Set the start method, which a process of the forkserver would otherwise inherit as "forkserver"."""
    multiprocessing.set_start_method(method, force=True)
