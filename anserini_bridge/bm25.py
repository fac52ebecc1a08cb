"""BM25 over texts, as stock Anserini has it: the classic search that sparse vectors are compared with."""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .errors import BadVectors, BridgeError, IndexNotFound
from .jvm import java_class, java_errors

LANGUAGES = ("en", "de", "fr", "cs")
"""What texts may be written in, by ISO 639-1: each has its stop words and its stemmer."""

_CZECH = "org.apache.lucene.analysis.cz.CzechAnalyzer"  # which Anserini's list of analysers lacks
_BATCH = 10_000  # documents handed to Java at a time
_SILENCE = "the"  # an English stop word: a document that holds only an id


class Bm25Searcher:
    """Searches an index that `write_bm25_index` made, through Anserini's SimpleSearcher.

    Queries go through the same analysis as the texts: Anserini's DefaultEnglishAnalyzer (Porter stemmer,
    English stop words), or for another language Lucene's GermanAnalyzer, FrenchAnalyzer or CzechAnalyzer.
    Equal scores come in the order of the ids. The parameters are Anserini's defaults.
    """

    def __init__(self, path: str | Path, k1: float = 0.9, b: float = 0.4, language: str = "en") -> None:
        """Opens the index, whose texts are in `language`, one of LANGUAGES.

        Raises IndexNotFound, CorruptIndex, IndexVersion, NoJava, NoJar, JVMConflict, or BridgeError (an
        unknown language).
        """
        _check(language)
        self.path = Path(path).absolute()
        if not self.path.is_dir():
            raise IndexNotFound(f"There is no folder {self.path}: write a BM25 index there first.")
        _quiet()
        with java_errors(self.path):
            self._java = java_class("io.anserini.search.SimpleSearcher")(str(self.path))
            self._java.set_bm25(k1, b)
            if language != "en":
                analyzers = java_class("io.anserini.analysis.AnalyzerMap")
                self._java.set_analyzer(analyzers.getLanguageSpecificAnalyzer(language))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the index."""
        with java_errors(self.path):
            self._java.close()

    def __len__(self) -> int:
        return int(self._java.get_total_num_docs())

    @property
    def postings(self) -> int:
        """Pairs of a document and a word that it holds, all documents together."""
        with java_errors(self.path):
            reader = java_class("io.anserini.index.IndexReaderUtils").getReader(str(self.path))
            pairs = int(reader.getSumDocFreq("contents"))
            reader.close()
        return pairs

    def search(
        self, queries: Sequence[str], k: int = 10, threads: int = 1
    ) -> tuple[list[list[str]], list[NDArray[np.float32]]]:
        """Returns for each of n texts its k best documents: ids, and scores, best first.

        Only documents that share a word with the query are hits, so a row may have fewer than k, or none.
        threads: queries searched at the same time. Raises CorruptIndex.
        """
        with java_errors(self.path):
            answers = self._search(*_java_lists(queries), k, threads)
            rows = [answers.get(str(row)) for row in range(len(queries))]
            ids = [[hit.docid for hit in row] for row in rows]
            scores = [np.array([hit.score for hit in row], dtype=np.float32) for row in rows]
        return ids, scores

    def seconds(self, queries: Sequence[str], k: int = 10, threads: int = 1) -> float:
        """Returns how long Anserini takes to answer n texts, without passing them, or hits, to and fro."""
        lists = _java_lists(queries)
        with java_errors(self.path):
            started = time.perf_counter()
            self._search(*lists, k, threads)
            return time.perf_counter() - started

    def _search(self, queries: Any, numbers: Any, k: int, threads: int) -> Any:
        return self._java.batch_search(queries, numbers, k, threads)


def write_bm25_index(
    path: str | Path, ids: Sequence[str], texts: Sequence[str] | None, language: str = "en"
) -> None:
    """Indexes n texts with Anserini's SimpleIndexer: words with their counts, no positions, one segment.

    path: a folder that is empty or does not exist; nothing is left there if indexing fails.
    texts: none of them blank; None writes an index of the same ids without words, whose size is that of
    the ids.
    language: of the texts, one of LANGUAGES; see Bm25Searcher, which must be told the same.

    Raises IndexNotFound (the folder holds files), BadVectors (a blank text, or not as many texts as ids),
    BridgeError (an unknown language, or what Java says), NoJava, NoJar or JVMConflict.
    """
    _check(language)
    path = Path(path).absolute()
    texts = [_SILENCE] * len(ids) if texts is None else texts
    if len(ids) != len(texts):
        raise BadVectors(f"There are {len(ids)} ids for {len(texts)} texts.")
    for id, text in zip(ids, texts, strict=True):
        if not text.strip():
            raise BadVectors(f"The text of {id!r} is blank: leave the document out.")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise IndexNotFound(f"{path} holds other files: give a new or an empty folder.")
    _quiet()
    try:
        with java_errors(path):
            _write(path, ids, texts, language)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _write(path: Path, ids: Sequence[str], texts: Sequence[str], language: str) -> None:
    options = {"input": "", "index": str(path), "collection": "JsonCollection", "language": language}
    options["threads"] = "1"  # which keeps the order
    arguments = [word for name, value in options.items() for word in (f"-{name}", value)]
    writer = java_class("io.anserini.index.SimpleIndexer")(arguments)
    written = 0
    try:
        for start in range(0, len(ids), _BATCH):
            rows = zip(ids[start : start + _BATCH], texts[start : start + _BATCH], strict=True)
            written += writer.addRawDocuments([json.dumps({"id": id, "contents": text}) for id, text in rows])
    finally:
        writer.close(True)
    if written != len(ids):
        raise BridgeError(f"Anserini indexed {written} of {len(ids)} texts at {path}.")


def _java_lists(queries: Sequence[str]) -> tuple[Any, Any]:
    """The queries, and numbers by which to find their answers, as java.util.List."""
    texts, numbers = java_class("java.util.ArrayList")(), java_class("java.util.ArrayList")()
    for number, query in enumerate(queries):
        texts.add(query)
        numbers.add(str(number))
    return texts, numbers


def _quiet() -> None:
    """Keeps Anserini's log, which it prints among the results, to errors."""
    level = java_class("org.apache.logging.log4j.Level").ERROR
    java_class("org.apache.logging.log4j.core.config.Configurator").setRootLevel(level)


def _check(language: str) -> None:
    """Raises BridgeError unless there is an analysis for a language; lends Anserini that for Czech."""
    if language not in LANGUAGES:
        raise BridgeError(f"There is no analysis for the language {language!r}, only {', '.join(LANGUAGES)}.")
    if language == "cs":
        java_class("io.anserini.analysis.AnalyzerMap").analyzerMap.put("cs", _CZECH)
