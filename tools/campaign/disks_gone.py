"""Disks that go before an update or while it runs, and clocks and times of files that tell nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

from . import tracing
from .contract import Attack, Broken, NotRun, Workplace
from .disk_errors import cannot_mount, mount, own_mounts
from .documents import State, read, same
from .processes import LEXLIP, Ended, check_end, invoke, run, shown

UPDATE = ("index", "--update", "--index", "library/.lexlip")
LISTING = ("openat", "newfstatat", "getdents64", "lstat", "stat", "statx")
DAY = 86_400


def gone(random: Random, place: Workplace) -> None:
    """Take a disk with few of the photos away before an update or while it runs, and bring it back."""
    library = place.folder / "library"
    shutil.copytree(place.prepared / "library", library)
    disk = library / random.choice(["disk", "a disk", "deep/er/disk"])
    disk.mkdir(parents=True)
    mount(disk, "size=4m")
    try:
        _gone(random, place, disk)
    finally:
        subprocess.run(["umount", "-l", disk], check=False, capture_output=True)


def _gone(random: Random, place: Workplace, disk: Path) -> None:
    library, kept = place.folder / "library", place.folder / "kept"
    number = random.choice([1, 2, 4])
    for photo in sorted((place.prepared / "added").iterdir())[: 2 * number]:
        shutil.copy2(photo, disk)
    shutil.copytree(disk, kept)
    _work(*UPDATE)
    before = read(library / ".lexlip")
    on_disk = [id for id in before.ids if id.startswith(f"{disk.relative_to(library)}/")]
    if len(on_disk) != number:
        raise Broken(f"the index has {on_disk} of {number} photos of a disk")

    if random.random() < 0.5:
        (library / "0.jpg").unlink()
    shutil.copy(place.prepared / "others" / "200.jpg", library)
    if random.random() < 0.5:
        os.utime(next(disk.glob("*.jpg")))  # so that the update reads it
    how = random.choice(["before", "removed", "running", "running", "errors", "slow"])
    ended = _update(random, place, disk, how)
    what = f"lexlip index --update, with {number} photos on a disk that is gone ({how})"
    check_end(ended, what, 0, 2)
    after = read(library / ".lexlip")
    if not same(_only(before, on_disk), _only(after, on_disk)):
        raise Broken(f"{what}: of {on_disk} the index has {_only(after, on_disk).ids}: {ended.stderr[-300:]}")
    if how in ("before", "removed") and (ended.code or disk.name not in ended.stderr):
        raise Broken(f"{what} ends with {ended.code} and does not name the disk: {ended.stderr[-300:]}")

    if not os.path.ismount(disk):
        disk.mkdir(exist_ok=True)
        mount(disk, "size=4m")
        shutil.copytree(kept, disk, dirs_exist_ok=True)
    _as_anew(place, what)


def _update(random: Random, place: Workplace, disk: Path, how: str) -> Ended:
    """Run an update while the disk is gone, goes, answers with errors, or is slow."""
    command = [*LEXLIP, *UPDATE]
    if how == "running":
        wait = f"sleep {random.uniform(0, 4):.2f}; umount -l '{disk}'"
        with subprocess.Popen(["sh", "-c", wait]):
            return run(command, place.folder)
    if how in ("before", "removed"):
        subprocess.run(["umount", "-l", disk], check=True)
        if how == "removed":
            disk.rmdir()
        return run(command, place.folder)
    if why := tracing.missing():
        raise NotRun(why)
    errors = ["EIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN"]
    injected = "delay_enter=100000" if how == "slow" else f"error={random.choice(errors)}"
    paths = [option for path in (disk, *disk.iterdir()) for option in ("-P", path)]
    calls = ",".join(f"?{name}" for name in LISTING)
    inject = f"inject={calls}:{injected}:when={random.randint(1, 4)}+"
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *paths]
    return run([*strace, "-e", f"trace={calls}", "-e", inject, *command], place.folder)


def clocks(random: Random, place: Workplace) -> None:
    """Index and update while the clock is wrong, and replace photos by others of equal size and time."""
    library = place.folder / "library"
    shutil.copytree(place.prepared / "library", library)
    new = (
        "index",
        "library",
        "--anew",
        "--index",
        "library/.lexlip",
        "--model",
        place.prepared / "words/best",
    )
    for command in (new, UPDATE, UPDATE):
        wrong = random.choice([-2 * DAY, -300, 0, 300, 2 * DAY, random.uniform(-1, 1)])
        with patch("time.time", _clock(wrong)):
            _work(*command)
        photos = sorted(library.glob("*.jpg"))
        for photo in random.sample(photos, random.randint(1, 4)):
            _change(random, photo, random.choice(photos))
    with patch("time.time", _clock(random.choice([-DAY, 0, DAY]))):
        _as_anew(place, "updates while the clock was wrong")


def _clock(seconds: float) -> object:
    now = time.time
    return lambda: now() + seconds


def _change(random: Random, photo: Path, other: Path) -> None:
    """Replace a photo, or what lies beside it, so that as little as possible tells."""
    of = random.choice([photo, photo, photo.with_suffix(".txt"), photo.with_suffix(".jpg.xmp")])
    was = of.stat() if of.exists() else None
    data = other.read_bytes() if of == photo else os.urandom(20).hex().encode()
    if was is not None and of == photo:  # what follows the end of a JPEG is not read
        data = data.ljust(was.st_size, b"\0")
    swap = of.with_suffix(".new")
    (swap if random.random() < 0.5 else of).write_bytes(data)
    if swap.exists():
        swap.rename(of)
    if was is not None:
        os.utime(of, ns=(was.st_atime_ns, random.choice([was.st_mtime_ns, was.st_mtime_ns, 0, 2**61])))


def _as_anew(place: Workplace, what: str) -> None:
    """Check that after one more update the index is as one that is made anew.

    Raises:
        Broken: it is not.
    """
    _work(*UPDATE)
    _work("index", "library", "--index", "anew", "--model", place.prepared / "words" / "best")
    updated, anew = Path("library/.lexlip"), Path("anew")
    if _texts(updated) != _texts(anew) or not same(read(updated), read(anew)):
        raise Broken(f"after {what}, the next update does not lead to the index as it would be made anew")


def _work(*command: object) -> None:
    """Run a command, which must work."""
    ended = invoke(*command)
    if ended.code:
        raise Broken(f"lexlip {shown(command)} ends with exit code {ended.code}: {ended.stderr[-300:]}")


def _texts(index: Path) -> dict[str, object]:
    """Return the captions and keywords of the photos of an index."""
    from anserini_bridge import read_header
    from lexlip.retrieval.photo_table import open_photos

    with open_photos(index, read_header(index)) as table:
        found = table.get(read(index).ids)
    return {photo.id: (photo.captions, photo.keywords, photo.digest) for photo in found if photo}


def _only(state: State, ids: Sequence[str]) -> State:
    return state.without([id for id in state.ids if id not in ids])


ATTACKS = (
    Attack("disks.gone", gone, 20, 1, seconds=180, missing=cannot_mount, prefix=own_mounts()),
    Attack("disks.clocks", clocks, 20, 1, seconds=180),
)
