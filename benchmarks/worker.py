"""A process that holds one library and one index, and takes commands through a pipe.

Each library has its own process, so that Java machines, threads and memory do not mix. The environment sets
the number of threads before anything is loaded. What the library prints goes to a log.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from lexlip.bench.clocks import Seconds, percentiles
from lexlip.machine.resources import memory_mb

ROOT = Path(__file__).parents[1]
PERCENTILES = (50, 95, 99, 99.9)
THREADS = [f"{of}_NUM_THREADS" for of in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")]


class LibraryMissing(Exception):
    """A library is not installed; the text says what to install."""


class LibraryFailed(Exception):
    """A library failed; the text says why."""


class Worker:
    """Runs in a `LibraryProcess`: a library by name, with the folders of the corpus and of its index.

    Methods with a `setting` apply it, then search for k hits of a query.

    Raises:
        LibraryMissing: the library is not installed.
    """

    def __init__(self, library: str, corpus: str, folder: str, threads: int) -> None:
        from benchmarks.corpus.corpus import Corpus
        from benchmarks.peers import library_class

        kind = library_class(library)
        try:
            self.library = kind(Corpus(Path(corpus)), Path(folder), threads)
        except ImportError as error:
            raise LibraryMissing(
                f"pip install {kind.pip}, or name a Python that has it: --python {library}=PATH ({error})"
            ) from error

    def build(self, staged: str) -> float:
        """Build the index; return the seconds that it took, without those of staging."""
        self.library.stage(Path(staged))
        start = time.perf_counter()
        self.library.build(Path(staged))
        return time.perf_counter() - start

    def open(self, queries: int) -> dict[str, str]:
        """Open the index and convert the first so many queries; return versions."""
        self.library.open()
        self.queries = [self.library.native(number) for number in range(queries)]
        return self.library.versions()

    def warm_up(self, setting: dict[str, Any], k: int, seconds: float) -> float:
        """Search one by one for about so many seconds; return the queries per second of the second half."""
        self.library.set(**setting)
        start = time.perf_counter()
        count = 0
        while (passed := time.perf_counter() - start) < seconds or count < 2:
            if passed < seconds / 2:
                half, at = passed, count
            self.library.search_one(self.queries[count % len(self.queries)], k)
            count += 1
        return (count - at) / (time.perf_counter() - start - half)

    def one_by_one(self, setting: dict[str, Any], k: int, count: int, repeats: int) -> dict[str, float]:
        """Return queries per second and percentiles of single queries: `count` queries, `repeats` times."""
        self.library.set(**setting)
        with _no_collection():
            taken, total = self._times(self.queries[:count] * repeats, k)
        return {"qps": len(taken) / total, **_milliseconds(taken)}

    def all_at_once(self, setting: dict[str, Any], k: int, count: int, repeats: int) -> dict[str, float]:
        """Return queries per second of `count` queries in one call, `repeats` times."""
        self.library.set(**setting)
        batch = self.library.batch(self.queries[:count])
        with _no_collection():
            start = time.perf_counter()
            for _ in range(repeats):
                self.library.search_all(batch, k)
            return {"qps": count * repeats / (time.perf_counter() - start)}

    def several_clients(
        self, setting: dict[str, Any], k: int, count: int, repeats: int, clients: int
    ) -> dict[str, float]:
        """Return what `one_by_one` does, while `clients` threads search at the same time."""
        self.library.set(**setting)
        queries = self.queries[:count] * repeats
        shares = [queries[client::clients] for client in range(clients)]
        with ThreadPoolExecutor(clients) as pool, _no_collection():
            start = time.perf_counter()
            taken = np.concatenate(list(pool.map(lambda share: self._times(share, k)[0], shares)))
            return {"qps": len(queries) / (time.perf_counter() - start), **_milliseconds(taken)}

    def answers(self, setting: dict[str, Any], k: int, count: int) -> list[list[int]]:
        """Return the documents found for `count` queries; not timed."""
        self.library.set(**setting)
        return [self.library.documents(self.library.search_one(q, k)) for q in self.queries[:count]]

    def memory(self) -> float:
        """Return the MB (10^6 bytes) that the process holds, pages of mapped files included."""
        return memory_mb()

    def _times(self, queries: Sequence[Any], k: int) -> tuple[Seconds, float]:
        """Return the seconds of each query, and of all."""
        search, clock = self.library.search_one, time.perf_counter
        taken = np.empty(len(queries))
        first = clock()
        for number, query in enumerate(queries):
            start = clock()
            search(query, k)
            taken[number] = clock() - start
        return taken, clock() - first


def _milliseconds(seconds: Seconds) -> dict[str, float]:
    return {f"{name}_ms": ms for name, ms in percentiles(seconds, PERCENTILES, 1000).items()}


@contextlib.contextmanager
def _no_collection() -> Any:
    """Switch garbage collection off, which would otherwise be timed too."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class LibraryProcess:
    """A `Worker` in a new process; `call` runs its methods.

    The interpreter needs numpy and scipy; the library's own output goes to a log.

    Raises:
        LibraryMissing: the library is not installed for that Python.
        LibraryFailed: anything else.
    """

    def __init__(self, python: str, log: Path, **arguments: Any) -> None:
        self.log = log
        threads = dict.fromkeys(THREADS, str(arguments["threads"]))
        place = "insert(0, root)" if python == sys.executable else "append(root)"  # others' packages first
        start = f"import sys; root = {str(ROOT)!r}; sys.path.{place}"
        start += "; from benchmarks.worker import main; main()"
        try:
            with log.open("ab") as output:
                self.process = subprocess.Popen(
                    [python, "-c", start],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    env={**os.environ, **threads},
                    start_new_session=True,  # Ctrl-C is for the parent, which closes the pipe
                )
        except OSError as error:
            raise LibraryFailed(f"cannot run {python}: {error.strerror}") from error
        try:
            self.call("__init__", **arguments)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the worker; return what it returns.

        Raises:
            LibraryMissing, LibraryFailed: the worker raised it, or its process ended.
        """
        assert self.process.stdin
        assert self.process.stdout
        try:
            pickle.dump((method, arguments), self.process.stdin)
            self.process.stdin.flush()
            outcome, value = pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError):
            raise LibraryFailed(self._last_words()) from None
        if outcome == "missing":
            raise LibraryMissing(value)
        if outcome == "failed":
            raise LibraryFailed(value)
        return value

    def close(self) -> None:
        """End the process, and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def _last_words(self) -> str:
        code = self.process.wait()
        lines = self.log.read_text(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"the process ended ({how}): {said[:300]}"


def main() -> None:
    """Run commands until the pipe is closed."""
    commands, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a library prints must not get between
    worker = Worker.__new__(Worker)
    while True:
        try:
            method, arguments = pickle.load(commands)
        except EOFError:
            return
        try:
            answer = "ok", getattr(worker, method)(**arguments)
        except LibraryMissing as error:
            answer = "missing", str(error)
        except Exception as error:
            import traceback

            traceback.print_exc()  # into the log
            answer = "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        pickle.dump(answer, answers)
        answers.flush()
