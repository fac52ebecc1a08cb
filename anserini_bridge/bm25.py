"""BM25 over texts, as stock Anserini computes it: the baseline that sparse vectors are compared with."""

from __future__ import annotations

import contextlib
import json
import shutil
import string
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anserini_bridge.errors import BadVectors, BridgeError, IndexNotFound
from anserini_bridge.integrity import damaged_in_lucene
from anserini_bridge.jvm import find_anserini, java_class, java_errors, one_at_a_time
from anserini_bridge.storage import check_data

LANGUAGES = ("en", "de", "fr", "cs")
"""Languages of texts, by ISO 639-1: each has its stop words and its stemmer."""

_CZECH = "org.apache.lucene.analysis.cz.CzechAnalyzer"  # missing from Anserini's list of analyzers
_BATCH = 10_000  # documents handed to Java at a time
_MOST_CLAUSES = 2**31 - 1  # words of a query; Lucene would end at 1,024
_EMPTY = "the"  # an English stop word: the text of a document that has an id and no words


class Bm25Searcher:
    """Searches an index that `write_bm25_index` made, through Anserini's SimpleSearcher.

    Queries are analyzed like the texts: by Anserini's DefaultEnglishAnalyzer (Porter stemmer, English stop
    words), or for another language by Lucene's GermanAnalyzer, FrenchAnalyzer or CzechAnalyzer. Equal
    scores come in the order of the ids. Threads may share it; one of them searches at a time.

    Args:
        path: the index's folder.
        k1, b: parameters of BM25, with Anserini's defaults.
        language: of the texts, one of LANGUAGES.

    Raises:
        IndexNotFound: the folder does not exist.
        CorruptIndex, IndexVersion: the index cannot be read.
        BridgeError: the language is unknown.
        NoJava, NoJar, JVMConflict: see `start_jvm`.
    """

    def __init__(self, path: str | Path, k1: float = 0.9, b: float = 0.4, language: str = "en") -> None:
        _check_language(language)
        self._parameters = k1, b
        self.path = Path(path).absolute()
        if not self.path.is_dir():
            raise IndexNotFound(f"there is no folder {self.path}: write a BM25 index there first")
        check_data(self.path)
        find_anserini()  # Java could only say that it lacks a class
        with _alone(self.path):
            _prepare(language)
            self._java = java_class("io.anserini.search.SimpleSearcher")(str(self.path))
            _checked().open(self._java, str(self.path).encode())
            self._java.set_bm25(k1, b)
            if language != "en":
                analyzers = java_class("io.anserini.analysis.AnalyzerMap")
                self._java.set_analyzer(analyzers.getLanguageSpecificAnalyzer(language))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index."""
        with _alone(self.path):
            self._java.close()

    def __len__(self) -> int:
        """Return the number of documents."""
        with _alone(self.path):
            return int(self._java.get_total_num_docs())

    @property
    def postings(self) -> int:
        """The number of distinct words of each document, summed over all documents."""
        with _alone(self.path):
            reader = java_class("io.anserini.index.IndexReaderUtils").getReader(str(self.path))
            pairs = int(reader.getSumDocFreq("contents"))
            reader.close()
        return pairs

    def search(
        self, queries: Sequence[str], k: int = 10, threads: int = 1
    ) -> tuple[list[list[str]], list[NDArray[np.float32]]]:
        """Return the k best documents for each of n texts.

        Args:
            queries: n texts.
            k: hits per query. Only documents that share a word with the query are hits, so there may be
                fewer, or none.
            threads: queries searched at the same time.

        Returns:
            For each query the ids, best first, and their scores.

        Raises:
            CorruptIndex: a file of the index is damaged.
        """
        with _alone(self.path):
            answers = self._batch(_java_lists(queries), k, threads)
            rows = [answers.get(str(row)) for row in range(len(queries))]
            ids = [[hit.docid for hit in row] for row in rows]
            scores = [np.array([hit.score for hit in row], dtype=np.float32) for row in rows]
        return ids, scores

    def contributions(self, query: str, ids: Sequence[str]) -> list[dict[str, float]]:
        """Return for each document what each word of a query added to its score, as `search` computes it.

        Args:
            query: the text.
            ids: of documents.

        Returns:
            {word: share}, the largest first, without words that a document lacks; words are those of the
            query as they stand there, which a document may have in another form.
        """
        query = _whole(query)
        with _alone(self.path):
            analyze = java_class("io.anserini.analysis.AnalyzerUtils").analyze
            weigh = java_class("io.anserini.index.IndexReaderUtils").getBM25AnalyzedTermWeightWithParameters
            analyzer, reader = self._java.get_analyzer(), self._java.reader
            times = Counter(_words(query))
            words = [(word, str(stem)) for word in times for stem in analyze(analyzer, word)]
            found = []
            for id in ids:
                shares: dict[str, float] = {}
                for word, stem in words:
                    share = times[word] * float(weigh(reader, id, stem, *self._parameters))
                    if share > 0:
                        shares[word] = shares.get(word, 0.0) + share
                found.append(dict(sorted(shares.items(), key=lambda entry: -entry[1])))
        return found

    def seconds(self, queries: Sequence[str], k: int = 10, threads: int = 1) -> float:
        """Return the seconds that Anserini needs for n texts, without passing texts and hits to and fro.

        The arguments are those of `search`.
        """
        with _alone(self.path):
            lists = _java_lists(queries)
            started = time.perf_counter()
            self._batch(lists, k, threads)
            return time.perf_counter() - started

    def _batch(self, lists: tuple[Any, Any], k: int, threads: int) -> Any:
        """Return Anserini's answers; if a search fails it only counts the others, so ask for the error."""
        try:
            return self._java.batch_search(*lists, k, threads)
        except Exception:
            for query in lists[0]:
                self._java.search(query, k)
            raise


