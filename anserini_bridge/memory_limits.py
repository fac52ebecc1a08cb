"""How much memory this process may take: its limit of address space (`ulimit -v`), and its container's."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
_ARENA_MAX = -8  # an option of mallopt, from glibc's malloc.h
_UNLIMITED = 2**62  # bytes; version 1 of cgroups has a number there, too


def address_space() -> float:
    """Return the bytes of address space that this process may have, infinite without a limit."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if soft == resource.RLIM_INFINITY else soft


def address_space_left() -> float:
    """Return the bytes of address space that this process may still take, infinite without a limit."""
    limit = address_space()
    return limit if limit == math.inf or sys.platform != "linux" else limit - _pages(0)


def memory_left() -> float:
    """Return the bytes that this process may still take by either limit, infinite without both."""
    allowed = container_memory()
    if allowed < math.inf:
        allowed -= _pages(1)
    return min(allowed, address_space_left())


def container_memory() -> float:
    """Return the bytes of memory that the containers around this process allow, infinite without a limit."""
    try:
        lines = CGROUP.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return math.inf
    limits = [_limit(file) for line in lines for file in _files(*line.split(":", 2)[1:])]
    return min((limit for limit in limits if limit < _UNLIMITED), default=math.inf)


def _pages(field: int) -> int:
    """Return the bytes of address space (0) or memory (1) that this process has."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[field]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _files(controllers: str, path: str) -> Iterable[Path]:
    """Return the files that may hold a limit: of a group, and of those around it."""
    if controllers not in ("", "memory"):  # version 2 names none
        return []
    root, name = (CGROUPS, "memory.max") if not controllers else (CGROUPS / "memory", "memory.limit_in_bytes")
    inside = root / path.lstrip("/")
    # a container sees its own group as the root, though its path may be that on the machine
    return [folder / name for folder in (inside, *inside.parents) if folder.is_relative_to(root)]


def _limit(file: Path) -> float:
    try:
        return float(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max", or there is no such file
        return math.inf


def spare_address_space() -> None:
    """Let threads share a heap of glibc: each of their own takes 64 MB of address space; one is kept."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
