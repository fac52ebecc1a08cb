"""Searches without Java answer as those in Lucene, and as the plain formula, after any history."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_corpus import ABC, DYING, ROOT, SETTINGS, A, Corpus, brute_force, listed, random_vectors, written
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import (
    BadVectors,
    CorruptIndex,
    FlatSearcher,
    ImpactSearcher,
    ImpactWriter,
    IndexMismatch,
    UnknownId,
    VocabularyMismatch,
    flat,
    open_searcher,
    read_metadata,
    update_index,
)
from anserini_bridge.sparse_rows import Rows

WORDS = [f"w{i}" for i in range(40)]
ROW = csr_matrix([[1, 2, 3]])


def copies(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob("data-*/flat-*"))


def copy_of(path: Path) -> Path:
    metadata = read_metadata(path)
    return path / metadata.directory / flat.flat_file(metadata)


def dense(rows: Any) -> np.ndarray:
    return (rows.csr() if isinstance(rows, Rows) else rows).toarray()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    rows = csr_matrix([[3, 0, 1], [0, 2, 0], [1, 1, 1]])
    return written(tmp_path / "made", ABC, ["x", "y", "z"], rows, flat=True)


def agree(path: Path, held: dict[str, csr_matrix], rng: np.random.Generator) -> None:
    """Ask both searchers of an index everything, and the plain formula what it knows."""
    ids = list(held)
    vectors = csr_matrix(vstack(list(held.values()))) if held else csr_matrix((0, len(WORDS)), dtype=np.int32)
    queries = random_vectors(8, len(WORDS), 0.2, 3, int(rng.integers(10**6)))
    asked = [str(id) for id in rng.choice(ids, 7)] if ids else []  # some twice
    with FlatSearcher(path, WORDS) as ours, ImpactSearcher(path, WORDS) as theirs:
        for k in (1, 10, 10**6):
            found = listed(ours.search(queries, k))
            assert found == listed(theirs.search(queries, k)) == brute_force(queries, vectors, ids, k)
        few = Rows.of(queries)
        assert listed(ours.search(few, 5)) == listed(theirs.search(few, 5)) == listed(ours.search(queries, 5))
        allowed = {id for id in ids if rng.random() < 0.4}
        masks = []
        for searcher in (ours, theirs):
            mask = np.zeros(searcher.size, np.bool_)
            numbers = searcher.numbers([*allowed, "no such id"])
            assert numbers[-1] == -1
            mask[numbers[:-1]] = True
            masks.append(searcher.allow(mask))
        assert masks[0].count == masks[1].count == len(allowed)
        assert listed(ours.search(queries, 9, allowed=masks[0])) == listed(
            theirs.search(queries, 9, allowed=masks[1])
        )
        np.testing.assert_array_equal(dense(ours.vectors(asked)), dense(theirs.vectors(asked)))
        one = queries[0]
        np.testing.assert_array_equal(
            dense(ours.contributions(one, asked)), dense(theirs.contributions(one, asked))
        )
        assert sorted(ours.ids()) == sorted(theirs.ids()) == sorted(ids)
        assert len(ours) == len(theirs) == len(ids)
        holding = [
            {id for id, number in zip(ids, searcher.numbers(ids), strict=True) if there[number]}
            for searcher in (ours, theirs)
            for there in [searcher.holding([3, 5])]
        ]
        assert holding[0] == holding[1]
        np.testing.assert_array_equal(ours.frequencies(), np.bincount(vectors.indices, minlength=len(WORDS)))
        assert (ours.vocabulary, ours.state) == (theirs.vocabulary, theirs.state)


@pytest.mark.parametrize("top", [3, 255, 256, 65_536, 2**31 - 1])
@pytest.mark.parametrize("seed", range(3))
def test_random_histories(tmp_path: Path, seed: int, top: int) -> None:
    """Adds, upserts and deletes, in several commits; weights of one, two and four bytes; many ties."""
    rng = np.random.default_rng(seed)
    held: dict[str, csr_matrix] = {}
    number = iter(range(10**6))
    path = tmp_path / "i"
    for session in range(4):
        writer = (
            update_index(path, flat=None if session % 2 else True)
            if session
            else ImpactWriter(path, WORDS, **SETTINGS, flat=True)
        )
        with writer:
            for upsert in (False, True):
                old = rng.choice(list(held), min(20, len(held)), replace=False) if upsert and held else []
                names = [*map(str, old), *(f"ö{next(number)}.jpg" for _ in range(80))]
                density = 0.02 if top == 2**31 - 1 else 0.15  # a document's weights have a limit, too
                rows = random_vectors(len(names), len(WORDS), density, 3, int(rng.integers(10**6)))
                rows.data[rows.data == 3] = top
                rows = rows.multiply(np.asarray(rows.sum(axis=1, dtype=np.int64)) < 2**31).tocsr()
                rows = csr_matrix(rows, dtype=np.int32)
                rows.eliminate_zeros()
                (writer.upsert if upsert else writer.add)(names, rows)
                for name, row in zip(names, rows, strict=True):
                    held.pop(name, None)
                    held[name] = row
            for name in rng.choice(list(held), 10, replace=False).tolist() if session else []:
                writer.delete([name])
                del held[name]
            if session == 3:
                writer.optimize()
        agree(path, held, rng)
        assert copies(path) == [copy_of(path).name]


def test_a_larger_index(tmp_path: Path, corpus: Corpus) -> None:
    path = written(tmp_path / "i", corpus.words, corpus.ids, corpus.vectors, flat=True)
    queries = random_vectors(20, len(corpus.words), 0.1, 4, seed=1)
    with open_searcher(path) as searcher:
        assert isinstance(searcher, FlatSearcher)
        assert listed(searcher.search(queries, 100)) == brute_force(queries, corpus.vectors, corpus.ids, 100)
        numbers = searcher.numbers(corpus.ids)
        assert sorted(numbers) == list(range(len(corpus.ids)))
        assert searcher.numbers(corpus.ids[:20]).tolist() == numbers[:20].tolist()
        np.testing.assert_array_equal(
            dense(searcher.vectors(corpus.ids[:300])), corpus.vectors[:300].toarray()
        )


def test_an_empty_index(tmp_path: Path) -> None:
    path = written(tmp_path / "i", WORDS, [], csr_matrix((0, len(WORDS)), dtype=np.int32), flat=True)
    agree(path, {}, np.random.default_rng(0))
    with update_index(path) as writer:
        writer.add(["a"], csr_matrix((1, len(WORDS)), dtype=np.int32))  # a document without words
    agree(path, {"a": csr_matrix((1, len(WORDS)), dtype=np.int32)}, np.random.default_rng(0))


# ---- when there is a copy ----


def test_only_if_it_is_wanted(tmp_path: Path) -> None:
    path = written(tmp_path / "i", ABC, ["x"], ROW)
    written(path, ABC, ["y"], ROW, mode="update")
    assert copies(path) == []
    with open_searcher(path) as searcher:
        assert isinstance(searcher, ImpactSearcher)
    with pytest.raises(IndexMismatch, match="no copy"):
        FlatSearcher(path)
    written(path, ABC, ["z"], ROW, mode="update", flat=True)
    written(path, ABC, ["zz"], ROW, mode="update")  # as the index has one
    assert copies(path) == [copy_of(path).name]
    with open_searcher(path) as searcher:
        assert isinstance(searcher, FlatSearcher)
        assert searcher.search(A, 5)[0] == [["x", "y", "z", "zz"]]
    written(path, ABC, ["zzz"], ROW, mode="update", flat=False)
    assert copies(path) == []


def test_not_of_large_indexes(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = FlatSearcher(made)
    monkeypatch.setattr("anserini_bridge.writer.FLAT_POSTINGS", 6)
    written(made, ABC, ["v"], ROW, mode="update")
    assert copies(made) == []
    with pytest.raises(IndexMismatch):  # to open it again, with Java
        searcher.refresh()
    assert searcher.search(A, 5)[0] == [["x", "z"]]  # the old state
    with open_searcher(made) as newer:
        assert newer.search(A, 5)[0] == [["x", "z", "v"]]


def test_without_java(made: Path) -> None:
    """Neither Java nor scipy is loaded."""
    code = (
        "import sys; from anserini_bridge import open_searcher; from anserini_bridge.sparse_rows import Rows;"
        "import numpy as np; searcher = open_searcher(sys.argv[1], ['a', 'b', 'c']);"
        "print(searcher.search(Rows.of_vector(np.array([1, 0, 0], np.int32)))[0]);"
        "print([name for name in ('jnius', 'scipy', 'filelock') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, made],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": "/nowhere", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[['x', 'z']]\n[]\n"


# ---- states ----


def test_refresh_and_hold(made: Path) -> None:
    searcher = FlatSearcher(made, ABC)
    assert not searcher.refresh()
    with searcher.hold() as held:
        state = held.state
        written(made, ABC, ["v"], ROW, mode="update")
        assert searcher.refresh()
        assert searcher.state != state == held.state
        assert [one.search(A, 5)[0][0] for one in (searcher, held)] == [["x", "z", "v"], ["x", "z"]]
        with pytest.raises(BadVectors, match="another state"):
            searcher.search(A, allowed=held.allow(np.ones(3, np.bool_)))
    assert len(searcher) == searcher.size == 4
    written(made, ABC, ["v"], ROW, flat=True)  # anew
    assert searcher.refresh()
    assert searcher.search(A, 5)[0] == [["v"]]
    written(made, ABC, ["v"], ROW, flat=True, encoder="another")
    with pytest.raises(IndexMismatch, match="made in another way"):
        searcher.refresh()
    with pytest.raises(VocabularyMismatch):
        open_searcher(made, ["a", "b", "d"])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_writer_that_dies(made: Path, moment: str, run_python: Any) -> None:
    code = DYING + (
        "with update_index(sys.argv[1]) as writer:\n    writer.add(['v'], csr_matrix([[1, 2, 3]]))\n"
    )
    assert run_python(code, made, moment).returncode == 9
    expected = ["x", "z"] if moment == "before" else ["x", "z", "v"]
    with open_searcher(made) as searcher:
        assert isinstance(searcher, FlatSearcher)
        assert searcher.search(A, 5)[0] == [expected]
    written(made, ABC, ["u"], ROW, mode="update")
    assert copies(made) == [copy_of(made).name]
    assert set(FlatSearcher(made).search(A, 5)[0][0]) == {*expected, "u"}


# ---- what is refused ----


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
        lambda file: (file.unlink(), file.mkdir()),
    ],
)
def test_damage(made: Path, damage: Any) -> None:
    damage(copy_of(made))
    with pytest.raises(CorruptIndex, match=r"flat-segments_\d+ is damaged: .*--update --repair"):
        open_searcher(made)


def test_bad_input(made: Path) -> None:
    searcher = FlatSearcher(made)
    for how in ({"k": 0}, {"k": 1.5}, {"threads": 0}, {"alpha": 0.0}, {"allowed": np.ones(4, np.bool_)}):
        with pytest.raises(BadVectors):
            searcher.search(A, **how)
    for query in (csr_matrix([[1, 0]]), csr_matrix([[0.5, 0, 0]]), csr_matrix([[-1, 0, 0]]), [[1, 0, 0]]):
        with pytest.raises(BadVectors):
            searcher.search(query)
    row = Rows.of_vector(np.array([0, 2, 1], np.int32))
    assert searcher.search(row)[0] == searcher.search(row.csr())[0]
    for bad in (
        replace(row, indices=np.array([1, 3], np.int32)),
        replace(row, indptr=np.array([0, 3], np.int32)),
        replace(row, data=np.array([2, -1], np.int32)),
        replace(row, data=np.array([2, 0.5])),
        replace(row, shape=(1, 4)),
    ):
        with pytest.raises(BadVectors):
            searcher.search(bad)
    with pytest.raises(BadVectors, match="2 queries: give one row"):
        searcher.contributions(vstack([A, A]), ["x"])
    for ask in (searcher.vectors, lambda ids: searcher.contributions(A, ids)):
        with pytest.raises(UnknownId, match="'nobody'"):
            ask(["x", "nobody"])
    assert searcher.numbers(["", "\ud800", "xx", "x"]).tolist()[:3] == [-1, -1, -1]
