import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_corpus import ABC, ROOT, SETTINGS, A, Corpus, literal, search, written
from scipy.sparse import csr_matrix
from skips import needs_limits

from anserini_bridge import (
    BadVectors,
    BridgeError,
    ImpactSearcher,
    ImpactWriter,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    VocabularyMismatch,
    read_metadata,
)


def hits(path: Path, query: csr_matrix = A) -> dict[str, int]:
    with ImpactSearcher(path, ABC) as searcher:
        ids, scores = searcher.search(query)
    return dict(zip(ids[0], scores[0].tolist(), strict=True))


def update(path: Path, **changes: Any) -> ImpactWriter:
    return ImpactWriter(path, ABC, mode="update", **{**SETTINGS, **changes})


def test_upsert_and_delete(small: Path) -> None:
    with update(small) as writer:
        writer.upsert(["x", "new"], csr_matrix([[7, 0, 0], [8, 0, 0]]))
        writer.delete(["z", "nobody"])
        writer.add(["z"], csr_matrix([[5, 0, 0]]))  # deleted, so it is new again
    assert hits(small) == {"new": 8, "x": 7, "z": 5}
    assert read_metadata(small).documents == 4


def test_documents_without_words_count_and_can_be_deleted(small: Path) -> None:
    with update(small) as writer:
        writer.add(["blank"], csr_matrix((1, 3), dtype=int))
    with ImpactSearcher(small) as searcher:
        assert len(searcher) == 4
        assert searcher.vectors(["blank"]).nnz == 0
        with update(small) as writer:
            writer.delete(["blank"])
        assert searcher.refresh()
        assert len(searcher) == 3


def test_an_update_keeps_the_metadata_and_may_replace_extra(small: Path) -> None:
    before = read_metadata(small)
    with update(small, extra={"photos": 3}) as writer:
        writer.delete(["x"])
    after = read_metadata(small)
    assert (after.created, after.directory, after.encoder) == (before.created, "data-1", "test")
    assert (after.documents, after.extra) == (2, {"photos": 3})


def test_an_empty_index_answers(tmp_path: Path) -> None:
    with ImpactWriter(tmp_path / "i", ABC, **SETTINGS):
        pass
    assert hits(tmp_path / "i") == {}


def test_many_small_batches_keep_the_order(tmp_path: Path) -> None:
    """Small buffers make many segments, which merges must not shuffle."""
    ids, index = [f"{number}" for number in range(4_000)], tmp_path / "i"
    with ImpactWriter(index, ABC, memory_mb=0.1, **SETTINGS) as writer:
        for start in range(0, 4_000, 100):
            writer.add(ids[start : start + 100], csr_matrix(np.ones((100, 3), dtype=int)))
    for start in range(0, 200, 20):
        with update(index) as writer:
            writer.add([f"u{start + i}" for i in range(20)], csr_matrix(np.ones((20, 3), dtype=int)))
    assert search(index, A, k=5_000)[0][0] == ids + [f"u{number}" for number in range(200)]


