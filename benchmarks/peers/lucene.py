"""Three Lucene engines: this project's, stock Pyserini, and stock Anserini without Pyserini."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from scipy.sparse import vstack

from benchmarks.peers.library import Library

SCALE = {"scheme": "unit", "scale": 1000}


class LexLIP(Library):
    """ImpactWriter and ImpactSearcher; ids and scores of all hits come back to Python."""

    modules = ("anserini_bridge", "jnius_config")
    pip = "pyserini"
    index = "lexlip"
    builds_with_threads = False
    alpha: float

    def build(self, staged: Path) -> None:
        from anserini_bridge import ImpactWriter

        new = partial(ImpactWriter, encoder="benchmark", quantization=SCALE, topk=None, normalize=True)
        with new(self.folder, self.corpus.words) as writer:
            for start, rows in self.corpus.slices():
                writer.add([str(number) for number in range(start, start + rows.shape[0])], rows)

    def open(self) -> None:
        from anserini_bridge import ImpactSearcher

        self.searcher = ImpactSearcher(self.folder)

    def native(self, number: int) -> Any:
        return self.corpus.queries[number]

    def search_one(self, query: Any, k: int) -> Any:
        ids, scores = self.searcher.search(query, k, alpha=self.alpha)
        return ids[0], scores[0]

    def batch(self, queries: Sequence[Any]) -> Any:
        return vstack(queries, format="csr")

    def search_all(self, batch: Any, k: int) -> Any:
        return self.searcher.search(batch, k, self.threads, alpha=self.alpha)

    def documents(self, hits: Any) -> list[int]:
        return [int(id) for id in hits[0]]

    def versions(self) -> dict[str, str]:
        from anserini_bridge import find_java
        from anserini_bridge.jvm import lucene_version

        return {"lucene": lucene_version(), "java": str(find_java().version)}


class _Stock(Library):
    """An index that Anserini's own program builds from its own format."""

    pip = "pyserini"
    index = "anserini"

    def stage(self, folder: Path) -> None:
        from anserini_bridge import write_json_vectors

        words = self.corpus.words
        for start, rows in self.corpus.slices():
            ids = [str(number) for number in range(start, start + rows.shape[0])]
            write_json_vectors(folder / f"{start:010}.jsonl", ids, rows, words)

    def build(self, staged: Path) -> None:
        from anserini_bridge import find_anserini, find_java

        options = "-impact -pretokenized -optimize"
        options += " -collection JsonVectorCollection -generator DefaultLuceneDocumentGenerator"
        command: list[str | Path] = [find_java().path / "bin" / "java", "-cp", find_anserini()]
        command += ["io.anserini.index.IndexCollection", *options.split()]
        command += ["-input", staged, "-index", self.folder, "-threads", str(self.threads)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    def weights(self, number: int) -> dict[str, int]:
        """Return a query as {term: weight}."""
        row = self.corpus.queries[number]
        return {f"t{term}": int(weight) for term, weight in zip(row.indices, row.data, strict=True)}


class Pyserini(_Stock):
    """LuceneImpactSearcher with encoded queries; ids and scores of all hits come back to Python."""

    modules = ("anserini_bridge", "pyserini")

    def open(self) -> None:
        start_like_pyserini()
        from pyserini.search.lucene import LuceneImpactSearcher

        encoded = SimpleNamespace(encode=lambda query: query)  # queries are encoded already
        self.searcher = LuceneImpactSearcher(str(self.folder), encoded)

    def native(self, number: int) -> Any:
        return self.weights(number)

    def search_one(self, query: Any, k: int) -> Any:
        return [(hit.docid, hit.score) for hit in self.searcher.search(query, k)]

    def search_all(self, batch: Any, k: int) -> Any:
        names = [str(number) for number in range(len(batch))]
        found = self.searcher.batch_search(batch, names, k, self.threads)
        return [[(hit.docid, hit.score) for hit in found[name]] for name in names]

    def documents(self, hits: Any) -> list[int]:
        return [int(id) for id, _ in hits]

    def versions(self) -> dict[str, str]:
        from anserini_bridge.jvm import lucene_version

        return {**super().versions(), "lucene": lucene_version()}


class _NoIndexes(ModuleType):
    """Replaces Pyserini's list of indexes to download, which it would fetch from the net on import."""

    def __getattr__(self, name: str) -> dict[str, Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return {}


def start_like_pyserini() -> None:
    """Prepare Pyserini to start a Java that runs Lucene, without the vector module if Java has none."""
    import jnius_config

    from anserini_bridge import find_java

    home = find_java().path
    sys.modules["pyserini.prebuilt_index_info"] = _NoIndexes("pyserini.prebuilt_index_info")
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("OPENAI_API_KEY", "none")  # some versions do not load without it
    add_options = jnius_config.add_options
    listed = subprocess.run([home / "bin" / "java", "--list-modules"], capture_output=True, text=True)
    if "jdk.incubator.vector" not in listed.stdout:
        jnius_config.add_options = lambda *options: add_options(
            *(option for option in options if "jdk.incubator.vector" not in option)
        )


class Anserini(_Stock):
    """SimpleImpactSearcher; queries are in Java before the clock starts, and hits stay there."""

    modules = ("anserini_bridge", "jnius_config")

    def open(self) -> None:
        from anserini_bridge.jvm import java_class

        self.searcher = java_class("io.anserini.search.SimpleImpactSearcher")(str(self.folder))

    def native(self, number: int) -> Any:
        from anserini_bridge.jvm import java_class

        query = java_class("java.util.HashMap")()
        for term, weight in self.weights(number).items():
            query.put(term, java_class("java.lang.Integer")(weight))
        return query

    def search_one(self, query: Any, k: int) -> Any:
        return self.searcher.search(query, k)

    def batch(self, queries: Sequence[Any]) -> Any:
        from anserini_bridge.jvm import java_class

        rows, names = java_class("java.util.ArrayList")(), java_class("java.util.ArrayList")()
        for number, query in enumerate(queries):
            rows.add(query)
            names.add(str(number))
        return rows, names

    def search_all(self, batch: Any, k: int) -> Any:
        return self.searcher.batch_search(*batch, k, self.threads)

    def documents(self, hits: Any) -> list[int]:
        return [int(hit.docid) for hit in hits]
