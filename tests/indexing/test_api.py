import json
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import read_header, read_metadata
from lexlip import PhotoSearch, index, update
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.other_engines import export as module
from lexlip.other_engines.engine_contract import ENGINES
from lexlip.queries.photo_vectors import PhotoVectors
from tests.cli.conftest import Run
from tests.conftest import write_photos
from tests.search.indexes import index_words
from tests.tiny import CAPTIONS, tiny_dense


def test_words(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    """As with the functions that it calls."""
    done = index(photos, tmp_path / "index", model_folder, topk=4, quantization="paper", workers=0)
    index_words(model_folder, photos, tmp_path / "other", topk_words=4, scheme="paper")
    assert (done.photos, done.index, done.skipped) == (6, str(tmp_path / "index"), [])
    metadata, other = read_metadata(tmp_path / "index"), read_metadata(tmp_path / "other")
    assert (metadata.topk, metadata.quantization) == (other.topk, other.quantization)
    with PhotoSearch(tmp_path / "index") as one, PhotoSearch(tmp_path / "other") as two:
        for caption in CAPTIONS:
            assert one.text(caption).hits == two.text(caption).hits


def test_as_the_command_line(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    """The same index by both, with the names that both have by default."""
    by_command = json.loads(lexlip("index", "photos", "--json").stdout)
    command = read_metadata(".lexlip")
    done = index("photos")
    assert (done.photos, done.postings) == (by_command["photos"], by_command["postings"])
    function = read_metadata(".lexlip")
    for name in ("encoder", "topk", "quantization", "documents", "postings"):
        assert getattr(function, name) == getattr(command, name)
    assert set(function.extra) == set(command.extra)


def test_other_kinds(photos: Path, tmp_path: Path) -> None:
    tiny_dense().save(tmp_path / "dense-model")
    assert index(photos, tmp_path / "dense", tmp_path / "dense-model", ann="hnsw").postings is None
    assert read_header(tmp_path / "dense").kind == "dense"
    assert index(photos, tmp_path / "bm25", "bm25").photos == 6
    assert read_header(tmp_path / "bm25").kind == "bm25"
    with pytest.raises(ConfigError, match="only an index of words can be updated"):
        update(tmp_path / "bm25")


def test_several_folders_and_exclusions(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 2)
    index([photos, tmp_path / "more"], tmp_path / "index", model_folder, exclude=["1.jpg"])
    with PhotoSearch(tmp_path / "index") as search, search.now() as (stage, _):
        assert stage.allow(["photos/0.jpg", "more/0.jpg"]).count == 2
        assert stage.metadata.documents == 6
    write_photos(tmp_path / "more", 3)
    done = update(tmp_path / "index")
    assert (done.added, done.deleted) == (1, 0)


def test_an_update(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    index(photos, tmp_path / "index", model_folder)
    write_photos(photos, 8)
    (photos / "1.jpg").unlink()
    with PhotoSearch(tmp_path / "index") as search:
        done = update(tmp_path / "index")
        assert (done.added, done.deleted) == (2, 1)
        assert search.refresh()
        assert search.photo_words("7.jpg")
    with pytest.raises(ConfigError, match="--topk 32, not 8"):
        update(tmp_path / "index", topk=8)
    with pytest.raises(DataError, match="was made from"):
        update(tmp_path / "index", tmp_path / "photos" / "2.jpg")
    for number in range(2, 8):
        (photos / f"{number}.jpg").unlink()
    with pytest.raises(DataError, match="--prune"):
        update(tmp_path / "index")
    assert update(tmp_path / "index", prune=True).deleted == 6


def test_what_is_not_there(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no index .*nothing to update: index once without"):
        update(tmp_path / "nothing")
    with pytest.raises(DataError, match="does not exist"):
        index(tmp_path / "nothing", tmp_path / "index")
    with pytest.raises(ModelError):
        index(photos, tmp_path / "index", "nothing")
    assert not (tmp_path / "index").exists()


def test_values_that_cannot_be(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    refused: list[tuple[str, Any, str]] = [
        ("topk", 0, "topk is 0: give a whole number of at least 1, or None for all words"),
        ("topk", 2.5, "topk is 2.5: give a whole number"),
        ("topk", "many", "topk is 'many': give a whole number"),
        ("workers", -1, "workers is -1: give a whole number of at least 0"),
        ("quantization", "none", "quantization is 'none': give one of balanced, unit, paper"),
        ("ann", "tree", "ann is 'tree': give flat or hnsw"),
    ]
    for name, value, says in refused:
        with pytest.raises(ConfigError, match=f"^{says}"):
            index(photos, tmp_path / "index", model_folder, **{name: value})
    assert not (tmp_path / "index").exists()
    index(photos, tmp_path / "index", model_folder)
    for name, value, says in refused[:-1]:
        with pytest.raises(ConfigError, match=f"^{says}"):
            update(tmp_path / "index", **{name: value})


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("engine", list(ENGINES))
def test_the_same_bytes_as_indexing_first(lexlip: Run, tmp_path: Path, photos: Path, engine: str) -> None:
    how = ("--topk", 8, "--quantization", "paper", "--exclude", "3.jpg")
    lexlip("index", photos, *how)
    lexlip("export", engine, "--output", "first")
    lexlip("export", engine, photos, *how, "--output", "straight")
    assert files(tmp_path / "straight") == files(tmp_path / "first") != {}
    assert '"photos": 5' in (tmp_path / "straight" / "export.json").read_text()
    assert not list(tmp_path.glob(".straight*"))


def test_an_interrupted_export_goes_on(
    lexlip: Run, tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexlip("export", "qdrant", photos, "--output", "whole")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "export", interrupted)
        said = lexlip("export", "qdrant", photos, "--output", "out", code=130).output
    assert "run the same command again to go on" in said
    assert not (tmp_path / "out").exists()
    lexlip("export", "qdrant", photos, "--output", "out")
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not list(tmp_path.glob(".out*"))


def test_what_does_not_go_together_is_one_sentence(
    lexlip: Run, tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*options: object) -> str:
        return lexlip("export", "qdrant", *options, "--output", "out", code=2).output

    monkeypatch.setattr(PhotoVectors, "__init__", None)  # nothing is encoded
    assert "leave it or SOURCE out" in refused(photos, "--index", "one")
    assert "--topk is for a SOURCE, and none is given" in refused("--topk", 8)
    assert "'bm25' is not a model of words" in refused(photos, "--model", "bm25")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    assert "out holds other files, such as thesis.txt" in refused(photos)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "packaged", "photos"]


def test_a_damaged_file_of_a_photo_does_not_hide_the_others(
    photos: Path, model_folder: Path, tmp_path: Path
) -> None:
    """An edited copy and the JPEG are damaged, so the RAW file is seen; then they become whole again."""
    pytest.importorskip("rawpy")
    whole, edited = (photos / "0.jpg").read_bytes(), photos / "0-edited.jpg"
    (photos / "0.dng").write_bytes((photos / "1.jpg").read_bytes())
    for name in ("0.jpg", "0-edited.jpg"):
        (photos / name).write_bytes(b"")
    others = {f"{number}.jpg" for number in range(1, 6)}

    def ids(source: Any) -> set[str]:
        done = index(source, tmp_path / "index", model_folder)
        named = {Path(one.id).name for one in done.skipped}
        assert named == {name for name in ("0.jpg", "0-edited.jpg") if not (photos / name).read_bytes()}
        assert done.files["photos"] == done.photos + len(done.skipped)
        with PhotoSearch(tmp_path / "index") as search, search.now() as (_, table):
            return {Path(id).name for id in table.paths()}

    assert ids(photos) == ids(photos) == {"0.dng", *others}
    (photos / "0.jpg").write_bytes(whole)
    assert ids(photos) == ids(photos) == {"0.jpg", *others}
    edited.write_bytes(whole)
    assert ids(photos) == ids(photos) == {"0-edited.jpg", *others}
    edited.write_bytes(b"")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.jpg").write_bytes(whole)
    assert ids([photos, tmp_path / "more"]) == {"0.jpg", "a.jpg", *others}


def test_no_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^there is no SOURCE: name a folder of photos"):
        index([], tmp_path / "index")
