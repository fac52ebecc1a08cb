import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bridge_corpus import DYING, SETTINGS, change_metadata
from scipy.sparse import csr_matrix

from anserini_bridge import (
    BadVectors,
    CorruptIndex,
    Damaged,
    ImpactSearcher,
    ImpactWriter,
    find_damage,
    read_metadata,
    update_index,
)
from anserini_bridge.jvm import java_class

ROWS = {"x": [3, 0, 1], "y": [0, 2, 0], "z": [1, 1, 1], "new": [0, 0, 5]}
SHARES = (0.0, 0.3, 0.5, 0.8, 1.0)


def find(index: Path) -> list[Damaged]:
    metadata = read_metadata(index)
    return find_damage(index, metadata, {"lucene": metadata.commit})


def segments(index: Path) -> set[str]:
    return {damaged.segment for damaged in find(index)}


def flip(file: Path, share: float = 0.5) -> bytes:
    """Flip a bit; return what the file held."""
    before = file.read_bytes()
    content = bytearray(before)
    content[min(int(share * len(content)), len(content) - 1)] ^= 1
    file.write_bytes(content)
    return before


def contents(index: Path) -> dict[str, list[int]]:
    with ImpactSearcher(index) as searcher:
        ids = searcher.ids()
        return dict(zip(ids, searcher.vectors(ids).toarray().tolist(), strict=True))


def state(index: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in index.rglob("*") if path.is_file()}


@pytest.fixture
def several(small: Path) -> Path:
    """Segments _0 of x, y and z (z is deleted) and _1 of "new"; a file of the caller's own."""
    with update_index(small) as writer:
        writer.add(["new"], csr_matrix([ROWS["new"]]))
        writer.delete(["z"])
        (writer.folder / "notes.txt").write_text("mine")
        writer.set_extra({}, ["notes.txt"])
    return small


def files(index: Path) -> list[Path]:
    return sorted(path for path in (index / "data-1").rglob("*") if path.is_file() and path.stat().st_size)


def test_every_flipped_bit_is_found_and_nothing_is_written_anew(several: Path) -> None:
    assert find(several) == []
    names = {file.suffix for file in files(several)}
    assert {".doc", ".tim", ".dvd", ".fdt", ".liv", ".si", ".txt"} <= names
    for file in files(several):
        for share in SHARES:
            before = flip(file, share)
            assert str(file) in {str(damaged.file) for damaged in find(several)}
            damaged = state(several)
            for change in (ImpactWriter.optimize, lambda writer: writer.delete(["x"])):
                with pytest.raises(CorruptIndex) as caught, update_index(several) as writer:
                    change(writer)
                assert str(several) in str(caught.value)
            assert state(several) == damaged
            file.write_bytes(before)
    assert find(several) == []


def test_what_an_update_says(several: Path) -> None:
    flip(next(several.glob("data-1/lucene/_0*.doc")))
    flip(several / "data-1" / "notes.txt")
    with pytest.raises(CorruptIndex) as caught, update_index(several):
        pass
    assert f"the index at {several} is damaged, and nothing was changed ({several / 'data-1'}" in str(
        caught.value
    )
    assert " and 1 more): " in str(caught.value)
    assert str(caught.value).endswith(
        f"see all with `lexlip doctor --index {several} --verify`, and encode only that again with"
        f" `lexlip index --index {several} --update --repair`"
    )


def test_what_is_missing_or_too_short(several: Path) -> None:
    (several / "data-1" / "notes.txt").unlink()
    postings, ids = (next(several.glob(f"data-1/lucene/_{name}")) for name in ("0*.doc", "1*.dvd"))
    postings.unlink()
    ids.write_bytes(ids.read_bytes()[:5])
    found = {damaged.file.name: damaged for damaged in find(several)}
    assert found.keys() == {"notes.txt", postings.name, ids.name}
    assert found[postings.name].reason == "it is missing"
    assert (found[postings.name].segment, found[ids.name].segment) == ("_0", "_1")
    assert found["notes.txt"].reason == "No such file or directory"


def test_a_commit_that_cannot_be_read(several: Path) -> None:
    """Of all segments or of one: the file is named, and belongs to no segment that could be left out."""
    lucene = several / "data-1" / "lucene"
    for file in (next(lucene.glob("segments_*")), lucene / "_1.si"):
        before = flip(file)
        assert [(damaged.file, damaged.segment) for damaged in find(several)] == [(file, "")]
        file.write_bytes(before)
    next(lucene.glob("segments_*")).unlink()
    assert find(several) == [(lucene / "segments_2", "it is missing", "")]


def test_an_older_index_does_not_name_its_files(several: Path) -> None:
    """Lucene is asked for them; if it cannot read the commit, no file belongs to a segment."""
    change_metadata(several, remove=["lucene_files"])
    assert find(several) == []
    lucene = several / "data-1" / "lucene"
    for name, segment in (("_0*.doc", "_0"), ("_1.si", "")):
        file = next(lucene.glob(name))
        before = flip(file)
        assert [(damaged.file, damaged.segment) for damaged in find(several)] == [(file, segment)]
        file.write_bytes(before)
    next(lucene.glob("segments_*")).unlink()
    assert find(several) == [(lucene / "segments_2", "it is missing, or a file that it names is", "")]


