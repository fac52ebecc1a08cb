import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from anserini_bridge import (
    CorruptIndex,
    ImpactWriter,
    IndexHeader,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    read_header,
    read_metadata,
    read_metadata_as,
    replace_index,
    write_metadata,
)


@dataclass(frozen=True, kw_only=True)
class Notes(IndexHeader):
    kind: str = "notes"
    colour: str


def write(path: Path, text: str, **fields: object) -> None:
    with replace_index(path) as folder:
        (folder / "notes.txt").write_text(text)
        write_metadata(path, Notes(directory=folder.name, documents=1, encoder="x", colour="red", **fields))  # type: ignore[arg-type]


def read(path: Path) -> str:
    return (path / read_metadata_as(Notes, path).directory / "notes.txt").read_text()


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def impact(path: Path) -> ImpactWriter:
    return ImpactWriter(path, ["a"], encoder="x", quantization={}, topk=None, normalize=False)


def test_an_index_of_another_kind(tmp_path: Path) -> None:
    write(tmp_path / "index", "one", extra={"mine": [1]})
    found = read_metadata_as(Notes, tmp_path / "index")
    assert (found.kind, found.colour, found.documents, found.extra) == ("notes", "red", 1, {"mine": [1]})
    header = read_header(tmp_path / "index")
    assert (header.kind, header.directory, header.created) == ("notes", "data-1", found.created)
    with pytest.raises(IndexMismatch, match="index holds an index of kind 'notes', and one of kind 'impact'"):
        read_metadata(tmp_path / "index")
    with pytest.raises(IndexNotFound):
        read_header(tmp_path / "nothing")


def test_an_older_impact_index_does_not_say_its_kind(tmp_path: Path) -> None:
    with impact(tmp_path / "index"):
        pass
    file = tmp_path / "index" / "index.json"
    fields = json.loads(file.read_text())
    assert fields.pop("kind") == "impact"
    file.write_text(json.dumps(fields))
    assert read_metadata(tmp_path / "index").kind == read_header(tmp_path / "index").kind == "impact"


def test_a_field_that_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "one")
    fields = json.loads((tmp_path / "index.json").read_text())
    del fields["colour"]
    (tmp_path / "index.json").write_text(json.dumps(fields))
    assert read_header(tmp_path).kind == "notes"
    with pytest.raises(CorruptIndex, match="lacks colour"):
        read_metadata_as(Notes, tmp_path)


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
    with replace_index(path) as folder:
        (folder / "notes.txt").write_text("new")
        if complete:
            write_metadata(path, Notes(directory=folder.name, documents=1, encoder="x", colour="red"))
        raise KeyboardInterrupt


def test_the_old_index_answers_if_the_new_one_fails(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        interrupt(path, complete=False)
    assert not path.exists()  # of a first one nothing is left
    write(path, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(path, complete=False)
    assert read(path) == "old"
    assert names(path) == ["data-1", "index.json", "writer.lock"]


def test_what_is_complete_stays(tmp_path: Path) -> None:
    write(tmp_path, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path, complete=True)
    assert read(tmp_path) == "new"


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    write(tmp_path, "one")
    (tmp_path / "data-7").mkdir()
    with replace_index(tmp_path) as folder:
        assert names(tmp_path) == ["data-1", "data-2", "index.json", "writer.lock"]
        write_metadata(tmp_path, Notes(directory=folder.name, documents=0, encoder="x", colour="red"))


def test_two_writers(tmp_path: Path) -> None:
    with replace_index(tmp_path / "index") as folder:
        with pytest.raises(IndexLocked):
            write(tmp_path / "index", "two")
        write_metadata(
            tmp_path / "index", Notes(directory=folder.name, documents=0, encoder="x", colour="red")
        )


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(IndexNotFound, match=r"holds other files, such as mine\.txt"):
        write(tmp_path, "one")
    assert names(tmp_path) == ["mine.txt"]
