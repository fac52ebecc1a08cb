"""Stock Anserini reads our indexes, and makes the same index from what we export."""

from pathlib import Path

from bridge_corpus import Corpus, brute_force, named, random_vectors
from skips import needs_anserini

from anserini_bridge import ImpactSearcher, write_json_vectors
from tests.reference.anserini import index_with_anserini, stock_search

pytestmark = needs_anserini


def test_anserinis_own_searcher_reads_the_index(index: Path, corpus: Corpus) -> None:
    queries = random_vectors(rows=5, width=200, density=0.05, top=3, seed=7)
    with ImpactSearcher(index) as searcher:
        _, scores = searcher.search(queries, k=20)
    truth = (queries @ corpus.vectors.T).toarray()
    for row in range(5):
        hits = stock_search(index / "data-1" / "lucene", named(queries[row], corpus.words), k=20)
        assert [score for _, score in hits] == scores[row].tolist()
        assert [truth[row, corpus.ids.index(name)] for name, _ in hits] == scores[row].tolist()


def test_stock_anserini_indexes_the_export_to_the_same_scores(tmp_path: Path, corpus: Corpus) -> None:
    ids, vectors = corpus.ids[:300], corpus.vectors[:300]
    (tmp_path / "export").mkdir()
    write_json_vectors(tmp_path / "export" / "corpus.jsonl", ids, vectors, corpus.words)
    made = index_with_anserini(tmp_path / "export", tmp_path / "index")
    query = random_vectors(rows=1, width=200, density=0.1, top=3, seed=8)
    hits = stock_search(made, named(query, corpus.words), k=300)
    [(expected_ids, expected_scores)] = brute_force(query, vectors, ids, k=300)
    assert [score for _, score in hits] == expected_scores
    assert dict(hits) == dict(zip(expected_ids, expected_scores, strict=True))
