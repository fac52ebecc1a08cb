"""What is searched changes at one moment: when `index.json` names another commit."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bridge_corpus import ABC, DYING, A, change_metadata, written
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, read_metadata, update_index

RunPython = Callable[..., subprocess.CompletedProcess[str]]

_UPDATE_AND_DIE = (
    DYING
    + """
with update_index(sys.argv[1], extra={"paths": "new"}) as writing:
    writing.upsert(["new", "x"], csr_matrix([[9, 0, 0], [8, 0, 0]]))
    writing.delete(["y"])
    if "optimize" in sys.argv:
        writing.optimize()
"""
)


def commits(index: Path) -> list[str]:
    return sorted(file.name for file in (index / "data-1" / "lucene").glob("segments_*"))


def contents(index: Path) -> tuple[set[str], dict[str, object]]:
    with ImpactSearcher(index) as searcher:
        return set(searcher.ids()), dict(searcher.metadata.extra)


@pytest.mark.parametrize("optimize", ["", "optimize"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_before_the_commit_is_named_nothing_has_changed_and_after_it_all(
    small: Path, run_python: RunPython, when: str, optimize: str
) -> None:
    before = read_metadata(small)
    assert run_python(_UPDATE_AND_DIE, small, when, optimize).returncode == 9
    if when == "before":
        assert len(commits(small)) == 2  # Lucene's newest is not the one that is searched
        assert read_metadata(small) == before
        assert contents(small) == ({"x", "y", "z"}, {})
    else:
        assert contents(small) == ({"x", "z", "new"}, {"paths": "new"})
    expected, _ = contents(small)
    with update_index(small) as writer:  # which starts from the named commit, and removes others
        writer.add(["later"], A)
    assert contents(small)[0] == expected | {"later"}
    assert commits(small) == [read_metadata(small).commit]


def test_a_commit_whose_name_cannot_be_written_is_undone(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, metadata: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("anserini_bridge.writer.write_metadata", full)
        with pytest.raises(OSError, match="No space"), update_index(small) as writer:
            writer.delete(["x"])
    assert contents(small)[0] == {"x", "y", "z"}
    with update_index(small) as writer:
        writer.delete(["y"])
    assert contents(small)[0] == {"x", "z"}


def test_only_the_named_commit_stays(small: Path) -> None:
    for number in range(3):
        with update_index(small) as writer:
            writer.upsert([f"{number}"], A)
        assert commits(small) == [read_metadata(small).commit]
    with update_index(small) as writer:
        writer.optimize()
    assert commits(small) == [read_metadata(small).commit]
    segments = {file.name.split(".")[0] for file in (small / "data-1" / "lucene").glob("*.cfs")}
    assert len(segments) <= 1


def test_an_open_searcher_survives_the_removal_of_its_commit(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        state = searcher.state
        with update_index(small, extra={"a": 1}) as writer:
            writer.delete(["x", "y", "z"])
            writer.add(["w"], csr_matrix([[5, 0, 0]]))
        assert searcher.search(A)[0] == [["x", "z"]]
        assert (searcher.state, searcher.metadata.extra) == (state, {})
        assert searcher.refresh()
        assert searcher.search(A)[0] == [["w"]]
        assert searcher.state != state
        assert searcher.metadata.extra == {"a": 1}
        assert not searcher.refresh()


def test_a_searcher_that_meets_a_replaced_commit_takes_the_next(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer replaces the commit between the reading of `index.json` and the opening of the commit."""
    from anserini_bridge import searcher as module

    read, updates = read_metadata, iter([1, 2])

    def read_then_replace(path: Path) -> object:
        metadata = read(path)
        if next(updates, None):
            with update_index(small) as writer:
                writer.upsert(["x"], csr_matrix([[7, 0, 0]]))
        return metadata

    monkeypatch.setattr(module, "read_metadata", read_then_replace)
    with ImpactSearcher(small) as opened:
        assert opened.metadata.commit == read(small).commit
        updates = iter([1, 2])
        assert opened.refresh()
        assert opened.metadata.commit == read(small).commit


def test_an_index_that_names_no_commit_is_read_and_updated(small: Path) -> None:
    change_metadata(small, remove=["commit"])
    assert contents(small)[0] == {"x", "y", "z"}
    with ImpactSearcher(small) as searcher:
        with update_index(small) as writer:
            writer.delete(["x"])
        assert searcher.refresh()
        assert set(searcher.ids()) == {"y", "z"}
    assert commits(small) == [read_metadata(small).commit]


def test_a_new_index_names_its_commit(tmp_path: Path) -> None:
    index = written(tmp_path / "i", ABC, ["x"], A)
    assert [read_metadata(index).commit] == commits(index)


def test_the_callers_own_files_and_metadata_come_with_the_documents(small: Path) -> None:
    with ImpactSearcher(small) as searcher:
        with update_index(small, extra={"file": "never"}) as writer:
            (writer.folder / "table-1").write_text("of the new state")
            writer.set_extra({"file": "table-1"})
            assert not searcher.refresh()
        assert searcher.refresh()
        metadata = searcher.metadata
    assert (small / metadata.directory / metadata.extra["file"]).read_text() == "of the new state"
