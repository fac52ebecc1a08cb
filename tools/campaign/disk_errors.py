"""Full and failing disks: an error injected at one system call, and a file system that is too small."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

from . import tracing
from .contract import NotRun, Place, attack
from .operations import Operation
from .processes import run

FAILING = {
    "write", "pwrite64", "writev", "fsync", "fdatasync", "openat", "mkdir", "mkdirat", "ftruncate",
    "rename", "renameat", "renameat2",
}  # fmt: skip
"""Calls that a disk lets fail."""

CHOICES = 5  # calls that a try chooses at most, as some do not come in every run


@cache
def own_mounts() -> tuple[str, ...]:
    """Return what a process is started with that may mount, without anybody else seeing it."""
    return ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")


@cache
def cannot_mount() -> str | None:
    """Return why nothing can be mounted here, or None."""
    if shutil.which("unshare") is None:
        return "unshare is missing: install util-linux"
    test = [*own_mounts(), *"mount -t tmpfs -o size=64k tmpfs /tmp".split()]
    done = subprocess.run(test, capture_output=True, text=True)
    return None if done.returncode == 0 else f"no file system may be mounted here: {done.stderr.strip()}"


def mount(disk: Path, options: str) -> None:
    """Mount a file system in memory, or change it."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        raise NotRun(f"a small file system cannot be mounted: {made.stderr.strip()}")


@contextmanager
def mounted(disk: Path, options: str) -> Iterator[Path]:
    """Mount a file system in memory at a folder, which is made."""
    disk.mkdir(parents=True)
    mount(disk, options)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)


@attack("disk-errors.at-a-call", 20, 1, 180, missing=tracing.missing)
def at_a_call(random: Random, place: Place) -> None:
    """Let one call of a command fail; if the command does not come to it, another one."""
    for _ in range(CHOICES):
        job = Operation.any(random, place)
        # those for a photo are left out: it may be skipped
        written = ("/.lexlip", "/.copies", *(["/."] if job.name == "keywords" else []))
        calls = [one for one in job.calls() if one.name in FAILING and one.path.startswith(written)]
        call, error = random.choice(calls), random.choice(["ENOSPC", "EIO"])
        ended, came = tracing.at(call, f"error={error}", job.command, place.folder, job.library)
        what = f"lexlip {job.name} with {error} at {call}"
        job.check_ended(ended, what)
        job.check_again(what)
        if came:
            return
        shutil.rmtree(job.library)
    raise NotRun(tracing.NEVER_CAME)


@attack("disk-errors.too-small", 10, 0, 120, missing=cannot_mount, prefix=own_mounts())
def too_small(random: Random, place: Place) -> None:
    """Run a command where there is too little space, and then again with enough."""
    with mounted(place.folder / "disk", "size=64m") as disk:
        job = Operation(random.choice(["optimize", "update", "bm25"]), replace(place, folder=disk))
        room = os.statvfs(disk)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize // 1024
        size = used + random.randrange(4, 72, 4)
        mount(disk, f"remount,size={size}k")
        ended = run(job.command, disk)
        what = f"lexlip {job.name} on a disk of {size} kB, of which {used} are taken"
        job.check_ended(ended, what)
        mount(disk, "remount,size=64m")
        job.check_again(what)
        os.chdir(place.folder)
    if ended.code == 0:
        raise NotRun("in some tries the space was enough")
