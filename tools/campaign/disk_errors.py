"""Full and failing disks: an error injected at one system call, and a file system that is too small."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from . import tracing
from .contract import Attack, Broken, NotRun, Workplace
from .documents import State, read
from .documents import same as same_documents
from .prepare import index_of, sharded
from .processes import LEXLIP, Ended, check_end, invoke, run

FAILING = {
    "write", "pwrite64", "writev", "fsync", "fdatasync", "openat", "mkdir", "mkdirat", "ftruncate",
    "rename", "renameat", "renameat2",
}  # fmt: skip
"""Calls that a disk lets fail."""

CHOICES = 5  # calls that a try chooses at most, as some do not come in every run

COMMANDS = {
    "optimize": ("optimize", "--index", "library/.lexlip"),
    "shards": ("optimize", "--index", "library/.lexlip"),  # an index in shards
    "update": ("index", "--update", "--index", "library/.lexlip"),
    "index": ("index", "library", "--anew", "--index", "library/.lexlip", "--model"),
    "bm25": ("index", "library", "--index", "library/.lexlip", "--model", "bm25"),
    "dense": ("index", "library", "--index", "library/.lexlip", "--model"),
}


def at_a_call(random: Random, place: Workplace) -> None:
    """Let one call of a command fail; if the command does not come to it, another one."""
    for _ in range(CHOICES):
        if _at_one(random, place):
            return
        shutil.rmtree(place.folder / "library")
    raise NotRun(tracing.NEVER_CAME)


def _at_one(random: Random, place: Workplace) -> bool:
    """Let one call of a command fail; return whether the command came to it."""
    name = random.choice(["optimize", "shards", "update", "index", "bm25", "dense"])
    calls = [call for call in recorded(name, place.prepared) if call.name in FAILING and _of_index(call)]
    call, error = random.choice(calls), random.choice(["ENOSPC", "EIO"])
    library = copy(place, name)
    old, new = state_of(library), expected(name, place.prepared)
    ended, came = tracing.at(
        call._replace(path=f"{library}{call.path}"), f"error={error}", command(name, place), place.folder
    )
    what = f"lexlip {name} with {error} at {call.name} {call.number} of {call.path}"
    _check(ended, what, library, old, new)
    again(name, place, library, what)
    return came


def _of_index(call: tracing.Call) -> bool:
    """Return whether a call is not one for a photo, which may be skipped."""
    return call.path.startswith("/.lexlip")


def too_small(random: Random, place: Workplace) -> None:
    """Run a command where there is too little space, and then again with enough."""
    name = random.choice(["optimize", "update", "bm25"])
    made = copy(place, name)
    disk = place.folder / "disk"
    disk.mkdir()
    mount(disk, "size=64m")
    try:
        library = disk / "library"
        shutil.copytree(made, library, symlinks=True)
        room = os.statvfs(disk)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize // 1024
        size = used + random.randrange(4, 72, 4)
        mount(disk, f"remount,size={size}k")
        old, new = state_of(library), expected(name, place.prepared)
        ended = run(command(name, place), disk)
        what = f"lexlip {name} on a disk of {size} kB, of which {used} are taken"
        _check(ended, what, library, old, new)
        mount(disk, "remount,size=64m")
        again(name, place, library, what)
        if ended.code == 0:
            raise NotRun("in some tries the space was enough")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def _check(ended: Ended, what: str, library: Path, old: State | str, new: State | str) -> None:
    check_end(ended, what, 0, 2)
    found = state_of(library)
    if not any(same(found, one) for one in (old, new)):
        raise Broken(f"{what}: the index is neither in the old nor in the new state")
    if ended.code == 0 and not same(found, new):
        raise Broken(f"{what}: it says that all went well, and the index is not in the new state")


def again(name: str, place: Workplace, library: Path, what: str) -> None:
    """Run a command again, which must now work.

    Raises:
        Broken: it does not.
    """
    os.chdir(library.parent)
    ended = invoke(*command(name, place)[len(LEXLIP) :])
    if ended.code:
        raise Broken(f"{what}: the next one, without an error, ends with {ended.code}: {ended.stderr[-300:]}")
    if not same(state_of(library), expected(name, place.prepared)):
        raise Broken(f"{what}: the next one, without an error, does not lead to the new state")


def same(one: State | str, other: State | str) -> bool:
    if isinstance(one, State) and isinstance(other, State):
        return same_documents(one, other)
    return isinstance(one, str) and one == other


def state_of(library: Path) -> State | str:
    """Return the vectors of an index of words; of another kind what it answers, and a sharded one's size."""
    index = library / ".lexlip"
    kind = json.loads((index / "index.json").read_text()).get("kind", "impact")
    if kind == "impact":
        return read(index)
    found = invoke("search", "two red circles", "-k", 20, "--index", index, "--json")
    if found.code:
        raise Broken(f"the index cannot be searched: {found.stderr[-300:]}")
    hits = json.loads(found.stdout)["hits"]
    segments = segments_of(index) if kind == "sharded" else None
    return json.dumps([segments, [(hit["id"], round(hit["score"], 5)) for hit in hits]])


