"""`kill -9` at random moments and at system calls: of the Python writer, and of the command line."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from . import tracing
from .contract import Broken, NotRun, Place, attack
from .documents import OPERATIONS, Change, change, check_one_of, update_of, write_in_segments
from .operations import INDEX, ONE_BY_ONE, Operation
from .processes import LEXLIP, kill, run, serving, spawn, wait_for

WRITER = (sys.executable, "-m", "tools.campaign.documents")
SEEDS = 3  # different changes, so that what was recorded of one serves several tries

Unneeded = Callable[[Path, dict[str, Any]], set[str]]
"""Returns which names in an index's data are not needed, given its metadata."""


class Writing:
    """A change of an index by the Python writer, in a process of its own."""

    def __init__(self, operation: str, seed: int, place: Place) -> None:
        self.index = self.watched = place.folder / "index"
        self.name = f"{operation} {seed}"
        self.command: list[object] = [*WRITER, self.index, operation, seed]
        self._change, self._place = change(operation, seed), place
        if self._change.old is not None:
            write_in_segments(self.index, self._change.old)

    @classmethod
    def any(cls, random: Random, place: Place) -> Writing:
        return cls(random.choice(OPERATIONS), random.randrange(SEEDS), place)

    def calls(self) -> list[tracing.Call]:
        operation, seed = self.name.split()
        return tracing.calls_of(self.name, self._place, lambda place: Writing(operation, int(seed), place))

    def check(self, random: Random, what: str) -> None:
        """Check the index after the writer was killed, and the next writer.

        Raises:
            Broken: it is neither the old nor the new one, the next update fails, or leaves something behind.
        """
        old, new = self._change.old, self._change.new
        if (self.index / "index.json").exists():
            state = check_one_of(self.index, [one for one in (old, new) if one], random)
        elif old is not None:
            raise Broken(f"{what}: the index is gone")
        else:
            Change("create", None, new).apply(self.index)
            state = new
        following = update_of(state, random)
        following.apply(self.index)
        check_one_of(self.index, [following.new], random)
        check_leftovers(self.index, _unknown_to_lucene)


def check_leftovers(index: Path, unneeded: Unneeded) -> None:
    """Check that an index holds what it needs and nothing else, after the command that follows a kill."""
    metadata = json.loads((index / "index.json").read_text())
    data = index / metadata["directory"]
    kept = {data.name, "index.json", "writer.lock", "thumbnails", "albums"}
    more = {path.name for path in index.iterdir()} - kept
    more |= {path.name for path in data.rglob("*") if path.name.endswith((".tmp", "-journal", "-wal"))}
    more |= unneeded(data, metadata)
    if more:
        raise Broken(f"after the next update {len(more)} files are left over: {', '.join(sorted(more)[:5])}")


def _unknown_to_lucene(data: Path, metadata: dict[str, Any]) -> set[str]:
    from anserini_bridge.jvm import java_class

    path = java_class("java.nio.file.Paths").get(str(data / "lucene"))
    directory = java_class("org.apache.lucene.store.FSDirectory").open(path)
    commit = java_class("org.apache.lucene.index.SegmentInfos").readCommit(directory, metadata["commit"])
    needed = {str(name) for name in commit.files(True).toArray()} | {"write.lock"}
    directory.close()
    return {path.name for path in (data / "lucene").iterdir()} - needed


def _tables_of_older_states(data: Path, metadata: dict[str, Any]) -> set[str]:
    tables = {path.name for path in data.glob("photos-*.sqlite")}
    return tables if len(tables) > 2 else set()  # that of the state, and that of the state before it


def _changed(folder: Path) -> dict[str, int]:
    """Return when names were last added to each folder, or removed."""
    changed = {}
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            changed[path] = Path(path).stat().st_mtime_ns
    return changed


def _at_a_moment(kind: type[Writing] | type[Operation], longest: float, random: Random, place: Place) -> None:
    """Kill a process between its first sign of life on disk and its end."""
    job = kind.any(random, place)
    process, before = spawn(job.command, place.folder), _changed(job.index)
    wait_for(lambda: _changed(job.index) != before, process)
    time.sleep(random.uniform(0, longest))
    kill(process)
    _check(job, random, f"{job.name}, killed")


def _at_a_call(kind: type[Writing] | type[Operation], random: Random, place: Place) -> None:
    """Kill a process as it is about to make one of its calls."""
    job = kind.any(random, place)
    call = random.choice(job.calls())
    _, came = tracing.at(call, "signal=KILL", job.command, place.folder, job.watched)
    _check(job, random, f"{job.name}, killed at {call}")
    if not came:
        raise NotRun(tracing.NEVER_CAME)


attack("kills.writer-at-a-moment", 15, 2)(partial(_at_a_moment, Writing, 0.3))
attack("kills.writer-at-a-call", 25, 2, missing=tracing.missing)(partial(_at_a_call, Writing))
attack("kills.command-at-a-moment", 8, 0, 180)(partial(_at_a_moment, Operation, 0.6))
attack("kills.command-at-a-call", 12, 0, 180, missing=tracing.missing)(partial(_at_a_call, Operation))


@attack("kills.server", 3, 0, 180)
def server(random: Random, place: Place) -> None:
    """Kill `lexlip serve --watch` while it takes up new photos."""
    job = Operation("update", place, photos_are_added=False)
    with serving([*LEXLIP, "serve", *INDEX, "--watch", "--port", "0"], place.folder):
        job.add_photos()
        time.sleep(random.uniform(0, 8))
    _check(job, random, "serve --watch, killed")


def _check(job: Writing | Operation, random: Random, what: str) -> None:
    if isinstance(job, Writing):
        job.check(random, what)
        return
    job.check_state(f"lexlip {what}")
    job.check_again(f"lexlip {what}")
    if job.name not in ("shards", *ONE_BY_ONE):  # its next change clears what is left, if there is one
        check_leftovers(job.index, _tables_of_older_states)


@attack("kills.training", 3, 1, 240)
def training(random: Random, place: Place) -> None:
    """Kill `lexlip pretrain` several times; with --resume it has the losses of one that was not killed."""
    folder, metrics = place.folder / "run", place.folder / "run" / "metrics.jsonl"

    def command() -> list[object]:
        resume = ["--resume"] if (folder / "last").exists() else []
        return [*LEXLIP, "pretrain", place.prepared / "tiny.yaml", "out=run", *resume]

    def size() -> int:
        return metrics.stat().st_size if metrics.exists() else 0

    for _ in range(2):
        before, process = size(), spawn(command(), place.folder)
        wait_for(lambda before=before: size() > before, process)  # type: ignore[misc]
        time.sleep(random.uniform(0, 0.7))
        kill(process)
    ended = run(command(), place.folder)
    if ended.code:
        raise Broken(f"after a kill lexlip pretrain fails: {ended.stderr[-400:]}")
    if (found := losses(folder)) != (wanted := losses(place.prepared / "words")):
        raise Broken(f"after kills the losses are {found}, and without {wanted}")


def losses(folder: Path) -> dict[int, float]:
    """Return the loss of each step of a run; that of a step that was done twice is the later one."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}
