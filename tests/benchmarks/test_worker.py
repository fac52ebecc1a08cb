import os
import sys
import time
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from benchmarks import worker as module
from benchmarks.corpus.corpus import Corpus
from benchmarks.peers.sparse import Scipy
from benchmarks.worker import LibraryFailed, LibraryMissing, LibraryProcess, Worker
from tests.benchmarks.corpus.small_corpus import small_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return small_corpus(tmp_path / "corpus")


def arguments(corpus: Corpus, library: str = "scipy") -> dict[str, object]:
    folder = corpus.folder.parent / "index"
    folder.mkdir(exist_ok=True)
    return {"library": library, "corpus": str(corpus.folder), "folder": str(folder), "threads": 1}


@pytest.fixture
def worker(corpus: Corpus) -> Worker:
    worker = Worker(**arguments(corpus))
    assert worker.build(str(corpus.folder.parent)) > 0
    assert worker.open(queries=20).keys() == {"scipy"}
    return worker


def test_measures(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def slow(self: Scipy, query: object, k: int) -> None:
        searched.append(k)
        time.sleep(0.002)

    monkeypatch.setattr(Scipy, "search_one", slow)
    assert 0 < worker.warm_up({}, k=3, seconds=0.1) < 500
    searched.clear()
    single = worker.one_by_one({}, k=3, count=10, repeats=2)
    assert searched == [3] * 20
    assert list(single) == ["qps", "p50_ms", "p95_ms", "p99_ms", "p99.9_ms"]
    assert 0 < single["qps"] < 500
    assert 2 <= single["p50_ms"] <= single["p95_ms"] <= single["p99_ms"] <= single["p99.9_ms"]
    monkeypatch.setattr(Scipy, "search_all", lambda self, batch, k: [slow(self, q, k) for q in batch])
    assert 0 < worker.all_at_once({}, k=3, count=10, repeats=2)["qps"] < 500
    searched.clear()
    both_search = Barrier(2, timeout=60)

    def together(self: Scipy, query: object, k: int) -> None:
        both_search.wait()  # neither of two clients goes on alone
        slow(self, query, k)

    monkeypatch.setattr(Scipy, "search_one", together)
    both = worker.several_clients({}, k=3, count=15, repeats=2, clients=2)
    assert searched == [3] * 30
    assert 0 < both["qps"] < 1000
    assert worker.memory() > 10


def test_answers(worker: Worker, corpus: Corpus) -> None:
    scores = (corpus.queries @ corpus.rows(0, 300).T).toarray()
    for query, found in enumerate(worker.answers({}, k=5, count=3)):
        np.testing.assert_array_equal(scores[query, found], -np.sort(-scores[query])[:5])


def test_a_process_of_its_own(corpus: Corpus, tmp_path: Path) -> None:
    process = LibraryProcess(sys.executable, tmp_path / "log", **arguments(corpus))
    try:
        assert process.process.pid != os.getpid()
        assert process.call("build", staged=str(tmp_path)) > 0
        assert "scipy" in process.call("open", queries=3)
        assert len(process.call("answers", setting={}, k=5, count=3)) == 3
        with pytest.raises(LibraryFailed, match="TypeError"):
            process.call("answers", setting={}, k="five", count=3)
        assert len(process.call("answers", setting={}, k=5, count=2)) == 2  # it goes on
    finally:
        process.close()
    assert process.process.poll() is not None
    assert "Traceback" in (tmp_path / "log").read_text()


def test_a_library_that_is_not_installed(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "seismic", None)
    with pytest.raises(LibraryMissing, match=r"^pip install pyseismic-lsr, or .* --python seismic=PATH"):
        Worker(**arguments(corpus, "seismic"))


def test_a_process_that_dies(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = LibraryProcess(sys.executable, tmp_path / "log", **arguments(corpus))
    process.log.write_text("loading\nnot enough memory\n")
    process.process.kill()
    with pytest.raises(LibraryFailed, match=r"ended \(killed by signal 9\): not enough memory"):
        process.call("memory")
    process.close()


def test_closing_ends_what_a_library_started(corpus: Corpus, tmp_path: Path) -> None:
    fake, number = tmp_path / "python", tmp_path / "number"
    fake.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {number}\ncat\n")  # repeats what it is told
    fake.chmod(0o755)
    process = LibraryProcess(str(fake), tmp_path / "log", **arguments(corpus))
    process.close()
    started = Path(f"/proc/{number.read_text().strip()}/stat")
    deadline = time.monotonic() + 20
    while started.exists() and started.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_interpreter_that_is_not_there(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(LibraryFailed, match="cannot run /no/python: No such file"):
        LibraryProcess("/no/python", tmp_path / "log", **arguments(corpus))


def test_threads_are_fixed_before_anything_is_loaded(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tmp_path / "shown"
    monkeypatch.setattr(module, "THREADS", ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"))
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\necho $OMP_NUM_THREADS $RAYON_NUM_THREADS > {shown}\n")
    fake.chmod(0o755)
    with pytest.raises(LibraryFailed, match=r"exit code 0\): it said nothing"):
        LibraryProcess(str(fake), tmp_path / "log", **{**arguments(corpus), "threads": 3})
    assert shown.read_text() == "3 3\n"
