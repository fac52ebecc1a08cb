"""Commands that search, update, optimize and replace at the same time, and what a searcher leaves open."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

from anserini_bridge import ImpactSearcher

from .contract import Broken, Place, attack
from .documents import State, ones, update_of, write_in_segments
from .operations import INDEX, Operation, library_after
from .processes import LEXLIP, SECONDS, Ended, address_of, check_end, hits_of, kill, must, spawn

COMMANDS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", *INDEX, "--port", "0"),
    "index": ("index", "library", "--anew", *INDEX),
    "update": ("index", "library", "--update", *INDEX),
    "optimize": ("optimize", *INDEX),
    "search": ("search", "two red circles", "-k", "30", *INDEX, "--json"),
    "doctor": ("doctor", "--verify", *INDEX),
}
WRITERS = ("index", "update", "optimize")  # of which others may keep one out


@attack("races.open-and-close", 2, 0, 120)
def open_and_close(random: Random, place: Place) -> None:
    """Open, search, refresh and close many times: no files and no maps are left open."""
    index, state = place.folder / "index", State.random(random, 40)
    write_in_segments(index, state)
    counts = []
    for _ in range(24):
        with ImpactSearcher(index) as searcher, searcher.hold() as held:
            held.search(ones())
            change = update_of(state, random)
            change.apply(index)
            state = change.new
            searcher.refresh()
            searcher.search(ones())
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    held_open = Path("/proc/self/maps").read_text(errors="replace").count(f" {index}/")
    if counts[-1] > counts[9] + 3:
        raise Broken(f"open files grow from {counts[9]} to {counts[-1]}")
    if held_open:
        raise Broken(f"{held_open} files of a closed index are still in memory")


@attack("races.commands", 4, 0, 300)
def commands(random: Random, place: Place) -> None:
    """Start all of them: each ends rightly, or with a sentence; the index is in the old state or the new."""
    job = Operation("update", place)
    libraries = (place.prepared / "library", library_after("update", place.prepared))
    right = [
        hits_of(must(*COMMANDS["search"][:4], "--index", library / ".lexlip", "--json").stdout, 3)
        for library in libraries
    ]
    running = {}
    for name in random.sample(list(COMMANDS), len(COMMANDS)):
        model = ["--model", place.model] if name == "index" else []
        running[name] = spawn([*LEXLIP, *COMMANDS[name], *model], place.folder, name)
        time.sleep(random.choice([0, 0, 0.5, 2]))
    ended = {}
    try:
        _ask(address_of(running["serve"], place.folder, "serve"), right)
        running["serve"].send_signal(signal.SIGTERM)
        for name, process in running.items():
            ended[name] = _end(name, process, place.folder)
    finally:
        for process in running.values():
            kill(process)
    if hits_of(ended["search"].stdout, 3) not in right:
        raise Broken(f"a search has the hits of no state: {ended['search'].stdout[:200]}")
    found = job.check_state("six commands at once")
    if found != job.new and any(ended[name].code == 0 for name in ("index", "update")):
        raise Broken("at the end the index is in neither state")
    for name in ("update", "doctor"):
        check_end(must(*COMMANDS[name]), f"afterwards lexlip {name}", 0)
    if job.state() != job.new:
        raise Broken("an update at the end does not lead to the new state")


def _ask(address: str, right: list[Any]) -> None:
    with urllib.request.urlopen(f"{address}/api/search?q=two+red+circles&k=30", timeout=SECONDS) as answer:
        if (hits := hits_of(answer.read(), 3)) not in right:
            raise Broken(f"the server has the hits of no state: {hits[:3]}")


def _end(name: str, process: subprocess.Popen[bytes], folder: Path) -> Ended:
    """Wait until a command ends, which must be rightly."""
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        raise Broken(f"lexlip {name} has not ended after {SECONDS} s beside five others") from None
    texts = [(folder / file).read_text(errors="replace") for file in (name, f"{name}.err")]
    ended = Ended(code, *texts)
    more = {"serve": (-signal.SIGTERM, 128 + signal.SIGTERM), **dict.fromkeys(WRITERS, (2,))}
    check_end(ended, f"lexlip {name} beside five others", 0, *more.get(name, ()))
    return ended
