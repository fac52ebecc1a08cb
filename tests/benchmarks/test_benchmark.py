import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import benchmark as module
from benchmarks.benchmark import Benchmark, EngineSettings, describe, medians, representative
from benchmarks.corpus.corpus import Corpus
from benchmarks.peers import ENGINES, EngineSpec
from benchmarks.worker import LibraryFailed, LibraryMissing
from tests.benchmarks.corpus.small_corpus import small_corpus


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WARM_UP", 0.02)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return small_corpus(tmp_path / "corpus")


class FakeProcess:
    """A library whose engine 'b' is twice as fast as 'a', and both slow down from round to round."""

    faults: dict[str, BaseException] = {}  # noqa: RUF012
    running: list["FakeProcess"] = []  # noqa: RUF012
    log: list[Any] = []  # noqa: RUF012

    def __init__(self, python: str, log: Path, **arguments: Any) -> None:
        self.python, self.library, self.round = python, arguments["library"], 0
        self._fail("start")
        self.running.append(self)

    def call(self, method: str, **arguments: Any) -> Any:
        self.log.append((self.library, method, arguments.get("setting")))
        self._fail(method)
        speed = 100 * arguments.get("setting", {}).get("speed", 1)
        if method == "one_by_one":
            self.round += 1
            return {"qps": speed / self.round, "p50_ms": 1000 * self.round / speed}
        if method in ("all_at_once", "several_clients"):
            return {"qps": 10.0 * speed}
        return {
            "build": 1.5,
            "open": {"fake": "1.0"},
            "warm_up": speed,
            "answers": [list(range(100))] * arguments.get("count", 0),  # a third of the documents
            "memory": 50.0,
        }[method]

    def close(self) -> None:
        self.running.remove(self)

    def _fail(self, where: str) -> None:
        if error := self.faults.get(f"{self.library} {where}"):
            raise error


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeProcess]]:
    monkeypatch.setattr(module, "LibraryProcess", FakeProcess)
    monkeypatch.setattr(FakeProcess, "faults", {})
    monkeypatch.setattr(FakeProcess, "log", [])
    monkeypatch.setattr(FakeProcess, "running", [])
    yield FakeProcess
    assert FakeProcess.running == []


THREE_ROUNDS = EngineSettings()
A = EngineSpec("a", "scipy", "one by one", {"speed": 1})
B = EngineSpec("b", "lexlip", "batch", {"speed": 2}, clients=2)


def benchmark(corpus: Corpus, specs: list[EngineSpec], settings: EngineSettings = THREE_ROUNDS) -> Benchmark:
    return Benchmark(corpus, corpus.folder.parent, specs, settings, lambda line: None, {"source": "test"})


def run(measured: Benchmark) -> dict[str, Any]:
    for _ in measured.run():
        json.dumps(measured.report())
    return measured.report()


def test_rows_are_medians_and_engines_take_turns(corpus: Corpus, fake: type[FakeProcess]) -> None:
    report = run(benchmark(corpus, [A, B]))
    a, b = report["engines"]["a"], report["engines"]["b"]
    assert (a["qps"], a["p50_ms"]) == (50, 20)  # of 100, 50, 33
    assert (b["qps"], b["p50_ms"]) == (2000, 10)  # all at once, and one by one
    assert b["under_load"] == {"clients": 2, "qps": 2000}
    assert "under_load" not in a
    assert (a["calls"], b["calls"]) == ("one by one", "batch")
    assert (a["build_s"], a["memory_mb"], a["rounds"]) == (1.5, 50, 3)
    assert 0 < a["recall@10"] < 1
    rounds = [library for library, method, _ in fake.log if method == "one_by_one"]
    assert rounds == ["scipy", "lexlip"] * 3
    conditions = report["conditions"]
    assert conditions["documents"] == 300
    assert conditions["source"] == "test"
    assert conditions["versions"] == {"scipy": {"fake": "1.0"}, "lexlip": {"fake": "1.0"}}
    assert {"cpu", "cores", "threads", "k", "postings_touched_by_a_query"} <= conditions.keys()
    assert report["missing"] == report["failed"] == {}


@pytest.mark.parametrize("where", ["start", "build", "open", "warm_up", "answers"])
def test_what_fails_is_named_and_the_others_go_on(
    where: str, corpus: Corpus, fake: type[FakeProcess]
) -> None:
    fake.faults[f"lexlip {where}"] = LibraryFailed("no luck")
    report = run(benchmark(corpus, [B, A]))
    assert report["failed"] == {"b": "no luck"}
    assert list(report["engines"]) == ["a"]


