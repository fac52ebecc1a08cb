"""Anserini itself, as its users run it: it makes an index, and its searcher answers from one."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from anserini_bridge import find_anserini, find_java
from anserini_bridge.jvm import java_class


def index_with_anserini(documents: Path, index: Path) -> Path:
    """Index a folder of pseudo-documents."""
    java = find_java().path / "bin" / "java"
    command = [java, "-cp", find_anserini(), "io.anserini.index.IndexCollection", "-impact", "-pretokenized"]
    command += ["-collection", "JsonVectorCollection", "-generator", "DefaultLuceneDocumentGenerator"]
    command += ["-input", documents, "-index", index, "-threads", "1"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return index


def stock_search(lucene: Path, query: Mapping[str, int], k: int) -> list[tuple[str, int]]:
    """The hits of Pyserini's LuceneImpactSearcher, which is this class, for whole weights by word."""
    searcher = java_class("io.anserini.search.SimpleImpactSearcher")(str(lucene))
    weights = java_class("java.util.HashMap")()
    for word, weight in query.items():
        weights.put(word, java_class("java.lang.Integer")(int(weight)))
    hits = searcher.search(weights, k)
    searcher.close()
    # Anserini lowers tied scores by a millionth each, to keep their order in run files.
    return [(hit.docid, round(hit.score)) for hit in hits]
