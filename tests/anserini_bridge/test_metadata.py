import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bridge_corpus import change_metadata, literal, names
from scipy.sparse import csr_matrix
from skips import needs_holes, needs_pipes

from anserini_bridge import (
    BridgeError,
    CorruptIndex,
    ImpactSearcher,
    ImpactWriter,
    IndexHeader,
    IndexMetadata,
    IndexMismatch,
    IndexNotFound,
    read_header,
    read_metadata,
    read_metadata_as,
    replace_index,
    update_index,
    vocabulary_hash,
    write_metadata,
)


@dataclass(frozen=True, kw_only=True)
class Notes(IndexHeader):
    kind: str = "notes"
    colour: str


def notes(directory: str, **fields: Any) -> Notes:
    return Notes(directory=directory, documents=1, encoder="x", colour="red", **fields)


def write(path: Path, text: str, **fields: Any) -> None:
    with replace_index(path) as folder:
        (folder / "notes.txt").write_text(text)
        write_metadata(path, notes(folder.name, **fields))


def read(path: Path) -> str:
    return (path / read_metadata_as(Notes, path).directory / "notes.txt").read_text()


def impact(path: Path) -> ImpactWriter:
    return ImpactWriter(path, ["a"], encoder="x", quantization={}, topk=None, normalize=False)


def test_the_vocabulary_hash_depends_on_words_and_order() -> None:
    assert vocabulary_hash(["a", "é"]).startswith("7ab79b5e89f288f0")
    assert len({vocabulary_hash(words) for words in (["a", "b"], ["b", "a"], ["ab"])}) == 3


def test_an_index_of_another_kind(tmp_path: Path) -> None:
    write(tmp_path / "index", "one", extra={"mine": [1]})
    found = read_metadata_as(Notes, tmp_path / "index")
    assert (found.kind, found.colour, found.documents, found.extra) == ("notes", "red", 1, {"mine": [1]})
    header = read_header(tmp_path / "index")
    assert (header.kind, header.directory, header.created) == ("notes", "data-1", found.created)
    message = "index holds an index of kind 'notes', and one of kind 'impact' is needed: give the folder of"
    with pytest.raises(IndexMismatch, match=message):
        read_metadata(tmp_path / "index")
    with pytest.raises(IndexNotFound):
        read_header(tmp_path / "nothing")


def test_an_older_impact_index_does_not_say_its_kind(tmp_path: Path) -> None:
    with impact(tmp_path / "index"):
        pass
    assert json.loads((tmp_path / "index" / "index.json").read_text())["kind"] == "impact"
    change_metadata(tmp_path / "index", remove=["kind"])
    assert read_metadata(tmp_path / "index").kind == read_header(tmp_path / "index").kind == "impact"


def test_a_field_that_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "one")
    change_metadata(tmp_path, remove=["colour"])
    assert read_header(tmp_path).kind == "notes"
    message = f"^{literal(tmp_path / 'index.json')} lacks colour: build the index again$"
    with pytest.raises(CorruptIndex, match=message):
        read_metadata_as(Notes, tmp_path)
    change_metadata(tmp_path, remove=["encoder", "documents"])
    for read_it in (read_header, lambda path: read_metadata_as(Notes, path)):
        with pytest.raises(CorruptIndex, match=r"index\.json lacks (colour, )?documents, encoder: build"):
            read_it(tmp_path)