def test_a_failure_in_a_later_round_keeps_the_earlier_ones(corpus: Corpus, fake: type[FakeProcess]) -> None:
    measured = benchmark(corpus, [B, A])
    for number, _ in enumerate(measured.run()):
        if number == 3:  # two libraries were built, recall and a round are done
            fake.faults["lexlip one_by_one"] = LibraryFailed("no luck")
    report = measured.report()
    assert report["failed"] == {"b": "no luck"}
    assert report["engines"]["b"]["rounds"] == 1
    assert report["engines"]["a"]["rounds"] == 3


def test_what_is_missing_is_named(corpus: Corpus, fake: type[FakeProcess]) -> None:
    fake.faults["lexlip start"] = LibraryMissing("pip install it")
    report = run(benchmark(corpus, [A, B]))
    assert report["missing"] == {"b": "pip install it"}
    assert report["failed"] == {}


def test_dense_engines_need_dense_vectors(tmp_path: Path, fake: type[FakeProcess]) -> None:
    report = run(benchmark(small_corpus(tmp_path / "corpus", dense=False), [A, ENGINES["faiss-flat"]]))
    assert report["missing"] == {"faiss-flat": "dense vectors: name a model that makes them, --dense MODEL"}


def test_an_interruption_ends_the_processes_and_keeps_rounds(corpus: Corpus, fake: type[FakeProcess]) -> None:
    measured = benchmark(corpus, [A, B])
    fake.faults["lexlip one_by_one"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(measured)
    assert list(measured.report()["engines"]) == ["a"]


def test_an_index_is_built_once(corpus: Corpus, fake: type[FakeProcess]) -> None:
    run(benchmark(corpus, [A]))
    run(benchmark(corpus, [A]))
    assert [method for _, method, _ in fake.log].count("build") == 1


def test_a_build_that_was_cut_short_is_done_again(corpus: Corpus, fake: type[FakeProcess]) -> None:
    fake.faults["scipy build"] = LibraryFailed("no luck")
    run(benchmark(corpus, [A]))
    fake.faults.clear()
    (corpus.folder.parent / "scipy" / "half").write_text("rubbish")
    assert run(benchmark(corpus, [A]))["engines"]["a"]["index_mb"] == 0


def test_another_python_for_a_library(corpus: Corpus, fake: type[FakeProcess]) -> None:
    measured = benchmark(corpus, [A, B], EngineSettings(rounds=1, pythons={"lexlip": "/other/python"}))
    steps = measured.run()
    next(steps), next(steps)
    assert [process.python for process in fake.running] == [sys.executable, "/other/python"]
    steps.close()


def test_a_slow_engine_runs_some_of_the_queries_and_a_fast_one_all_of_them_often(
    corpus: Corpus, fake: type[FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = EngineSpec("slow", "scipy", "one by one", {"speed": 0.12})  # 12 queries a second
    fast = EngineSpec("fast", "scipy", "one by one", {"speed": 10})
    monkeypatch.setattr(module, "SECONDS", 1)
    rows = run(benchmark(corpus, [slow, fast], EngineSettings(rounds=1)))["engines"]
    assert rows["slow"]["queries"] == 12 * 2
    assert rows["fast"]["queries"] == 20 * 51


@pytest.mark.slow
def test_real_engines_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPEATED", 0.02)
    monkeypatch.setattr(module, "SECONDS", 0.05)
    monkeypatch.setattr(module, "BATCH_SECONDS", 0.05)
    names = ("lexlip", "lexlip-single", "scipy")
    report = run(benchmark(small_corpus(tmp_path / "corpus"), [ENGINES[name] for name in names]))
    assert report["failed"] == report["missing"] == {}
    assert list(report["engines"]) == list(names)
    for row in report["engines"].values():
        assert row["recall@10"] == 1
        for key in ("qps", "p50_ms", "p95_ms", "p99_ms", "p99.9_ms", "build_s", "index_mb", "memory_mb"):
            assert row[key] > 0, key
    assert report["engines"]["lexlip-single"]["under_load"]["clients"] == 2
    assert {"lucene", "java"} == report["conditions"]["versions"]["lexlip"].keys()


def test_medians_leave_out_what_is_no_number() -> None:
    assert medians([{"a": 1, "b": {}}, {"a": 5, "b": {}}, {"a": 2, "b": {}}]) == {"a": 2}


def test_the_setting_that_stands_for_a_library() -> None:
    rows = {"seismic-x": {"r": 0.9}, "seismic-y": {"r": 0.985}, "seismic-z": {"r": 1.0}}
    assert representative(rows, "seismic", "r") == {"seismic": {"r": 0.985, "engine": "seismic-y"}}
    assert representative({}, "seismic", "r") == {}


def test_how_many_postings_a_query_touches(corpus: Corpus) -> None:
    shares = (corpus.queries.astype(bool).astype(int) @ corpus.rows(0, 300).astype(bool).astype(int).T).sum()
    assert describe(corpus)["postings_touched_by_a_query"] == shares / 20
