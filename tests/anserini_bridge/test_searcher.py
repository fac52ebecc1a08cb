import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_corpus import (
    ABC,
    DO_NOT_FIT,
    REPLACED,
    SETTINGS,
    A,
    Corpus,
    brute_force,
    listed,
    literal,
    of_arrays,
    random_vectors,
    search,
    written,
)
from scipy.sparse import csr_matrix

import anserini_bridge.vectors
from anserini_bridge import (
    BadVectors,
    BridgeError,
    ImpactSearcher,
    ImpactWriter,
    UnknownId,
    VocabularyMismatch,
    update_index,
)


@pytest.mark.parametrize("k", [1, 10, 20_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_search_equals_brute_force_with_ties_in_insertion_order(
    index: Path, corpus: Corpus, k: int, threads: int
) -> None:
    queries = random_vectors(rows=30, width=200, density=0.05, top=3, seed=1)
    with ImpactSearcher(index, corpus.words) as searcher:
        found = searcher.search(queries, k=k, threads=threads)
        assert listed(searcher.search(queries[:1])) == listed(searcher.search(queries[:1], k=10))
    assert listed(found) == brute_force(queries, corpus.vectors, corpus.ids, k)
    assert all(scores.dtype == np.int64 for scores in found[1])


def test_empty_rows_have_no_hits(index: Path) -> None:
    queries = csr_matrix((3, 200), dtype=np.int32)
    with ImpactSearcher(index) as searcher:
        ids, scores = searcher.search(queries, threads=2)
        assert ids == [[], [], []]
        assert [len(row) for row in scores] == [0, 0, 0]
        assert searcher.search(queries[:0]) == ([], [])


def test_more_hits_than_one_call_returns(
    index: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anserini_bridge.searcher._MAX_HITS", 25)
    queries = random_vectors(rows=7, width=200, density=0.05, top=3, seed=3)
    assert search(index, queries) == brute_force(queries, corpus.vectors, corpus.ids, 10)


def test_scores_are_exact_beyond_what_float32_holds(tmp_path: Path) -> None:
    top = 2**31 - 1
    vectors = csr_matrix(np.array([[2**24, 1, 0], [2**24, 0, 0], [0, 2**24 + 1, 0], [0, 0, top]]))
    with ImpactSearcher(written(tmp_path / "i", ABC, ["d0", "d1", "d2", "d3"], vectors)) as searcher:
        found = listed(searcher.search(csr_matrix([[1, 1, 0], [0, 0, top]])))
        assert found[0] == (["d0", "d2", "d1"], [2**24 + 1, 2**24 + 1, 2**24])
        assert found[1] == (["d3"], [top * top])
        assert searcher.contributions(csr_matrix([[0, 0, top]]), ["d3"])[0, 2] == top * top


def test_odd_words_and_ids(tmp_path: Path) -> None:
    words = ["|", "##ing", "a b", "naïve", "日本", "🐈", "\u2028", "\x1f", "\r", " "]
    ids = [f"photos/{word}" for word in words]
    index = written(tmp_path / "índex 🐈", words, ids, csr_matrix(np.eye(len(words), dtype=int) * 5))
    with ImpactSearcher(index, words) as searcher:
        assert searcher.search(csr_matrix(np.eye(len(words), dtype=int)))[0] == [[name] for name in ids]
        assert searcher.vocabulary == tuple(words)


def test_contributions_sum_to_the_score(index: Path, corpus: Corpus) -> None:
    query = random_vectors(rows=1, width=200, density=0.1, top=5, seed=4)
    with ImpactSearcher(index) as searcher:
        ids, scores = searcher.search(query, k=50)
        found = searcher.contributions(query, ids[0])
    rows = [corpus.ids.index(name) for name in ids[0]]
    assert found.shape == (50, 200)
    assert found.sum(axis=1).ravel().tolist()[0] == scores[0].tolist()
    assert (found != corpus.vectors[rows].multiply(query.toarray())).nnz == 0


def test_vectors_come_back_as_they_went_in(index: Path, corpus: Corpus) -> None:
    rows = [9_999, 17, 3, 4_096, 3]
    with ImpactSearcher(index) as searcher:
        found = searcher.vectors([corpus.ids[row] for row in rows])
        assert (found != corpus.vectors[rows]).nnz == 0
        assert searcher.vectors([]).shape == (0, 200)


def test_metadata_and_length(index: Path, corpus: Corpus) -> None:
    with ImpactSearcher(index) as searcher:
        assert len(searcher) == searcher.metadata.documents == 10_000
        assert searcher.metadata.postings == corpus.vectors.nnz
        assert searcher.metadata.quantization == SETTINGS["quantization"]


def test_refresh_sees_an_update_and_a_rebuild(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        assert not searcher.refresh()
        with update_index(small) as writer:
            writer.delete(["z"])
        assert searcher.search(A)[0] == [["x", "z"]]
        assert searcher.refresh()
        assert (searcher.search(A)[0], len(searcher)) == ([["x"]], 2)
        written(small, ["a", "d"], ["new"], csr_matrix([[1, 1]]))
        assert searcher.search(A)[0] == [["x"]]  # its files are deleted, and still open
        assert searcher.refresh()
        assert searcher.search(csr_matrix([[1, 0]]))[0] == [["new"]]
        assert searcher.vocabulary == ("a", "d")
        assert not searcher.refresh()


def test_what_is_held_stays_the_same(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        with searcher.hold() as held, searcher.hold() as also:
            with update_index(small) as writer:
                writer.delete(["z"])
            assert searcher.refresh()
            assert searcher.search(A)[0] == [["x"]]
            assert held.search(A)[0] == [["x", "z"]]
            assert held.contributions(A, ["x", "z"]).shape == (2, 3)
            assert (len(held), len(searcher)) == (3, 2)
            with pytest.raises(UnknownId):
                searcher.contributions(A, ["z"])
            written(small, ["a", "d"], ["new"], csr_matrix([[1, 1]]))
            assert searcher.refresh()
            searcher.close()
            assert held.search(A)[0] == also.search(A)[0] == [["x", "z"]]
        with pytest.raises(BridgeError, match="closed"):
            held.search(A)
        with pytest.raises(BridgeError, match="closed"), searcher.hold():
            pass


def test_one_answer_comes_from_one_state(small: Path) -> None:
    """`search` and then `contributions`, while another thread refreshes and documents come and go."""
    stop = threading.Event()

    def answer() -> int:
        count = 0
        while not stop.is_set():
            with searcher.hold() as held:
                ids, scores = held.search(A)
                sums = held.contributions(A, ids[0]).sum(axis=1)
            assert np.asarray(sums).ravel().tolist() == scores[0].tolist()
            count += 1
        return count

    with ImpactSearcher(small) as searcher, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(answer) for _ in range(2)]
        for number in range(8):
            create = number % 3 == 2
            with ImpactWriter(
                small, ["a", "b", "c"], mode="create" if create else "update", **SETTINGS
            ) as writer:
                writer.upsert([f"n{number}"], csr_matrix([[number + 1, 0, 0]]))
                if not create:
                    writer.delete([f"n{number - 1}"])
            searcher.refresh()
        stop.set()
        assert all(one.result() > 0 for one in running)


@pytest.mark.parametrize("call", ["search", "numbers", "holding", "vectors"])
def test_a_call_reaches_its_own_index_when_another_thread_calls_between(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The other thread's call comes after the method was looked up and before it is called."""
    other_index = written(tmp_path / "other", ABC, ["other"], csr_matrix([[7, 7, 7]]))

    def answer(searcher: ImpactSearcher) -> str:
        calls: dict[str, Callable[[], object]] = {
            "search": lambda: searcher.search(A),
            "numbers": lambda: searcher.numbers(["x", "z"]),
            "holding": lambda: searcher.holding([0]),
            "vectors": lambda: searcher.vectors(["x"]).toarray(),
        }
        return repr(calls[call]())

    with ImpactSearcher(small) as searcher, ImpactSearcher(other_index) as other:
        expected = answer(searcher)
        for name in ("pack_queries", "pack_matrix", "pack_strings", "pack_ints"):
            monkeypatch.setattr(f"anserini_bridge.searcher.{name}", between(name, other))
        assert answer(searcher) == expected


def between(name: str, other: ImpactSearcher) -> Callable[..., object]:
    """Return what packs arguments, after the other searcher has been called in every way."""
    pack = getattr(anserini_bridge.vectors, name)
    busy = False

    def first_the_other(*arguments: object) -> object:
        nonlocal busy
        if not busy:
            busy = True
            other.search(A)
            other.numbers(["other"])
            other.holding([0])
            other.vectors(["other"])
            busy = False
        return pack(*arguments)

    return first_the_other


def test_threads_search_their_own_indexes(tmp_path: Path) -> None:
    def ask(number: int) -> None:
        path = written(tmp_path / str(number), ABC, [f"{number}"], csr_matrix([[number + 1, 0, 0]]))
        for _ in range(200):
            assert search(path, csr_matrix([[1, 1, 1]])) == [([f"{number}"], [number + 1])]

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(ask, number) for number in range(4)]:
            one.result()


def test_refresh_refuses_another_vocabulary_and_keeps_the_old_index(small: Path) -> None:
    with ImpactSearcher(small, ["a", "b", "c"]) as searcher:
        written(small, ["a", "d"], ["new"], csr_matrix([[1, 1]]))
        with pytest.raises(VocabularyMismatch):
            searcher.refresh()
        assert searcher.search(A)[0] == [["x", "z"]]


def test_threads_search_and_refresh_while_the_index_is_replaced(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        ends = threading.Event()

        def ask() -> set[tuple[str, ...]]:
            found = set()
            while not ends.is_set():
                searcher.refresh()
                found.add(tuple(searcher.search(A)[0][0]))
                with searcher.hold() as held:
                    assert len(held.ids()) == len(held)
            return found

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(ask) for _ in range(4)]
            for number in range(20):
                written(small, ABC, [f"n{number}"], csr_matrix([[9, 0, 0]]))
            ends.set()
        for one in running:
            assert one.result() <= {("x", "z"), *((f"n{number}",) for number in range(20))}
        searcher.refresh()
        assert searcher.search(A)[0] == [["n19"]]


def test_a_hold_ends_while_a_slow_refresh_runs(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = threading.Event(), threading.Event()

    def read_slowly(*arguments: object) -> tuple[str, ...]:
        begun.set()
        ends.wait(30)
        return "a", "b", "c"

    def ask(searcher: ImpactSearcher) -> list[list[str]]:
        with searcher.hold() as held:
            return held.search(A)[0]

    with ImpactSearcher(small) as searcher, ThreadPoolExecutor(2) as pool:
        written(small, ABC, ["new"], csr_matrix([[9, 0, 0]]))
        monkeypatch.setattr("anserini_bridge.searcher.read_words", read_slowly)
        refreshing = pool.submit(searcher.refresh)
        begun.wait(30)
        try:
            assert pool.submit(ask, searcher).result(10) == [["x", "z"]]
        finally:
            ends.set()
        assert refreshing.result()
        assert ask(searcher) == [["new"]]


def test_ids_are_those_of_the_documents_that_are_not_deleted(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        assert sorted(searcher.ids()) == ["x", "y", "z"]
        with update_index(small) as writer:
            writer.upsert(["z", "größe 写真"], csr_matrix([[1, 0, 0], [0, 0, 0]]))
            writer.delete(["x"])
        assert sorted(searcher.ids()) == ["x", "y", "z"]
        assert searcher.refresh()
        assert sorted(searcher.ids()) == ["größe 写真", "y", "z"]
        with update_index(small) as writer:
            writer.delete(searcher.ids())
        searcher.refresh()
        assert searcher.ids() == []


def test_wrong_vocabulary_names_both(small: Path) -> None:
    with pytest.raises(VocabularyMismatch, match=r"of 3 words \(\w{12}\), not with this one of 2 words"):
        ImpactSearcher(small, ["a", "b"])
    with pytest.raises(VocabularyMismatch):
        ImpactSearcher(small, ["b", "a", "c"])


@pytest.fixture(scope="module")
def four_words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImpactSearcher]:
    """A document for each of four words."""
    rows = csr_matrix(np.eye(4, dtype=np.int32))
    with ImpactSearcher(
        written(tmp_path_factory.mktemp("four") / "i", [*"abcd"], [*"abcd"], rows)
    ) as searcher:
        yield searcher


def int32(changed: dict[str, Any]) -> dict[str, Any]:
    """The arrays in the type that search lets Java check, if their values fit."""

    def converted(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.dtype.kind != "i":
            return array
        small = array.astype(np.int32)
        return small if np.array_equal(small, array) else array

    return {name: converted(array) for name, array in changed.items()}


@pytest.mark.parametrize("changed", DO_NOT_FIT, ids=str)
def test_queries_whose_arrays_do_not_belong_together(
    four_words: ImpactSearcher, changed: dict[str, Any]
) -> None:
    for arrays in (changed, int32(changed)):
        with pytest.raises(BadVectors, match=r"^the sparse matrix is malformed \(.*\): make it again"):
            four_words.search(of_arrays(**arrays))


@pytest.mark.parametrize(("changed", "wanted"), REPLACED, ids=str)
def test_queries_that_are_put_right(
    four_words: ImpactSearcher, changed: dict[str, Any], wanted: list[list[int]]
) -> None:
    for arrays in (changed, int32(changed)):
        found = [dict(zip(*answer, strict=True)) for answer in listed(four_words.search(of_arrays(**arrays)))]
        assert [[scores.get(word, 0) for word in "abcd"] for scores in found] == wanted


def test_bad_requests(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        for k in (0, -1, 1.5):
            with pytest.raises(BadVectors, match=f"k is {k}: give a whole number of at least 1"):
                searcher.search(A, k=k)  # type: ignore[arg-type]
        with pytest.raises(BadVectors, match="threads is 0"):
            searcher.search(A, threads=0)
        with pytest.raises(BadVectors, match="have 2 columns, and the vocabulary 3 words"):
            searcher.search(csr_matrix([[1, 0]]))
        with pytest.raises(BadVectors, match=r"weight 0\.5 in row 0, column 1"):
            searcher.search(csr_matrix([[1, 0.5, 0]]))
        with pytest.raises(BadVectors, match=r"^there are 2 queries: give one row$"):
            searcher.contributions(csr_matrix([[1, 0, 0], [1, 0, 0]]), ["x"])
        message = f"index at {literal(small)} holds no document with the id 'nobody': give"
        with pytest.raises(UnknownId, match=message):
            searcher.contributions(A, ["x", "nobody"])


def test_a_closed_searcher_says_so(small: Path) -> None:
    searcher = ImpactSearcher(small)
    searcher.close()
    with pytest.raises(BridgeError, match=f"^the index at {literal(small)} was closed: open it again$"):
        searcher.search(A)