def segments_of(index: Path) -> list[int]:
    """Return how many segments of Lucene's each shard of an index has."""
    from lexlip.cluster.shard_updating import segments
    from lexlip.search.engines.shard import read_sharded

    metadata = read_sharded(index)
    return [segments(index / metadata.directory / shard["folder"]) for shard in metadata.shards]


def copy(place: Workplace, name: str) -> Path:
    """Return a copy of the library, with photos to add if the command is an update."""
    library = place.folder / "library"
    shutil.copytree(sharded(place.prepared) if name == "shards" else place.prepared / "library", library)
    if name == "update":
        shutil.copytree(place.prepared / "added", library, dirs_exist_ok=True)
    if name in ("bm25", "dense"):  # an index of that kind is replaced
        shutil.rmtree(library / ".lexlip")
        kind = "flat" if name == "dense" else "bm25"
        shutil.copytree(index_of(place.prepared, kind), library / ".lexlip")
    return library


def command(name: str, place: Workplace) -> list[str]:
    """Return a command by its name; it is run in the folder above the library."""
    model = {"index": "words", "dense": "dense"}.get(name)
    return [*LEXLIP, *COMMANDS[name], *([str(place.prepared / model / "best")] if model else [])]


@cache
def recorded(name: str, prepared: Path) -> list[tracing.Call]:
    """Return the calls of a command that touch its library, with paths relative to that."""
    _remember(name, prepared)
    return [tracing.Call(*call) for call in json.loads((prepared / f"calls-{name}.json").read_text())]


@cache
def expected(name: str, prepared: Path) -> State | str:
    """Return the state that a command leads to, without any attack."""
    folder = prepared / f"after-{name}"
    if not folder.exists():
        place = Workplace(prepared, prepared / f"making-{name}-{os.getpid()}")
        place.folder.mkdir()
        library = copy(place, name)
        ended = run(command(name, place), place.folder)
        if ended.code:
            raise NotRun(f"lexlip {name} fails without any attack: {ended.stderr[-300:]}")
        _keep(library, folder)
        shutil.rmtree(place.folder)
    return state_of(folder)


def _remember(name: str, prepared: Path) -> None:
    file = prepared / f"calls-{name}.json"
    if file.exists():
        return
    place = Workplace(prepared, prepared / f"tracing-{name}-{os.getpid()}")
    place.folder.mkdir()
    library = copy(place, name)
    calls = tracing.record(command(name, place), place.folder, library)
    relative = [(call.name, call.path.removeprefix(str(library)), call.number) for call in calls]
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(relative))
    temporary.replace(file)
    shutil.rmtree(place.folder)


def _keep(library: Path, folder: Path) -> None:
    """Move a library to its lasting place, unless another process was quicker."""
    try:
        library.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def mount(disk: Path, options: str) -> None:
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True, text=True
    )
    if made.returncode:
        raise NotRun(f"a small file system cannot be mounted: {made.stderr.strip()}")


@cache
def own_mounts() -> tuple[str, ...]:
    """Return what a process is started with that may mount, without anybody else seeing it."""
    return ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")


@cache
def cannot_mount() -> str | None:
    if shutil.which("unshare") is None:
        return "unshare is missing: install util-linux"
    test: Sequence[str] = [*own_mounts(), "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/tmp"]
    done = subprocess.run(test, capture_output=True, text=True)
    return None if done.returncode == 0 else f"no file system may be mounted here: {done.stderr.strip()}"


ATTACKS = (
    Attack("disk-errors.at-a-call", at_a_call, 20, 1, seconds=180, missing=tracing.missing),
    Attack("disk-errors.too-small", too_small, 10, 0, 120, missing=cannot_mount, prefix=own_mounts()),
)
