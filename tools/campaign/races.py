"""Threads and processes that search, update, optimize and replace at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, ImpactSearcher, ImpactWriter, IndexLocked

from .contract import Attack, Broken, Workplace
from .documents import SETTINGS, WORDS, Change, State, check_one_of, update_of, write_in_segments
from .processes import environment

STEPS = 6
THREADS = 4
SECONDS = 60


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


def search_while_writing(random: Random, place: Workplace) -> None:
    """Search in threads while another process changes the index: each answer is that of one state."""
    seed, index = random.getrandbits(30), place.folder / "index"
    changes = steps(seed)
    changes[0].apply(index)
    rng = np.random.default_rng(seed)
    queries = (rng.integers(0, 4, (5, len(WORDS))) * (rng.random((5, len(WORDS))) < 0.3)).astype(np.int64)
    right = [[change.new.search(query, 7) for query in queries] for change in changes]
    faults: list[str] = []
    writing = subprocess.Popen(
        [sys.executable, "-m", "tools.campaign.races", str(index), str(seed)], env=environment(place.folder)
    )
    with ImpactSearcher(index) as searcher:

        def search() -> None:
            last = 0
            while writing.poll() is None and not faults:
                try:
                    searcher.refresh()
                    with searcher.hold() as held:
                        found, scores = held.search(csr_matrix(queries), 7)
                        ids = set(held.ids())
                except BridgeError as error:
                    faults.append(f"a search fails: {error}")
                    return
                answers = [(one, points.tolist()) for one, points in zip(found, scores, strict=True)]
                fitting = [
                    number
                    for number, wanted in enumerate(right)
                    if answers == wanted and ids == set(changes[number].new.ids)
                ]
                if not fitting:
                    faults.append("an answer is that of no state, or of several")
                elif max(fitting) < last:
                    faults.append("a thread sees an older state after a newer one")
                else:
                    last = max(last, min(fitting))

        threads = [threading.Thread(target=search, daemon=True) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        writing.kill() if faults else None
        if any(thread.is_alive() for thread in threads):
            raise Broken(f"searches have not ended after {SECONDS} s")
        if writing.wait() and not faults:
            raise Broken(f"the writer ends with exit code {writing.returncode}")
        if faults:
            raise Broken(faults[0])
        searcher.refresh()
        if set(searcher.ids()) != set(changes[-1].new.ids):
            raise Broken("after the last refresh the searcher is not in the newest state")
    check_one_of(index, [changes[-1].new], random)


def two_writers(random: Random, place: Workplace) -> None:
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
        arguments = [sys.executable, "-m", "tools.campaign.writer", str(index), "optimize", "0"]
        other = subprocess.run(arguments, env=environment(place.folder), capture_output=True, text=True)
        if other.returncode == 0 or not other.stderr.startswith("IndexLocked: "):
            raise Broken(f"a second process ends with {other.returncode}: {other.stderr[-300:]}")
    check_one_of(index, [old.upserted(new)], random)


def forks(random: Random, place: Workplace) -> None:
    """Fork a process that has searched: the child is refused or right, and the parent goes on."""
    index, state = place.folder / "index", State.random(random, 30)
    write_in_segments(index, state)
    with ImpactSearcher(index) as searcher:
        query = csr_matrix(np.ones((1, len(WORDS)), np.int64))
        searcher.search(query)
        child = os.fork()
        if child == 0:
            code = 3
            try:
                found, _ = (searcher if random.random() < 0.5 else ImpactSearcher(index)).search(query, 7)
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


def open_and_close(random: Random, place: Workplace) -> None:
    """Open, search, refresh and close many times: no files and no maps are left open."""
    index, state = place.folder / "index", State.random(random, 40)
    write_in_segments(index, state)
    query = csr_matrix(np.ones((1, len(WORDS)), np.int64))
    counts = []
    for _ in range(60):
        with ImpactSearcher(index) as searcher, searcher.hold() as held:
            held.search(query)
            change = update_of(state, random)
            change.apply(index)
            state = change.new
            searcher.refresh()
            searcher.search(query)
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    held_open = Path("/proc/self/maps").read_text(errors="replace").count(f" {index}/")
    if counts[-1] > counts[9] + 3:
        raise Broken(f"open files grow from {counts[9]} to {counts[-1]}")
    if held_open:
        raise Broken(f"{held_open} files of a closed index are still in memory")


ATTACKS = (
    Attack("races.search-while-writing", search_while_writing, tries=5, short=1, seconds=120),
    Attack("races.two-writers", two_writers, tries=5, short=1, seconds=60),
    Attack("races.forks", forks, tries=8, short=2, seconds=60),
    Attack("races.open-and-close", open_and_close, tries=2, short=0, seconds=120),
)

if __name__ == "__main__":  # the process that writes
    for one in steps(int(sys.argv[2]))[1:]:
        one.apply(Path(sys.argv[1]))
        time.sleep(0.1)