def test_slices_of_a_large_batch(tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anserini_bridge.vectors._SLICE_POSTINGS", 6_400)
    ids, vectors = corpus.ids[:450], corpus.vectors[:450]
    with ImpactSearcher(written(tmp_path / "i", corpus.words, ids, vectors)) as searcher:
        assert (searcher.vectors(ids) != vectors).nnz == 0


def test_weights_are_kept_whatever_their_size(tmp_path: Path) -> None:
    """While they wait, a word and its weight share 32 bits, and so do a document and its weight."""
    words = [f"w{number}" for number in range(70_000)]  # 17 bits, so 15 for a weight
    edges = [
        bits + more for bits in (2**15, 2**22, 2**29) for more in (-2, -1, 0, 1)
    ]  # of 1,000 documents: 22
    rng = np.random.default_rng(3)
    columns = np.sort(rng.choice(len(words), (1_000, 2), replace=True), axis=1) + [0, 1]
    weights = rng.choice([1, 500, *edges], columns.shape)
    vectors = csr_matrix(
        (weights.ravel(), (np.arange(2_000) // 2, columns.ravel() % len(words))), (1_000, len(words))
    )
    ids = [str(row) for row in range(1_000)]
    with ImpactSearcher(written(tmp_path / "index", words, ids, vectors)) as searcher:
        assert (searcher.vectors(ids) != vectors).nnz == 0


def test_an_exception_undoes_an_update(small: Path) -> None:
    before = hits(small)
    writer = update(small).__enter__()
    writer.delete(["x"])
    writer.upsert(["z"], csr_matrix([[99, 0, 0]]))
    writer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert hits(small) == before
    with update(small) as writer:
        writer.delete(["x"])
    assert hits(small) == {"z": 1}


def test_an_exception_undoes_a_rebuild(small: Path) -> None:
    before = hits(small)
    with pytest.raises(BadVectors):
        written(small, ABC, ["one", "two"], A)
    assert hits(small) == before
    assert sorted(entry.name for entry in small.iterdir()) == ["data-1", "index.json", "writer.lock"]


def test_a_first_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(BadVectors):
        written(path, ABC, [""], A)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(BadVectors):
        written(path, ABC, [""], A)
    assert list(path.iterdir()) == []


KILLED = """
import sys, time, numpy as np
from scipy.sparse import csr_matrix
from anserini_bridge import ImpactWriter
path, mode, settings = sys.argv[1], sys.argv[2], eval(sys.argv[3])
with ImpactWriter(path, ["a", "b", "c"], mode=mode, memory_mb=0.5, **settings) as writer:
    writer.upsert([str(i) for i in range(2_000)], csr_matrix(np.full((2_000, 3), 9)))
    print("ready", flush=True)
    time.sleep(100)
"""


@contextmanager
def killed(path: Path, mode: str) -> Iterator[None]:
    """A process that has written and not committed yet; it is killed after the block."""
    arguments = [sys.executable, "-c", KILLED, str(path), mode, repr(SETTINGS)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.kill()


@pytest.mark.parametrize("mode", ["create", "update"])
def test_a_killed_writer_leaves_the_old_index(small: Path, mode: str) -> None:
    before = hits(small)
    with killed(small, mode):
        assert hits(small) == before
        message = f"^another process is writing to the index at {literal(small)}: wait"
        with pytest.raises(IndexLocked, match=message):
            update(small).__enter__()
    assert hits(small) == before
    assert (small / "data-2").exists() == (mode == "create")
    with update(small) as writer:
        writer.add(["w"], csr_matrix([[4, 0, 0]]))
    assert hits(small) == {**before, "w": 4}
    assert [entry.name for entry in small.glob("data-*")] == ["data-1"]


def test_a_killed_first_build_is_no_index_and_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with killed(path, "create"):
        pass
    with pytest.raises(IndexNotFound):
        hits(path)
    assert hits(written(path, ABC, ["x"], A)) == {"x": 1}
    assert len(list(path.glob("data-*"))) == 1


def test_a_second_writer_is_refused(small: Path) -> None:
    with update(small) as first:
        with pytest.raises(IndexLocked), update(small):
            pass
        with pytest.raises(IndexLocked), ImpactWriter(small, ABC, **SETTINGS):
            pass
        first.delete(["x"])
    assert hits(small) == {"z": 1}


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(IndexNotFound, match="holds other files"), ImpactWriter(tmp_path, ABC, **SETTINGS):
        pass
    with pytest.raises(IndexNotFound, match="is a file"):
        ImpactWriter(tmp_path / "notes.txt", ABC, **SETTINGS).__enter__()
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_a_rebuild_leaves_files_that_are_not_the_indexs(small: Path) -> None:
    (small / "data-set").mkdir()
    (small / "notes.txt").write_text("mine")
    written(small, ABC, ["x"], A)
    names = sorted(entry.name for entry in small.iterdir())
    assert names == ["data-2", "data-set", "index.json", "notes.txt", "writer.lock"]


def test_a_rebuild_replaces_an_index_that_cannot_be_read(small: Path) -> None:
    (small / "index.json").write_text("garbage")
    assert hits(written(small, ABC, ["x"], A)) == {"x": 1}
    assert [entry.name for entry in small.glob("data-*")] == ["data-2"]


def test_an_update_needs_an_index(tmp_path: Path) -> None:
    message = f"^there is no index at {literal(tmp_path / 'none')}: make one"
    with pytest.raises(IndexNotFound, match=message):
        update(tmp_path / "none").__enter__()
    assert not (tmp_path / "none").exists()


def test_an_update_needs_the_same_vocabulary_and_settings(small: Path) -> None:
    message = f"^the index at {literal(small)} was made with a vocabulary of 3 words"
    with pytest.raises(VocabularyMismatch, match=message):
        ImpactWriter(small, ["a", "b"], mode="update", **SETTINGS).__enter__()
    for name, value in [("encoder", "other"), ("topk", 64), ("normalize", True), ("quantization", {})]:
        with pytest.raises(IndexMismatch, match=f"was made with {name} .*, not {value!r}: use the same"):
            update(small, **{name: value}).__enter__()
    assert hits(small) == {"x": 3, "z": 1}
    with update(small, quantization={"scheme": "linear", "scale": 100}) as writer:
        writer.delete(["x"])


def test_ids_must_be_new_to_add(small: Path) -> None:
    message = f"^the index at {literal(small)} holds the id 'x' already: use upsert$"
    with pytest.raises(BadVectors, match=message), update(small) as writer:
        writer.add(["x"], A)
    with update(small) as writer:
        writer.add(["n"], A)
        with pytest.raises(BadVectors, match="holds the id 'n' already"):
            writer.add(["n"], A)


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        (["i", "j"], A, "there are 2 ids for 1 vectors: give one id per row"),
        (["i"], csr_matrix([[0, 0.5, 0]]), r"the weight 0\.5 in row 0, column 1 is not a whole number"),
        (["i"], csr_matrix([[2**30, 2**30, 0]]), "the weights of row 0 sum to 2147483648, above 2147483647"),
    ],
)
def test_a_bad_batch_adds_nothing(tmp_path: Path, ids: list[str], vectors: csr_matrix, message: str) -> None:
    with ImpactWriter(tmp_path / "i", ABC, **SETTINGS) as writer:
        with pytest.raises(BadVectors, match=f"^{message}"):
            writer.add(ids, vectors)
        writer.add(["good"], A)
    assert hits(tmp_path / "i") == {"good": 1}


def test_a_bad_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(BadVectors, match=r"^the word 'a' occurs twice in the vocabulary: keep one$"):
        ImpactWriter(tmp_path / "i", ["a", "a"], **SETTINGS)


def test_bad_settings_fail_before_the_build(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"""^mode is 'append': give "create" or "update"$"""):
        ImpactWriter(tmp_path / "i", ABC, mode="append", **SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not JSON serializable"):
        ImpactWriter(tmp_path / "i", ABC, extra={"path": tmp_path}, **SETTINGS)


def test_a_writer_must_be_opened(tmp_path: Path) -> None:
    message = f"^the index at {literal(tmp_path / 'i')} is not open for writing: use `with ImpactWriter"
    with pytest.raises(BridgeError, match=message):
        ImpactWriter(tmp_path / "i", ABC, **SETTINGS).add(["x"], A)


def test_the_layout_on_disk(small: Path) -> None:
    found = json.loads((small / "index.json").read_text())
    assert (found["format_version"], found["directory"], found["documents"]) == (2, "data-1", 3)
    assert (small / "data-1" / "vocabulary.txt").read_text() == "a\nb\nc\n"
    assert list((small / "data-1" / "lucene").glob("segments_*"))


_FULL_DISK = """
import resource, sys
import numpy as np
from scipy.sparse import csr_matrix
from anserini_bridge import BridgeError, ImpactSearcher, read_metadata, update_index
words = 200
rng = np.random.default_rng(0)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
errors = []
def batch(number):
    ids = [f"{number}-{row}" for row in range(500)]
    return ids, csr_matrix((rng.random((500, 3)) * 9).astype(np.int64) + 1)
try:
    with update_index(sys.argv[1], memory_mb=0.05) as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, most))  # as a full disk
        for number in range(20):
            ids, rows = batch(number)
            while True:
                try:
                    writer.add(ids, rows)
                    break
                except BridgeError as error:
                    errors.append(str(error))
                    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # who mends the disk, and goes on
                    if len(errors) > 1:
                        break
except BridgeError as error:
    errors.append(str(error))
others = all("has lost documents" in error for error in errors[1:])
print(len(errors), "IOException: File too large" in errors[0], others)
print(read_metadata(sys.argv[1]).documents, end="")
"""


@needs_limits
def test_after_a_failure_nothing_can_be_committed(
    small: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Or documents that were accepted earlier would be missing without a word."""
    done = run_python(_FULL_DISK, small)
    assert done.returncode == 0, done.stderr
    number, cause_first, others = done.stdout.splitlines()[0].split()
    assert int(number) >= 3
    assert (cause_first, others) == ("True", "True")
    assert done.stdout.splitlines()[1] == "3"
    assert hits(small) == {"x": 3, "z": 1}
    with update(small) as writer:
        writer.add(["new"], A)
    assert hits(small) == {"x": 3, "z": 1, "new": 1}
