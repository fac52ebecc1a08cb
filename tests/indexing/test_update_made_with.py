"""The same photos, model and settings again: the index is updated; anything else builds it anew."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lexlip
from anserini_bridge import IndexLocked, read_header, read_metadata
from anserini_bridge.storage import WriterLock
from lexlip.data import Given
from lexlip.errors import DataError
from lexlip.indexing.report import Indexed, Updated
from lexlip.indexing.update import is_made_so
from tests.search.indexes import change_header


@pytest.fixture
def again(
    photos: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Indexed]:
    """Indexes the photos, which are indexed once already, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def index(source: Any = "photos", model: Path = model_folder, **options: Any) -> Indexed:
        return lexlip.index(source, ".lexlip", model, workers=0, **options)

    assert not isinstance(index(), Updated)
    return index


def test_the_same_folder_however_it_is_written(again: Callable[..., Indexed], photos: Path) -> None:
    Path("link").symlink_to(photos)
    ways: list[Any] = ["photos/", "./photos", "~/photos", f"{photos}/../photos", "link", ["photos"]]
    for number, written in enumerate(ways):
        shutil.copy(photos / "0.jpg", photos / f"new{number}.jpg")
        done = again(written, topk=32, exclude=[])
        assert isinstance(done, Updated)
        assert (done.added, done.changed, done.deleted) == (1, 0, 0)
        assert (done.unchanged, done.photos) == (6 + number, 7 + number)
        assert done.postings == read_metadata(".lexlip").postings


def test_an_update_is_as_a_new_index(again: Callable[..., Indexed], photos: Path) -> None:
    (photos / "0.jpg").unlink()
    (photos / "1.jpg").rename(photos / "new.jpg")
    shutil.copy(photos / "3.jpg", photos / "2.jpg")
    assert isinstance(again(), Updated)

    def answer() -> list[tuple[str, float]]:
        with lexlip.PhotoSearch(".lexlip") as search:
            return sorted((hit.id, hit.score) for hit in search.text("dog cat boat", 10).hits)

    updated = answer()
    assert not isinstance(again(anew=True), Updated)
    assert answer() == updated


def test_a_model_at_another_place_is_found_there_from_now_on(
    again: Callable[..., Indexed], model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(model_folder, "copy")
    assert isinstance(again(model=Path("copy")), Updated)
    assert read_header(".lexlip").extra["model"] == str(tmp_path / "copy")


@pytest.mark.usefixtures("again")
def test_what_is_not_the_same(model_folder: Path, other_model: Path) -> None:
    Path("other").symlink_to(other_model)
    Path("others").mkdir()
    made: dict[str, Any] = {"index": Path(".lexlip"), "kind": "impact", "given": Given(("photos",))}
    made |= {"model": model_folder, "topk_words": 32, "scheme": None}
    assert is_made_so(**made)
    assert is_made_so(**made | {"scheme": "unit"})  # as the model has no bank
    others: list[tuple[str, Any]] = [
        ("kind", "sharded"),
        ("given", Given(("photos/1.jpg",))),
        ("given", Given(("photos", "others"))),
        ("given", Given(("photos",), exclude=("1.*",))),
        ("given", Given(("photos",), split="val")),
        ("given", Given(("photos",), images="photos")),
        *(("model", name) for name in ("other", "nothing")),
        *(("topk_words", number) for number in (5, None)),
        ("scheme", "paper"),
        *(("index", Path(name)) for name in ("others", "nothing")),
    ]
    assert not [(option, other) for option, other in others if is_made_so(**made | {option: other})]


def test_other_options_build_it_anew(again: Callable[..., Indexed]) -> None:
    assert not isinstance(again(topk=5), Updated)
    assert read_metadata(".lexlip").topk == 5
    assert isinstance(again(topk=5), Updated)
    assert not isinstance(again(topk=5, anew=True), Updated)
    assert not isinstance(again(topk=5, pseudo_documents="documents.jsonl"), Updated)  # which are all


def test_what_cannot_be_updated_is_built_anew(again: Callable[..., Indexed]) -> None:
    def damage(pattern: str) -> None:
        (file,) = Path(".lexlip").glob(pattern)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def forget(*names: str) -> None:
        extra = read_header(".lexlip").extra
        change_header(Path(".lexlip"), extra={name: extra[name] for name in extra.keys() - names})

    for spoil in (
        lambda: damage("data-*/lucene/*.doc"),
        lambda: damage("data-*/photos-*"),
        lambda: damage("index.json"),
        lambda: shutil.rmtree(Path(".lexlip") / read_header(".lexlip").directory),
        lambda: forget("given"),  # as older versions did
        lambda: forget("photos"),
        lambda: forget("listed"),
        lambda: again(model="bm25"),
    ):
        spoil()
        assert not isinstance(again(), Updated)
        assert isinstance(again(), Updated)


def test_what_an_interrupted_run_has_left_is_deleted(again: Callable[..., Indexed]) -> None:
    Path(".lexlip/data-9").mkdir()
    assert isinstance(again(), Updated)
    assert sorted(path.name for path in Path(".lexlip").iterdir()) == ["data-1", "index.json", "writer.lock"]


def test_many_photos_that_are_gone_are_deleted_on_request(
    again: Callable[..., Indexed], photos: Path
) -> None:
    for number in range(5):
        (photos / f"{number}.jpg").unlink()
    with pytest.raises(DataError, match="nothing was changed; give --prune to delete them"):
        again()
    assert read_header(".lexlip").documents == 6
    assert again(prune=True).photos == 1


def test_an_index_that_is_being_written(again: Callable[..., Indexed]) -> None:
    with WriterLock(Path(".lexlip")):
        assert again().photos == 6  # nothing to write
        os.utime("photos/0.jpg", (0, 0))
        shutil.copy("photos/1.jpg", "photos/new.jpg")
        with pytest.raises(IndexLocked):
            again()


def test_captions_that_were_left_out_are_indexed_later(
    again: Callable[..., Indexed], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("lexlip.indexing.bm25.has_anserini", lambda: False)
        patch.setattr("lexlip.indexing.update.has_anserini", lambda: False)
        assert again(anew=True).captions_left_out == 6
        assert again().captions_left_out == 6
    done = again()
    assert isinstance(done, Updated)
    assert done.captions_left_out == 0
    assert read_header(".lexlip").extra["captions"]["documents"] == 6
