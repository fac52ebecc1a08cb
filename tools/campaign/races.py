"""Threads, processes and commands that search, update, optimize and replace at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, ImpactSearcher, ImpactWriter, IndexLocked

from .contract import Broken, Place, attack
from .documents import SETTINGS, WORDS, Change, State, check_one_of, ones, update_of, write_in_segments
from .kills import WRITER
from .operations import INDEX, Operation, library_after
from .processes import LEXLIP, SECONDS, Ended, address_of, check_end, hits_of, kill, must, run, spawn

STEPS = 6
THREADS = 4
COMMANDS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", *INDEX, "--port", "0"),
    "index": ("index", "library", "--anew", *INDEX),
    "update": ("index", "library", "--update", *INDEX),
    "optimize": ("optimize", *INDEX),
    "search": ("search", "two red circles", "-k", "30", *INDEX, "--json"),
    "doctor": ("doctor", "--verify", *INDEX),
}
WRITERS = ("index", "update", "optimize")  # of which others may keep one out


def steps(seed: int) -> list[Change]:
    """Return changes that follow one another: updates, an optimization, a replacement."""
    random = Random(f"steps {seed}")
    state = State.random(random, 80)
    changes = [Change("create", None, state)]
    for number in range(STEPS):
        if number % 3 == 2:
            kind = random.choice(["optimize", "replace"])
            new = state if kind == "optimize" else State.random(random, 80, 10**7 * (number + 1))
            changes.append(Change(kind, state, new))
        else:
            changes.append(update_of(state, random))
        state = changes[-1].new
    return changes


class _Searches:
    """Threads that search while an index changes: each answer must be that of one state, and none older."""

    def __init__(self, searcher: ImpactSearcher, changes: list[Change], seed: int) -> None:
        rng = np.random.default_rng(seed)
        queries = rng.integers(0, 4, (5, len(WORDS))) * (rng.random((5, len(WORDS))) < 0.3)
        self._searcher, self._queries = searcher, csr_matrix(queries)
        right = [[one.new.search(query.astype(np.int64), 7) for query in queries] for one in changes]
        self._states = list(zip(right, (set(one.new.ids) for one in changes), strict=True))
        self.faults: list[str] = []

    def run(self, writing: subprocess.Popen[bytes]) -> None:
        """Search until a process ends, or something is wrong."""
        threads = []
        for _ in range(THREADS):
            threads.append(threading.Thread(target=self._search, args=(writing,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(SECONDS)
        if any(thread.is_alive() for thread in threads):
            self.faults.append(f"searches have not ended after {SECONDS} s")

    def _search(self, writing: subprocess.Popen[bytes]) -> None:
        last = 0
        while writing.poll() is None and not self.faults:
            try:
                self._searcher.refresh()
                with self._searcher.hold() as held:
                    found, scores = held.search(self._queries, 7)
                    ids = set(held.ids())
            except BridgeError as error:
                self.faults.append(f"a search fails: {error}")
                return
            seen = ([(one, points.tolist()) for one, points in zip(found, scores, strict=True)], ids)
            fitting = [number for number, state in enumerate(self._states) if seen == state]
            if not fitting:
                self.faults.append("an answer is that of no state, or of several")
            elif max(fitting) < last:
                self.faults.append("a thread sees an older state after a newer one")
            else:
                last = max(last, min(fitting))


@attack("races.search-while-writing", 5, 1, 120)
def search_while_writing(random: Random, place: Place) -> None:
    """Search in threads while another process changes the index."""
    seed, index = random.getrandbits(30), place.folder / "index"
    changes = steps(seed)
    changes[0].apply(index)
    writing = spawn([sys.executable, "-m", __name__, index, seed], place.folder)
    with ImpactSearcher(index) as searcher:
        searches = _Searches(searcher, changes, seed)
        searches.run(writing)
        if searches.faults:
            kill(writing)
            raise Broken(searches.faults[0])
        if writing.wait():
            raise Broken(f"the writer ends with exit code {writing.returncode}")
        searcher.refresh()
        if set(searcher.ids()) != set(changes[-1].new.ids):
            raise Broken("after the last refresh the searcher is not in the newest state")
    check_one_of(index, [changes[-1].new], random)


@attack("races.two-writers", 5, 1, 60)
def two_writers(random: Random, place: Place) -> None:
    """Open a second writer, in this process and in another: it is refused, and the first one commits."""
    index, old = place.folder / "index", State.random(random, 30)
    write_in_segments(index, old)
    new = State.random(random, 5, 500)
    mode: Any = random.choice(["update", "create"])
    with ImpactWriter(index, WORDS, mode="update", **SETTINGS) as writer:
        writer.add(new.ids, csr_matrix(new.vectors))
        try:
            with ImpactWriter(index, WORDS, mode=mode, **SETTINGS):
                raise Broken("a second writer in the same process is let in")
        except IndexLocked:
            pass
        other = run([*WRITER, index, "optimize", 0], place.folder)
        if other.code == 0 or not other.stderr.startswith("IndexLocked: "):
            raise Broken(f"a second process ends with {other.code}: {other.stderr[-300:]}")
    check_one_of(index, [old.upserted(new)], random)


@attack("races.forks", 8, 2, 60)
def forks(random: Random, place: Place) -> None:
    """Fork a process that has searched: the child is refused or right, and the parent goes on."""
    index, state = place.folder / "index", State.random(random, 30)
    write_in_segments(index, state)
    with ImpactSearcher(index) as searcher:
        searcher.search(ones())
        child = os.fork()
        if child == 0:
            code = 3
            try:
                found, _ = (searcher if random.random() < 0.5 else ImpactSearcher(index)).search(ones(), 7)
                code = 0 if found[0] == state.search(np.ones(len(WORDS), np.int64), 7)[0] else 4
            except BridgeError:
                code = 0
            finally:
                os._exit(code)
        until = time.monotonic() + 20
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise Broken("a forked process that searches hangs")
            time.sleep(0.01)
        if ended[1]:
            raise Broken(f"a forked process that searches ends with status {ended[1]}")
        check_one_of(index, [state], random)


@attack("races.open-and-close", 2, 0, 120)
def open_and_close(random: Random, place: Place) -> None:
    """Open, search, refresh and close many times: no files and no maps are left open."""
    index, state = place.folder / "index", State.random(random, 40)
    write_in_segments(index, state)
    counts = []
    for _ in range(60):
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


if __name__ == "__main__":  # the process that writes
    for one in steps(int(sys.argv[2]))[1:]:
        one.apply(Path(sys.argv[1]))
        time.sleep(0.1)
