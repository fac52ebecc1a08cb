from pathlib import Path

import pytest
from bridge_corpus import ABC, SETTINGS, A, Corpus, brute_force, listed, literal, named, random_vectors
from scipy.sparse import csr_matrix
from skips import needs_anserini

from anserini_bridge import ImpactSearcher, IndexNotFound, VocabularyMismatch, write_json_vectors
from anserini_bridge.anserini_index import AnseriniSearcher
from anserini_bridge.metadata import is_of_anserini, read_searched_header
from tests.reference.anserini import index_with_anserini, stock_search

pytestmark = needs_anserini

HOW = "mini@1", SETTINGS["quantization"]
ROWS = slice(16, 3_016)  # the second one is without words


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> Path:
    """An index that Anserini made of a part of the corpus."""
    folder = tmp_path_factory.mktemp("anserini")
    (folder / "documents").mkdir()
    documents = folder / "documents" / "corpus.jsonl"
    write_json_vectors(documents, corpus.ids[ROWS], corpus.vectors[ROWS], corpus.words)
    return index_with_anserini(folder / "documents", folder / "index")


def test_answers_are_those_of_anserini_and_of_brute_force(made: Path, corpus: Corpus) -> None:
    queries = random_vectors(rows=20, width=200, density=0.05, top=3, seed=7)
    with AnseriniSearcher(made, corpus.words, *HOW) as searcher:
        answers = listed(searcher.search(queries, k=20, threads=2))
        with searcher.hold() as held:
            assert listed(held.search(queries, k=20)) == answers
    assert answers == brute_force(queries, corpus.vectors[ROWS], corpus.ids[ROWS], k=20)
    for query, (_, scores) in zip(queries, answers, strict=True):
        assert [score for _, score in stock_search(made, named(query, corpus.words), k=20)] == scores


def test_what_the_index_stores_is_read_back(made: Path, corpus: Corpus) -> None:
    ids, query = corpus.ids[ROWS], random_vectors(rows=1, width=200, density=0.1, top=3, seed=8)
    with AnseriniSearcher(made, corpus.words, *HOW) as searcher:
        assert (searcher.vectors(ids[2:9]) != corpus.vectors[18:25]).nnz == 0
        shares = searcher.contributions(query, ids[2:9])
        assert sorted(searcher.ids()) == sorted(set(ids) - {ids[1]})
        assert len(searcher) == len(ids) - 1
        assert not searcher.refresh()
    assert shares.sum(axis=1).A1.tolist() == (query @ corpus.vectors[18:25].T).toarray()[0].tolist()


def test_words_of_another_model_are_refused(made: Path, corpus: Corpus) -> None:
    lost = int((corpus.vectors[ROWS, 199] > 0).sum())
    says = f"{lost} of the .* words of documents in the index at {literal(made)} are not among those of mini"
    with pytest.raises(VocabularyMismatch, match=says):
        AnseriniSearcher(made, corpus.words[:199], *HOW)
    with pytest.raises(VocabularyMismatch, match="name the model that made them"):
        AnseriniSearcher(made, ABC, *HOW)


def test_an_index_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    write_json_vectors(
        tmp_path / "documents" / "none.jsonl", ["1", "2"], csr_matrix((2, len(ABC)), dtype=int), ABC
    )
    index = index_with_anserini(tmp_path / "documents", tmp_path / "index")
    with pytest.raises(
        VocabularyMismatch, match=f"the documents of the index at {literal(index)} have no words"
    ):
        AnseriniSearcher(index, ABC, *HOW)


def test_other_folders_are_no_such_index(made: Path, index: Path, tmp_path: Path) -> None:
    assert is_of_anserini(made)
    assert read_searched_header(made).kind == "anserini"
    assert read_searched_header(index).kind == "impact"
    for other in (index, tmp_path, tmp_path / "missing"):
        assert not is_of_anserini(other)
        with pytest.raises(IndexNotFound, match="holds no index of Lucene's alone"):
            AnseriniSearcher(other, ABC, *HOW)
    with pytest.raises(IndexNotFound, match=r"only `lexlip search --model NAME` can ask it"):
        ImpactSearcher(made)


@pytest.mark.slow
def test_a_newer_state_is_found(tmp_path: Path) -> None:
    documents, rows = tmp_path / "documents", csr_matrix([[1, 0, 0], [2, 1, 0]])
    documents.mkdir()
    write_json_vectors(documents / "corpus.jsonl", ["x", "y"], rows, ABC)
    made = index_with_anserini(documents, tmp_path / "index")
    with AnseriniSearcher(made, ABC, *HOW) as searcher:
        before = searcher.state
        write_json_vectors(documents / "corpus.jsonl", ["x", "y"], 2 * rows, ABC)
        index_with_anserini(documents, made)
        assert searcher.refresh()
        assert listed(searcher.search(A)) == [(["y", "x"], [4, 2])]
        assert searcher.state != before