def write_bm25_index(
    path: str | Path, ids: Sequence[str], texts: Sequence[str] | None, language: str = "en"
) -> None:
    """Index n texts with Anserini's SimpleIndexer: words with their counts, no positions, one segment.

    Args:
        path: a folder that is empty or does not exist; it is removed if indexing fails.
        ids: n ids.
        texts: n texts, none of them blank. None writes the ids without words, whose size on disk is that
            of the ids alone.
        language: of the texts, one of LANGUAGES; `Bm25Searcher` needs the same.

    Raises:
        IndexNotFound: the folder holds files.
        BadVectors: a text is blank, or there are not as many texts as ids.
        BridgeError: the language is unknown, or Anserini failed.
        NoJava, NoJar, JVMConflict: see `start_jvm`.
    """
    _check_language(language)
    find_anserini()
    path = Path(path).absolute()
    texts = [_EMPTY] * len(ids) if texts is None else texts
    if len(ids) != len(texts):
        raise BadVectors(f"there are {len(ids)} ids for {len(texts)} texts: give one id per text")
    for id, text in zip(ids, texts, strict=True):
        if not text.strip():
            raise BadVectors(f"the text of {id!r} is blank: leave the document out")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise IndexNotFound(f"{path} holds other files: give a new or an empty folder")
    try:
        with _alone(path):
            _prepare(language)
            _write(path, ids, texts, language)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _words(text: str) -> list[str]:
    """Return the words of a text as they stand there, without punctuation around them."""
    return [word for part in text.split() if (word := part.strip(string.punctuation))]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one thread at a time call Anserini, and translate its exceptions, as `java_errors` does."""
    with one_at_a_time, java_errors(path):
        yield


def _write(path: Path, ids: Sequence[str], texts: Sequence[str], language: str) -> None:
    options = {"input": "", "index": str(path), "collection": "JsonCollection", "language": language}
    options["threads"] = "1"  # keeps the order
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
        raise BridgeError(
            f"Anserini indexed {written} of {len(ids)} texts at {path}: see the errors that it logged"
        )
    if damaged := damaged_in_lucene(path):  # SimpleIndexer.close only logs an error of the disk
        raise BridgeError(f"the texts at {path} are incomplete ({damaged[0]}): is the disk full?")
    _checked().addSums(str(path).encode())


def _checked() -> Any:
    """Return Java's class that compares files with checksums of their blocks, as they are read."""
    return java_class("impact.CheckedDirectory")


def _java_lists(queries: Sequence[str]) -> tuple[Any, Any]:
    """Return the queries, and numbers that identify their answers, as java.util.List."""
    texts, numbers = java_class("java.util.ArrayList")(), java_class("java.util.ArrayList")()
    for number, query in enumerate(queries):
        texts.add(_whole(query))
        numbers.add(str(number))
    return texts, numbers


def _whole(text: str) -> str:
    """Return a text with "?" in place of halves of characters, which Java's strings cannot hold alone."""
    return text.encode(errors="replace").decode()


def _check_language(language: str) -> None:
    """Raise BridgeError unless there is an analyzer for the language."""
    if language not in LANGUAGES:
        raise BridgeError(
            f"there is no analyzer for the language {language!r}: give one of {', '.join(LANGUAGES)}"
        )


def _prepare(language: str) -> None:
    """Prepare Anserini: add the analyzer that it lacks, take queries of any length, and log only errors."""
    java_class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_MOST_CLAUSES)
    if language == "cs":
        java_class("io.anserini.analysis.AnalyzerMap").analyzerMap.put("cs", _CZECH)
    level = java_class("org.apache.logging.log4j.Level").ERROR  # others would go to standard output
    java_class("org.apache.logging.log4j.core.config.Configurator").setRootLevel(level)
