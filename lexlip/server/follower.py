"""Keeps the served index up to date: runs updates, watches photos, sees commits of other processes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anserini_bridge.storage import METADATA_FILE
from lexlip.data.folder import holds_index
from lexlip.errors import FixableError
from lexlip.retrieval.collection import given_again
from lexlip.server.problems import Problem

LOOK = 1.0  # seconds between looks at the index's file
QUIET = 500  # milliseconds without a change before photos are updated
LONGEST = 5000  # milliseconds of changes before they are updated all the same
AGAIN = 10.0  # seconds after which a folder that could not be watched is tried again


@dataclass(frozen=True)
class UpdateStatus:
    """What `/api/status` says about the last update: photos that were encoded, of how many; how it ended."""

    running: bool = False
    done: int = 0
    total: int = 0
    message: str = ""


class Follower:
    """Runs one update at a time; whoever asks meanwhile gets another one afterwards.

    Args:
        look: returns what names the newest state of the index; None: nobody can tell now.
        update: updates the index, in another process; takes whether photos may vanish, and what reports how
            many are done, of how many. Returns how it ended.
        refresh: moves the search to the newest state of the index.
        every: seconds between looks.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[object]],
        update: Callable[[bool, Callable[[tuple[int, int]], None]], Awaitable[str]],
        refresh: Callable[[], Awaitable[None]],
        every: float = LOOK,
    ) -> None:
        self._look, self._update, self._refresh, self._every = look, update, refresh, every
        self.status = UpdateStatus()
        self._stop = threading.Event()
        self._again: bool | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, prune: bool = False) -> None:
        """Begin an update, or have another one follow that which runs; call it on the event loop."""
        if self.status.running:
            self._again = prune or bool(self._again)
            return
        self.status = UpdateStatus(running=True)
        self._begin(self._run(prune))

    def follow(self) -> None:
        """Begin to look for commits of other processes."""
        self._begin(self._follow())

    def watch(self, places: Callable[[], Iterable[Path]], ignored: Callable[[Path], bool]) -> None:
        """Begin to watch places, asked for again after each failure, and to update when they change.

        Changes at paths that are `ignored` are none of the photos'.
        """
        given = asyncio.get_running_loop(), places, ignored
        threading.Thread(target=self._watch, args=given, daemon=True).start()

    async def close(self) -> None:
        """Stop following."""
        self._stop.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, prune: bool) -> None:
        loop = asyncio.get_running_loop()

        def progress(value: tuple[int, int]) -> None:  # comes from another thread
            loop.call_soon_threadsafe(self._show, *value)

        while True:
            self._again = None
            try:
                message = await self._update(prune, progress)
            except (FixableError, Problem) as error:
                message = str(error)
            except (OSError, RuntimeError) as error:
                message = f"the update failed: {error}"
            with contextlib.suppress(FixableError, OSError):  # who searches is told
                await self._refresh()
            if self._again is None:
                break
            prune = self._again
            self.status = UpdateStatus(running=True, message=message)
        self.status = replace(self.status, running=False, message=message)

    def _show(self, done: int, total: int) -> None:
        if self.status.running:
            self.status = replace(self.status, done=done, total=total)

    async def _follow(self) -> None:
        seen, late = None, False
        with contextlib.suppress(FixableError):
            seen = await self._look()
        while True:
            await asyncio.sleep(self._every)
            try:
                now = await self._look()
                if now is None or (now == seen and not late):
                    continue
                await self._refresh()
                seen = now
                if late:
                    self._say("the newest state of the index is shown now")
                late = False
            except (FixableError, OSError) as error:  # the next look tries again
                late = True
                self._say(f"the newest state of the index is not shown yet: {error}")

    def _watch(
        self,
        loop: asyncio.AbstractEventLoop,
        places: Callable[[], Iterable[Path]],
        ignored: Callable[[Path], bool],
    ) -> None:
        """Watch in a thread, as it takes a while to walk through all folders."""
        from watchfiles import watch

        def counts(_: object, path: str) -> bool:
            return not ignored(Path(path))

        while not self._stop.is_set():
            try:
                watched = list(places())
                first, before = True, _identities(watched)
                for changes in watch(
                    *watched,
                    watch_filter=counts,
                    debounce=LONGEST,
                    step=QUIET,
                    stop_event=self._stop,
                    rust_timeout=QUIET,
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    ignore_permission_denied=True,
                ):
                    if changes or first:  # what changed before counts too
                        loop.call_soon_threadsafe(self.start)
                    first = False
                    if _identities(watched) != before:
                        break  # another folder has come to this place, which is not watched yet
            except (OSError, RuntimeError, FixableError) as error:
                why = f"the photos cannot be watched: {error}"
                loop.call_soon_threadsafe(self._say, why)
                self._stop.wait(AGAIN)

    def _say(self, message: str) -> None:
        self.status = replace(self.status, message=message)


def commit_of(index: Path) -> tuple[int, int] | None:
    """Return what names the newest commit of an index in a folder; None: there is none now."""
    try:
        status = (index / METADATA_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _identities(places: Iterable[Path]) -> list[tuple[int, int]]:
    """Return which files and folders these are; OSError if one is gone."""
    return [(status.st_dev, status.st_ino) for status in (place.stat() for place in places)]


def watched_places(index: Path, extra: dict[str, Any]) -> list[Path]:
    """Return the folders in which something may happen to the photos of an index."""
    given = given_again(extra, index)
    names = (*given.sources, *(() if given.images is None else (given.images,)))
    return list(dict.fromkeys(map(_folder, names)))


def _folder(name: str) -> Path:
    """Return the folder that a source is, or is in; what it is in may be patterns too."""
    place = Path(name).expanduser()
    while not place.is_dir() and (place.suffix or re.search(r"[*?\[{]", place.name)):
        place = place.parent
    return place


def is_ignored(path: Path, index: Path, places: Iterable[Path] = (), hidden: bool = False) -> bool:
    """Return whether a change has nothing to do with photos: hidden, or of an index, such as thumbnails.

    What the watched places are called, such as ../Pictures or ~/.photos, and what lies above them, hides
    nothing. `hidden`: photos may be hidden, too.
    """
    above = (place for place in places if path.is_relative_to(place))
    place = max(above, key=lambda place: len(place.parts), default=None)  # one may be hidden in another
    below = path if place is None else path.relative_to(place)
    if (
        path.suffix == ".tmp"
        or path.is_relative_to(index)
        or (not hidden and any(part.startswith(".") for part in below.parts))
    ):
        return True
    folders = [(place or Path()) / folder for folder in below.parents]
    return any((folder / METADATA_FILE).is_file() and holds_index(folder) for folder in folders)
