"""How processes that list, decode and tokenize are started."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.context import BaseContext


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_context() -> BaseContext:
    """Forks where the system does, but not a process that runs a JVM: its copy would not be safe to use."""
    return multiprocessing.get_context("spawn" if "jnius" in sys.modules else None)
