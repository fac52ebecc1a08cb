"""`kill -9` of the Python writer: at random moments, and at every system call that changes the index."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from random import Random

from . import tracing
from .contract import Attack, Broken, NotRun, Workplace
from .documents import OPERATIONS, Change, State, change, check_one_of, update_of, write_in_segments
from .processes import WRITER

SEEDS = 3  # different changes, so that what was recorded of one serves several tries


def at_a_moment(random: Random, place: Workplace) -> None:
    """Kill a writer between its first sign of life on disk and its end."""
    wanted, seed, index = _begin(random, place)
    process = tracing.spawn([*WRITER, index, wanted.operation, seed], place.folder, place.folder / "output")
    tracing.wait_for_writing(process, index)
    time.sleep(random.uniform(0, 0.3))
    tracing.kill(process)
    check_killed(index, wanted, random)


def at_a_call(random: Random, place: Workplace) -> None:
    """Kill a writer as it is about to make one of its calls."""
    wanted, seed, index = _begin(random, place)
    calls = _calls(wanted.operation, seed, place.prepared)
    call = random.choice(calls)
    call = call._replace(path=f"{index}{call.path}")
    _, came = tracing.at(call, "signal=KILL", [*WRITER, index, wanted.operation, seed], place.folder)
    try:
        check_killed(index, wanted, random)
    except Broken as error:
        raise Broken(f"killed at {call.name} {call.number} of {Path(call.path).name}: {error}") from error
    if not came:
        raise NotRun(tracing.NEVER_CAME)


def check_killed(index: Path, wanted: Change, random: Random) -> None:
    """Check an index whose writer was killed, and the next writer.

    Raises:
        Broken: it is neither the old nor the new one, the next update fails, or leaves something behind.
    """
    if not (index / "index.json").exists():
        if wanted.old is not None:
            raise Broken("the index is gone")
        Change("create", None, wanted.new).apply(index)
        state = wanted.new
    else:
        state = check_one_of(index, [one for one in (wanted.old, wanted.new) if one], random)
    following = update_of(state, random)
    following.apply(index)
    check_one_of(index, [following.new], random)
    check_leftovers(index)


def check_leftovers(index: Path) -> None:
    """Check that an index holds what it needs and nothing else.

    Raises:
        Broken: there is more.
    """
    from anserini_bridge.jvm import java_class

    metadata = json.loads((index / "index.json").read_text())
    folder = index / metadata["directory"]
    more = {path.name for path in index.iterdir()} - {folder.name, "index.json", "writer.lock"}
    more |= {path.name for path in folder.iterdir() if path.name.endswith(".tmp")}
    directory = java_class("org.apache.lucene.store.FSDirectory").open(
        java_class("java.nio.file.Paths").get(str(folder / "lucene"))
    )
    commit = java_class("org.apache.lucene.index.SegmentInfos").readCommit(directory, metadata["commit"])
    needed = {str(name) for name in commit.files(True).toArray()} | {"write.lock"}
    directory.close()
    more |= {path.name for path in (folder / "lucene").iterdir()} - needed
    if more:
        raise Broken(f"after the next update {len(more)} files are left over: {', '.join(sorted(more)[:5])}")


def _begin(random: Random, place: Workplace) -> tuple[Change, int, Path]:
    operation, seed = random.choice(OPERATIONS), random.randrange(SEEDS)
    index = place.folder / "index"
    wanted = change(operation, seed)
    _write_old(index, wanted.old)
    return wanted, seed, index


def _write_old(index: Path, old: State | None) -> None:
    if old is not None:
        write_in_segments(index, old)


@cache
def _calls(operation: str, seed: int, prepared: Path) -> list[tracing.Call]:
    """Return the calls of an operation, with paths relative to the index; recorded once in a campaign."""
    kept = prepared / f"calls-{operation}-{seed}.json"
    if not kept.exists():
        folder = Path.cwd() / "recorded"
        folder.mkdir()
        index = folder / "index"
        _write_old(index, change(operation, seed).old)
        calls = tracing.record([*WRITER, index, operation, seed], folder, index)
        relative = [(call.name, call.path.removeprefix(str(index)), call.number) for call in calls]
        kept.write_text(json.dumps(relative))
    return [tracing.Call(*call) for call in json.loads(kept.read_text())]


ATTACKS = (
    Attack("kills.writer-at-a-moment", at_a_moment, tries=15, short=2),
    Attack("kills.writer-at-a-call", at_a_call, tries=25, short=2, missing=tracing.missing),
)