def test_checksums_are_those_of_lucene(several: Path) -> None:
    """Files are refused if Lucene refuses them, and only then."""
    lucene = several / "data-1" / "lucene"
    opened = java_class("org.apache.lucene.store.FSDirectory").open(
        java_class("java.nio.file.Paths").get(str(lucene))
    )
    once, util = (
        java_class("org.apache.lucene.store.IOContext").READONCE,
        "org.apache.lucene.codecs.CodecUtil",
    )

    from jnius import JavaException  # after Java has started as it must

    def refused(name: str) -> bool:
        file = opened.openInput(name, once)
        try:
            java_class(util).checksumEntireFile(file)
        except JavaException:
            return True
        finally:
            file.close()
        return False

    for file in lucene.glob("[_s]*"):
        whole = file.read_bytes()
        middle = len(whole) // 2
        for content in (
            *(whole, whole[:-1], whole[:-16], whole[:7], b"", whole + b"\0", whole[:-16] + bytes(16)),
            whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :],
        ):
            file.write_bytes(content)
            assert [damaged.file for damaged in find(several)] == [file] * refused(file.name)
        file.write_bytes(whole)


def test_bytes_that_were_read_are_told(several: Path) -> None:
    metadata, sizes = read_metadata(several), []
    find_damage(several, metadata, {"lucene": metadata.commit}, sizes.append)
    assert sum(sizes) == sum(file.stat().st_size for file in files(several)) - len("a\nb\nc\n")


# ---- without damaged segments ----


@pytest.mark.parametrize(
    ("segment", "left"), [("_0", ["new"]), ("_1", ["x", "y"])], ids=["the first", "the last"]
)
def test_a_searcher_and_a_writer_without_a_segment(several: Path, segment: str, left: list[str]) -> None:
    flip(next(several.glob(f"data-1/lucene/{segment}*.tmd")))
    with pytest.raises(CorruptIndex):
        ImpactSearcher(several)
    before = state(several)
    with ImpactSearcher(several, without=[segment]) as searcher:
        assert sorted(searcher.ids()) == left
        assert searcher.vectors(left).toarray().tolist() == [ROWS[id] for id in left]
        assert searcher.search(csr_matrix([[1, 1, 1]]))[0] == [sorted(left, key=lambda id: -sum(ROWS[id]))]
    assert state(several) == before
    with update_index(several, without=segments(several)) as writer:
        writer.upsert(["again"], csr_matrix([[7, 0, 0]]))
    assert contents(several) == {**{id: ROWS[id] for id in left}, "again": [7, 0, 0]}
    assert find(several) == []
    assert not list(several.glob(f"data-1/lucene/{segment}*"))


def test_without_any_segment(several: Path) -> None:
    for file in several.glob("data-1/lucene/*.doc"):
        flip(file)
    with ImpactSearcher(several, without=["_0", "_1"]) as searcher:
        assert searcher.ids() == []
    with update_index(several, without=segments(several)) as writer:
        writer.add(["again"], csr_matrix([[7, 0, 0]]))
    assert contents(several) == {"again": [7, 0, 0]}


_REPAIR_AND_DIE = f"""{DYING}
with update_index(sys.argv[1], without=["_0"]) as writing:
    writing.add(["x"], csr_matrix([[3, 0, 1]]))
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_it_leaves_the_old_state_or_the_new_one(
    several: Path, run_python: Callable[..., subprocess.CompletedProcess[str]], moment: str
) -> None:
    file = next(several.glob("data-1/lucene/_0*.doc"))
    whole = flip(file)
    assert run_python(_REPAIR_AND_DIE, several, moment).returncode == 9
    if moment == "before":
        assert [damaged.file.name for damaged in find(several)] == [file.name]
        file.write_bytes(whole)
        assert contents(several).keys() == {"x", "y", "new"}
        with update_index(several) as writer:  # which removes what was left behind
            writer.delete(["y"])
        assert contents(several).keys() == {"x", "new"}
    else:
        assert contents(several).keys() == {"x", "new"}
        assert find(several) == []


def test_an_error_undoes_it(several: Path) -> None:
    flip(next(several.glob("data-1/lucene/_0*.doc")))
    before = state(several)
    with pytest.raises(BadVectors), update_index(several, without=segments(several)) as writer:
        writer.add(["x", "x"], csr_matrix([[3, 0, 1], [0, 2, 0]]))
    after = state(several)
    assert {path: after.get(path) for path in before} == before


def test_what_the_disk_cannot_read(several: Path) -> None:
    file = next(several.glob("data-1/lucene/_0*.doc"))
    file.unlink()
    file.mkdir()
    (damaged,) = find(several)
    assert (damaged.file, damaged.segment) == (file, "_0")
    assert damaged.reason.startswith("it cannot be read: ")


def test_an_index_of_an_older_version_has_no_checksums(small: Path) -> None:
    change_metadata(small, remove=["files"])
    (small / "data-1" / "notes.txt").write_text("mine")
    assert find(small) == []
    with ImpactWriter(small, ["a", "b", "c"], mode="update", **SETTINGS) as writer:
        writer.set_extra({}, ["notes.txt"])
    flip(small / "data-1" / "notes.txt")
    assert [damaged.file.name for damaged in find(small)] == ["notes.txt"]