def test_an_older_index_lacks_what_was_added_later(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class LaterNotes(Notes):
        pages: int = 7
        tags: list[str] = field(default_factory=list)

    write(tmp_path, "one", extra={"mine": 1})
    change_metadata(tmp_path, remove=["created", "extra"])
    found = read_metadata_as(LaterNotes, tmp_path)
    assert (found.pages, found.tags, found.colour) == (7, [], "red")
    assert (found.created, found.extra) == ("", {})
    assert (read_header(tmp_path).created, read_header(tmp_path).extra) == ("", {})
    change_metadata(tmp_path, pages=8, tags=["x"], never="heard of")  # as a later version writes it
    found = read_metadata_as(LaterNotes, tmp_path)
    assert (found.pages, found.tags) == (8, ["x"])
    assert read_metadata_as(Notes, tmp_path).colour == "red"


def test_the_time_is_written_once(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    assert notes("data-1").created == ""
    write(tmp_path, "one")
    created = read_header(tmp_path).created
    assert before <= datetime.fromisoformat(created) <= datetime.now(UTC)
    write_metadata(tmp_path, replace(read_metadata_as(Notes, tmp_path), colour="blue"))
    assert (read_header(tmp_path).created, read_metadata_as(Notes, tmp_path).colour) == (created, "blue")
    write(tmp_path, "two", created="2020-01-01T00:00:00+00:00")
    assert read_header(tmp_path).created == "2020-01-01T00:00:00+00:00"


def test_an_update_gives_a_time_to_an_index_that_has_none(tmp_path: Path) -> None:
    with impact(tmp_path / "index"):
        pass
    change_metadata(tmp_path / "index", remove=["created"])
    with ImpactSearcher(tmp_path / "index") as searcher:
        with update_index(tmp_path / "index") as writer:
            writer.add(["one"], csr_matrix([[1]]))
        assert searcher.refresh()
        assert searcher.metadata.created == read_metadata(tmp_path / "index").created != ""
        assert (len(searcher), searcher.refresh()) == (1, False)


def test_kinds_replace_each_other(tmp_path: Path) -> None:
    write(tmp_path, "one")
    with impact(tmp_path):
        assert read(tmp_path) == "one"
    assert read_metadata(tmp_path).documents == 0
    assert names(tmp_path) == ["data-2", "index.json", "writer.lock"]
    write(tmp_path, "two")
    assert read(tmp_path) == "two"
    assert names(tmp_path) == ["data-3", "index.json", "writer.lock"]


def interrupt(path: Path, complete: bool) -> None:
    with suppress(KeyboardInterrupt), replace_index(path) as folder:
        (folder / "notes.txt").write_text("new")
        if complete:
            write_metadata(path, notes(folder.name))
        raise KeyboardInterrupt


def test_the_old_index_answers_unless_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "index"
    interrupt(path, complete=False)
    assert not path.exists()  # of a first one nothing is left
    write(path, "old")
    interrupt(path, complete=False)
    assert read(path) == "old"
    assert names(path) == ["data-1", "index.json", "writer.lock"]
    interrupt(path, complete=True)
    assert read(path) == "new"


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    write(tmp_path, "one")
    (tmp_path / "data-7").mkdir()
    with replace_index(tmp_path) as folder:
        assert names(tmp_path) == ["data-1", "data-2", "index.json", "writer.lock"]
        write_metadata(tmp_path, notes(folder.name))


WRONG = (None, "x", ["x"], {"x": 1}, True, -1, 10**30, 1.5, float("nan"), "a\0b", "\ud800")


@pytest.mark.parametrize("name", [field.name for field in fields(IndexMetadata)])
def test_a_value_of_another_type(name: str, tmp_path: Path) -> None:
    """An index is read, or refused in a sentence; what is wrong is named."""
    with impact(tmp_path / "index") as writer:
        writer.add(["i"], csr_matrix([[1]]))
    refused = 0
    for value in WRONG:
        change_metadata(tmp_path / "index", **{name: value})
        try:
            with ImpactSearcher(tmp_path / "index") as searcher, update_index(tmp_path / "index"):
                assert searcher.metadata.documents == 1
        except BridgeError:
            refused += 1
    assert refused >= 6


@pytest.mark.parametrize(
    "kind",
    [
        *("folder", "deep", pytest.param("huge", marks=needs_holes)),
        *(pytest.param(kind, marks=needs_pipes) for kind in ("pipe", "loop", "vocabulary", "lucene")),
    ],
)
def test_what_is_no_file_of_an_index(kind: str, tmp_path: Path) -> None:
    with impact(tmp_path) as writer:
        writer.add(["i"], csr_matrix([[1]]))
    elsewhere = {"vocabulary": "data-1/vocabulary.txt", "lucene": "data-1/lucene/segments_1"}
    file = tmp_path / elsewhere.get(kind, "index.json")
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "loop":
        file.symlink_to(file.name)
    elif kind == "huge":
        with file.open("wb") as opened:
            opened.truncate(2**40)
    elif kind == "deep":
        file.write_text("[" * 100_000)
    else:
        os.mkfifo(file)
    for open_it in (ImpactSearcher, lambda path: update_index(path).__enter__()):
        with pytest.raises(BridgeError, match=rf"{file.name}.*(a pipe|a folder|links|bytes|nested)"):
            open_it(tmp_path)


def test_java_and_deep_json_in_the_main_thread(small: Path, run_python: Callable[..., Any]) -> None:
    """Java leaves little of this thread's stack: Python's parser would overflow it."""
    (small / "index.json").write_text("[" * 100_000)
    code = (
        "import sys, anserini_bridge as b; b.start_jvm()\n"
        "try: b.read_header(sys.argv[1])\n"
        "except b.CorruptIndex as error: print(error)"
    )
    done = run_python(code, small)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nested more than 200 deep" in done.stdout
