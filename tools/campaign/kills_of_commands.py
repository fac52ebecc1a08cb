"""`kill -9` of the command line: of indexing, updating, optimizing, serving and training."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from random import Random

from . import tracing
from .contract import Attack, Broken, NotRun, Workplace
from .disk_errors import again, command, copy, expected, recorded, same, state_of
from .documents import State
from .processes import LEXLIP, run


def at_a_moment(random: Random, place: Workplace) -> None:
    """Kill `lexlip index`, `index --update` or `optimize` once it has begun to write."""
    name = random.choice(["index", "update", "optimize", "shards", "bm25", "dense"])
    new = expected(name, place.prepared)
    library = copy(place, name)
    old = state_of(library)
    process = tracing.spawn(command(name, place), place.folder, place.folder / "output")
    tracing.wait_for_writing(process, library / ".lexlip")
    time.sleep(random.uniform(0, 0.6))
    tracing.kill(process)
    _check(name, place, library, old, new, f"lexlip {name}, killed")


def at_a_call(random: Random, place: Workplace) -> None:
    """Kill one of them as it is about to make one of its calls."""
    name = random.choice(["index", "update", "optimize", "shards", "bm25", "dense"])
    new = expected(name, place.prepared)
    call = random.choice(recorded(name, place.prepared))
    library = copy(place, name)
    old = state_of(library)
    call = call._replace(path=f"{library}{call.path}")
    _, came = tracing.at(call, "signal=KILL", command(name, place), place.folder)
    what = f"lexlip {name}, killed at {call.name} {call.number} of {call.path.removeprefix(str(library))}"
    _check(name, place, library, old, new, what)
    if not came:
        raise NotRun(tracing.NEVER_CAME)


def server(random: Random, place: Workplace) -> None:
    """Kill `lexlip serve --watch` while it takes up new photos."""
    new = expected("update", place.prepared)
    library = copy(place, "serve")
    old = state_of(library)
    output = place.folder / "output"
    served = [*LEXLIP, "serve", "--index", "library/.lexlip", "--watch", "--port", "0"]
    process = tracing.spawn(served, place.folder, output)
    until = time.monotonic() + 60
    while b"Ctrl-C ends" not in output.read_bytes():
        if process.poll() is not None or time.monotonic() > until:
            tracing.kill(process)
            raise Broken(f"lexlip serve does not start: {output.read_text()[-300:]}")
        time.sleep(0.05)
    shutil.copytree(place.prepared / "added", library, dirs_exist_ok=True)
    time.sleep(random.uniform(0, 8))
    tracing.kill(process)
    _check("update", place, library, old, new, "lexlip serve --watch, killed")


def training(random: Random, place: Workplace) -> None:
    """Kill `lexlip pretrain` several times; with --resume it has the losses of one that was not killed."""
    config = place.prepared / "tiny.yaml"
    train = [*LEXLIP, "pretrain", config, "out=run"]
    run_folder = place.folder / "run"
    for _ in range(2):
        resume = ["--resume"] if (run_folder / "last").exists() else []
        process = tracing.spawn([*train, *resume], place.folder, place.folder / "output")
        metrics = run_folder / "metrics.jsonl"
        lines = len(metrics.read_bytes()) if metrics.exists() else 0
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if metrics.exists() and len(metrics.read_bytes()) > lines:
                break
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.7))
        tracing.kill(process)
    resume = ["--resume"] if (run_folder / "last").exists() else []
    ended = run([*train, *resume], place.folder)
    if ended.code:
        raise Broken(f"after a kill lexlip pretrain {' '.join(resume)} fails: {ended.stderr[-400:]}")
    found, wanted = losses(run_folder), losses(place.prepared / "words")
    if found != wanted:
        raise Broken(f"after kills the losses are {found}, and without {wanted}")


def losses(folder: Path) -> dict[int, float]:
    """Return the loss of each step of a run; that of a step that was done twice is the later one."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def _check(name: str, place: Workplace, library: Path, old: State | str, new: State | str, what: str) -> None:
    found = state_of(library)
    if not any(same(found, one) for one in (old, new)):
        raise Broken(f"{what}: the index is neither in the old nor in the new state")
    again(name, place, library, what)
    if name != "shards":  # its next change clears what is left; there is none if all was done
        _check_leftovers(library / ".lexlip", what)


def _check_leftovers(index: Path, what: str) -> None:
    """Check that the next command has cleared what a killed one left."""
    metadata = json.loads((index / "index.json").read_text())
    data = index / metadata["directory"]
    more = {path.name for path in index.iterdir()} - {data.name, "index.json", "writer.lock", "thumbnails"}
    more |= {path.name for path in data.rglob("*") if path.name.endswith((".tmp", "-journal", "-wal"))}
    tables = [path.name for path in data.glob("photos-*.sqlite")]
    if len(tables) > 2:  # that of the state, and that of the state before it
        more |= set(tables)
    if more:
        raise Broken(f"{what}: after the next one there are still {', '.join(sorted(more)[:5])}")


ATTACKS = (
    Attack("kills.command-at-a-moment", at_a_moment, 5, 0, seconds=180),
    Attack("kills.command-at-a-call", at_a_call, 8, 0, seconds=180, missing=tracing.missing),
    Attack("kills.server", server, 3, 0, seconds=180),
    Attack("kills.training", training, 3, 1, seconds=240),
)
