"""Search engines side by side: speed, recall, index size and memory, on the same documents and queries.

Every library builds its index in one process and is opened in another, so that memory is that of searching.
In every round each engine runs its queries in turn, so that a machine that slows down slows all of them; the
report has medians over the rounds. A slow engine runs as many of the queries as fit into `SECONDS`. What is
missing or fails is named with its reason, and the others go on.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from anserini_bridge import folder_megabytes
from benchmarks.corpus.corpus import Corpus
from benchmarks.peers import EngineSpec, library_class
from benchmarks.truth import DenseTruth, SparseTruth
from benchmarks.worker import LibraryFailed, LibraryMissing, LibraryProcess
from lexlip.machine import resources

SECONDS = 10.0  # of an engine's queries in a round, at most
BATCH_SECONDS = 30.0  # of a batch, which gains from its size
REPEATED = 1.0  # least seconds in a round: a fast engine runs its queries several times
WARM_UP = 5.0  # seconds of searching before the first round
JUDGED = 1000  # queries of which recall and found@k are measured, the same for every engine
NEAR = 0.99  # recall of the setting that represents an approximate library
REPRESENTED = ("seismic", "seismic-knn")

Count = dict[str, int]
"""{"count": the first queries, "repeats": how often they run in a round}."""


@dataclass(frozen=True)
class EngineSettings:
    """How engines are measured."""

    k: int = 10  # hits of a query
    threads: int = 1  # of building, and of searching in batches
    rounds: int = 3  # see the module
    pythons: Mapping[str, str] = field(default_factory=dict)
    """By library, the interpreter for which it is installed; the others run in this one."""


class Benchmark:
    """Measures engines; `report` returns what is known so far.

    Args:
        corpus: documents and queries.
        folder: where indexes are built; those that are there already are used.
        specs: the engines.
        settings: how.
        say: takes a line of progress.
        made: how the corpus was made, for the report.
    """

    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        specs: Sequence[EngineSpec],
        settings: EngineSettings,
        say: Callable[[str], object],
        made: Mapping[str, Any],
    ) -> None:
        self.corpus, self.folder, self.specs, self.settings, self.say = corpus, folder, specs, settings, say
        self.conditions = {**made, **describe(corpus), **resources.describe()}
        self.conditions |= {"seconds": SECONDS, "judged": JUDGED}
        self.libraries = {spec.library: library_class(spec.library) for spec in specs}
        self.built: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, LibraryProcess] = {}
        self.counts: dict[str, dict[str, Count]] = {}
        self.rounds: dict[str, list[dict[str, Any]]] = {spec.name: [] for spec in specs}
        self.recall: dict[str, float] = {}
        self.wanted: dict[str, float] = {}
        self.memory: dict[str, float] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self.missing: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def run(self) -> Iterator[None]:
        """Measure; yield whenever `report` has something new."""
        try:
            for library in self.libraries:
                with self._named(*(spec for spec in self.specs if spec.library == library)):
                    self._build(library)
                    self._open(library)
                yield
            for spec in self._left():
                with self._named(spec):
                    self._warm_up(spec)
            yield from self._judge()
            for number in range(self.settings.rounds):
                self.say(f"round {number + 1} of {self.settings.rounds}")
                for spec in self._left():
                    with self._named(spec):
                        measured = self._round(spec)
                        self.memory[spec.library] = self.processes[spec.library].call("memory")
                        self.rounds[spec.name].append(measured)
                yield
        finally:
            for process in self.processes.values():
                process.close()

    def report(self) -> dict[str, Any]:
        """Return {"conditions", "engines": {name: row}, "missing", "failed": {name: reason}}."""
        rows = {spec.name: self._row(spec) for spec in self.specs if self.rounds[spec.name]}
        for library in REPRESENTED:
            names = [spec.name for spec in self.specs if spec.library == library and spec.name in rows]
            of_library = {name: rows[name] for name in names}
            rows |= representative(of_library, library, f"recall@{self.settings.k}")
        return {
            "conditions": {**self.conditions, **asdict(self.settings), "versions": self.versions},
            "engines": rows,
            "missing": self.missing,
            "failed": self.failed,
        }

    def _left(self) -> list[EngineSpec]:
        """Return the engines that are neither missing nor failed."""
        return [s for s in self.specs if s.name not in self.missing and s.name not in self.failed]

    @contextmanager
    def _named(self, *specs: EngineSpec) -> Iterator[None]:
        """Note why engines cannot be measured, and go on."""
        try:
            yield
        except (LibraryMissing, LibraryFailed) as error:
            missing = isinstance(error, LibraryMissing)
            for spec in specs:
                (self.missing if missing else self.failed)[spec.name] = str(error)
                self.say(f"{spec.name} {'missing' if missing else 'failed'}: {error}")

    def _start(self, library: str, folder: Path) -> LibraryProcess:
        return LibraryProcess(
            self.settings.pythons.get(library, sys.executable),
            self.folder / f"{library}.log",
            library=library,
            corpus=str(self.corpus.folder),
            folder=str(folder),
            threads=self.settings.threads,
        )

    def _build(self, library: str) -> None:
        """Build the index; if it exists already, read what its building took."""
        kind = self.libraries[library]
        if kind.dense and not self.corpus.dimensions:
            raise LibraryMissing("dense vectors: name a model that makes them, --dense MODEL")
        folder, staged = self.folder / kind.index, self.folder / f"{kind.index}.staged"
        record = self.folder / f"{kind.index}.json"
        if not record.exists():
            for path in (folder, staged):
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
            process = self._start(library, folder)
            try:
                self.say(f"{library}: building")
                seconds = process.call("build", staged=str(staged))
            finally:
                process.close()
                shutil.rmtree(staged)
            threads = self.settings.threads if kind.builds_with_threads else None
            took = {"build_s": seconds, "index_mb": folder_megabytes(folder), "build_threads": threads}
            record.write_text(json.dumps(took))
        self.built[library] = json.loads(record.read_text())
        self.say(f"{library}: built in {{build_s:.1f}} s, {{index_mb:.1f}} MB".format(**self.built[library]))

    def _open(self, library: str) -> None:
        process = self._start(library, self.folder / self.libraries[library].index)
        self.processes[library] = process
        self.versions[library] = process.call("open", queries=self.corpus.queries.shape[0])

    def _warm_up(self, spec: EngineSpec) -> None:
        """Warm an engine up, and find how many queries fit into a round."""
        call, settings = self.processes[spec.library].call, self.settings
        self.say(f"{spec.name}: warming up")
        search = {"setting": spec.setting, "k": settings.k}
        every = self.corpus.queries.shape[0]

        def fitting(rate: float, seconds: float) -> Count:
            count = min(every, max(10, int(rate * seconds)))
            return {"count": count, "repeats": 1 + int(rate * REPEATED / count)}

        counts = {"one_by_one": fitting(call("warm_up", seconds=WARM_UP, **search), SECONDS)}
        if spec.calls == "batch":
            once = {**counts["one_by_one"], "repeats": 1}
            counts["all_at_once"] = fitting(call("all_at_once", **once, **search)["qps"], BATCH_SECONDS)
        self.counts[spec.name] = counts

    def _judge(self) -> Iterator[None]:
        """Measure recall, and how often the query's own photo is found."""
        settings, truths = self.settings, {}
        count = min(JUDGED, self.corpus.queries.shape[0])
        for spec in self._left():
            kind = DenseTruth if self.libraries[spec.library].dense else SparseTruth
            if kind not in truths:
                self.say("brute force, to compare with")
                truths[kind] = kind(self.corpus, count, settings.k)
            with self._named(spec):
                call = self.processes[spec.library].call
                answers = call("answers", setting=spec.setting, k=settings.k, count=count)
                self.recall[spec.name] = mean(map(truths[kind].recall, itertools.count(), answers))
                known = [
                    (one, found)
                    for one, found in zip(self.corpus.wanted[:count], answers, strict=True)
                    if one >= 0
                ]
                if known:
                    self.wanted[spec.name] = mean(one in found for one, found in known)
        yield

    def _round(self, spec: EngineSpec) -> dict[str, Any]:
        call, counts = self.processes[spec.library].call, self.counts[spec.name]
        search = {"setting": spec.setting, "k": self.settings.k}
        result: dict[str, Any] = call("one_by_one", **counts["one_by_one"], **search)
        if spec.calls == "batch":
            result |= call("all_at_once", **counts["all_at_once"], **search)
        if spec.clients:
            several = {"clients": spec.clients, **counts["one_by_one"]}
            result["under_load"] = call("several_clients", **several, **search)
        self.say(f"  {spec.name}: {result['qps']:,.1f} queries/s")
        return result

    def _row(self, spec: EngineSpec) -> dict[str, Any]:
        counted = self.counts[spec.name]["all_at_once" if spec.calls == "batch" else "one_by_one"]
        row = {
            **medians(self.rounds[spec.name]),
            f"recall@{self.settings.k}": self.recall[spec.name],
            **self.built[spec.library],
            "memory_mb": self.memory[spec.library],
            "calls": spec.calls,
            "queries": counted["count"] * counted["repeats"],
            "rounds": len(self.rounds[spec.name]),
            "setting": spec.setting,
        }
        if spec.name in self.wanted:
            row[f"found@{self.settings.k}"] = self.wanted[spec.name]
        if spec.clients:
            loaded = medians([one["under_load"] for one in self.rounds[spec.name]])
            row["under_load"] = {"clients": spec.clients, **loaded}
        return row


def medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the median of every number over the rounds."""
    return {
        name: median(one[name] for one in rounds)
        for name, value in rounds[0].items()
        if isinstance(value, int | float)
    }


def representative(rows: Mapping[str, Any], library: str, recall: str) -> dict[str, Any]:
    """Return, by the library's own name, that of its rows whose recall is nearest to 0.99, if any."""
    if not rows:
        return {}
    best = min(rows, key=lambda name: abs(rows[name][recall] - NEAR))
    return {library: {**rows[best], "engine": best}}


def describe(corpus: Corpus) -> dict[str, Any]:
    """Return a corpus's sizes, and how many postings a query touches."""
    sizes, queries = corpus.sizes, corpus.queries
    frequencies = np.zeros(sizes.vocabulary, np.int64)
    for _, rows in corpus.slices():
        frequencies += np.bincount(rows.indices, minlength=sizes.vocabulary)
    number = queries.shape[0]
    return {
        "documents": sizes.documents,
        "postings": sizes.postings,
        "postings_of_a_document": sizes.postings / sizes.documents,
        "vocabulary": sizes.vocabulary,
        "dimensions": corpus.dimensions,
        "queries": number,
        "terms_of_a_query": queries.nnz / number,
        "postings_touched_by_a_query": int(frequencies[queries.indices].sum()) / number,
    }
