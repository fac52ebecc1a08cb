"""Stock Anserini reads our indexes, and makes the same index from what we export."""

import subprocess
from pathlib import Path

import pytest
from bridge_corpus import Corpus, brute_force, random_vectors
from scipy.sparse import csr_matrix
from skips import needs_anserini

from anserini_bridge import ImpactSearcher, IndexNotFound, find_anserini, find_java, write_json_vectors
from anserini_bridge.jvm import java_class

pytestmark = needs_anserini


def stock_search(lucene: Path, query: csr_matrix, words: list[str], k: int) -> list[tuple[str, int]]:
    searcher = java_class("io.anserini.search.SimpleImpactSearcher")(str(lucene))
    weights = java_class("java.util.HashMap")()
    for column, weight in zip(query.indices, query.data, strict=True):
        weights.put(words[column], java_class("java.lang.Integer")(int(weight)))
    hits = searcher.search(weights, k)
    searcher.close()
    # Anserini lowers tied scores by a millionth each, to keep their order in run files.
    return [(hit.docid, round(hit.score)) for hit in hits]


def test_anserinis_own_searcher_reads_the_index(index: Path, corpus: Corpus) -> None:
    queries = random_vectors(rows=5, width=200, density=0.05, top=3, seed=7)
    with ImpactSearcher(index) as searcher:
        _, scores = searcher.search(queries, k=20)
    truth = (queries @ corpus.vectors.T).toarray()
    for row in range(5):
        hits = stock_search(index / "data-1" / "lucene", queries[row], corpus.words, k=20)
        assert [score for _, score in hits] == scores[row].tolist()
        assert [truth[row, corpus.ids.index(name)] for name, _ in hits] == scores[row].tolist()


def test_stock_anserini_indexes_the_export_to_the_same_scores(tmp_path: Path, corpus: Corpus) -> None:
    ids, vectors = corpus.ids[:300], corpus.vectors[:300]
    (tmp_path / "export").mkdir()
    write_json_vectors(tmp_path / "export" / "corpus.jsonl", ids, vectors, corpus.words)
    java = find_java().path / "bin" / "java"
    command = [java, "-cp", find_anserini(), "io.anserini.index.IndexCollection", "-impact", "-pretokenized"]
    command += ["-collection", "JsonVectorCollection", "-generator", "DefaultLuceneDocumentGenerator"]
    command += ["-input", tmp_path / "export", "-index", tmp_path / "index", "-threads", "1"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with pytest.raises(IndexNotFound, match="holds an index of Lucene's alone, such as Anserini makes"):
        ImpactSearcher(tmp_path / "index")
    query = random_vectors(rows=1, width=200, density=0.1, top=3, seed=8)
    hits = stock_search(tmp_path / "index", query, corpus.words, k=300)
    [(expected_ids, expected_scores)] = brute_force(query, vectors, ids, k=300)
    assert [score for _, score in hits] == expected_scores
    assert dict(hits) == dict(zip(expected_ids, expected_scores, strict=True))
