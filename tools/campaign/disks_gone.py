"""Disks that go before an update or while it runs, and clocks and times of files that tell nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from random import Random
from unittest.mock import patch

from . import tracing
from .contract import Broken, NotRun, Place, attack
from .disk_errors import cannot_mount, mount, mounted, own_mounts
from .documents import State, read
from .operations import COMMANDS
from .processes import LEXLIP, Ended, check_end, must, run

UPDATE = COMMANDS["update"]
LISTING = ",".join(f"?{name}" for name in "openat newfstatat getdents64 lstat stat statx".split())
ERRORS = ("EIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN")
DAY = 86_400


@attack("disks.gone", 20, 1, 180, missing=cannot_mount, prefix=own_mounts())
def gone(random: Random, place: Place) -> None:
    """Take a disk with few of the photos away before an update or while it runs, and bring it back."""
    library, kept = place.folder / "library", place.folder / "kept"
    shutil.copytree(place.prepared / "library", library)
    number = random.choice([1, 2, 4])
    with mounted(library / random.choice(["disk", "a disk", "deep/er/disk"]), "size=4m") as disk:
        for photo in sorted((place.prepared / "added").iterdir())[: 2 * number]:
            shutil.copy2(photo, disk)
        shutil.copytree(disk, kept)
        must(*UPDATE)
        before = read(library / ".lexlip")
        on_disk = [id for id in before.ids if id.startswith(f"{disk.relative_to(library)}/")]
        if len(on_disk) != number:
            raise Broken(f"the index has {on_disk} of {number} photos of a disk")

        _change_some(random, place, disk)
        how = random.choice(["before", "removed", "running", "running", "errors", "slow"])
        ended = _update(random, place, disk, how)
        what = f"lexlip index --update, with {number} photos on a disk that is gone ({how})"
        check_end(ended, what, 0, 2)
        held = _only(read(library / ".lexlip"), on_disk)
        if held != _only(before, on_disk):
            raise Broken(f"{what}: of {on_disk} the index has {held.ids}: {ended.stderr[-300:]}")
        if how in ("before", "removed") and (ended.code or disk.name not in ended.stderr):
            raise Broken(f"{what} ends with {ended.code}, does not name the disk: {ended.stderr[-300:]}")

        if not os.path.ismount(disk):
            disk.mkdir(exist_ok=True)
            mount(disk, "size=4m")
            shutil.copytree(kept, disk, dirs_exist_ok=True)
        _as_anew(place, what)


def _change_some(random: Random, place: Place, disk: Path) -> None:
    """Change some photos of the library; one of the disk is made to look changed, so that it is read."""
    library = place.folder / "library"
    if random.random() < 0.5:
        (library / "0.jpg").unlink()
    shutil.copy(place.prepared / "others" / "200.jpg", library)
    if random.random() < 0.5:
        os.utime(next(disk.glob("*.jpg")))


def _update(random: Random, place: Place, disk: Path, how: str) -> Ended:
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
    injected = "delay_enter=100000" if how == "slow" else f"error={random.choice(ERRORS)}"
    paths = [option for path in (disk, *disk.iterdir()) for option in ("-P", path)]
    inject = f"inject={LISTING}:{injected}:when={random.randint(1, 4)}+"
    strace = ["strace", *"-f --seccomp-bpf -qq -o /dev/null".split(), *paths, "-e", f"trace={LISTING}"]
    return run([*strace, "-e", inject, *command], place.folder)


@attack("disks.clocks", 20, 1, 180)
def clocks(random: Random, place: Place) -> None:
    """Index and update while the clock is wrong, and replace photos by others of equal size and time."""
    library = place.folder / "library"
    shutil.copytree(place.prepared / "library", library)
    for command in ((*COMMANDS["index"], place.model), UPDATE, UPDATE):
        wrong = random.choice([-2 * DAY, -300, 0, 300, 2 * DAY, random.uniform(-1, 1)])
        with patch("time.time", _clock(wrong)):
            must(*command)
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


def _as_anew(place: Place, what: str) -> None:
    """Check that after one more update the index is as one that is made anew."""
    must(*UPDATE, after=what)
    must("index", "library", "--index", "anew", "--model", place.model, after=what)
    updated, anew = Path("library/.lexlip"), Path("anew")
    if _texts(updated) != _texts(anew) or read(updated) != read(anew):
        raise Broken(f"after {what}, the next update does not lead to the index as it would be made anew")


def _texts(index: Path) -> dict[str, object]:
    """Return the captions and keywords of the photos of an index."""
    from anserini_bridge import read_header
    from lexlip.retrieval.photo_table import open_photos

    with open_photos(index, read_header(index)) as table:
        found = table.get(read(index).ids)
    return {photo.id: (photo.captions, photo.keywords, photo.digest) for photo in found if photo}


def _only(state: State, ids: list[str]) -> State:
    return state.without([id for id in state.ids if id not in ids])
