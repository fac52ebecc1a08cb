import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anserini_bridge import (
    BridgeError,
    CorruptIndex,
    ImpactSearcher,
    read_header,
    read_metadata,
    update_index,
)
from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.indexing import api
from lexlip.indexing.damage import look_for_damage
from lexlip.indexing.impact import index_photos
from lexlip.indexing.report import Updated
from lexlip.indexing.update import update_photos
from lexlip.models.lexlip import LexLIP
from lexlip.retrieval.photo_table import open_photos
from tests.conftest import write_photos
from tests.flipped import files_of, flip, flipped
from tests.search.indexes import change_header, index_bm25, index_dense, open_vectors
from tests.tiny import tiny_dense

SHARES = (0.05, 0.5, 0.99)
FIRST = [f"{number}.jpg" for number in range(5)]  # the photos of segment _0
SECOND = ["new0.jpg", "new1.jpg"]  # and of _1


class Made(NamedTuple):
    """An index with its photos and its model, which a test may change."""

    index: Path
    photos: Path
    model: Path


def update(made: Made, **options: Any) -> Updated:
    return update_photos(open_source(made.photos), time.time(), made.index, workers=0, **options)


def make(folder: Path, model_folder: Path) -> Made:
    """Make an index of two segments, with deletions and captions."""
    made = Made(folder / "index", write_photos(folder / "photos"), folder / "model")
    shutil.copytree(model_folder, made.model)
    model = LexLIP.from_pretrained(made.model).fold_batch_norms()
    listed = time.time()
    index_photos(model, str(made.model), open_source(made.photos), listed, made.index, workers=0)
    for number in range(2):
        Scenes(1, seed=10 + number).image(0).save(made.photos / f"new{number}.jpg")
    (made.photos / "5.jpg").unlink()
    update(made)
    return made


@pytest.fixture
def made(tmp_path: Path, model_folder: Path) -> Made:
    return make(tmp_path, model_folder)


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """A folder with such an index, not to be changed."""
    folder = tmp_path_factory.mktemp("several")
    make(folder, model_folder)
    return folder


def state(index: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in index.rglob("*") if path.is_file()}


def contents(made: Made) -> tuple[dict[str, list[int]], list[Any], tuple[list[str], list[str]]]:
    """The words of all photos, the facts about them, and their captions."""
    with ImpactSearcher(made.index) as searcher:
        ids = sorted(searcher.ids())
        words = dict(zip(ids, searcher.vectors(ids).toarray().tolist(), strict=True))
    with open_photos(made.index, read_metadata(made.index)) as table:
        return words, table.get(ids), table.texts()


def in_use(index: Path) -> list[Path]:
    """The files that a search may read: neither the table before the present one, nor such captions."""
    extra = read_header(index).extra
    now = {extra["photos"], extra.get("captions", {}).get("folder")}
    old = {path for name in ("photos-*", "captions-*") for path in index.glob(f"data-*/{name}")}
    unused = {path for path in old if path.name not in now}
    return [file for file in files_of(index) if unused.isdisjoint([file, file.parent])]


# ---- every file of every kind of index ----


@pytest.fixture(scope="module")
def kinds(several: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An index of each kind, not to be changed."""
    folder, photos = tmp_path_factory.mktemp("kinds"), several / "photos"
    tiny_dense().save(folder / "dense")
    dense = {ann: index_dense(folder / "dense", photos, folder / ann, ann=ann) for ann in ("flat", "hnsw")}
    return {"impact": several / "index", "bm25": index_bm25(photos, folder / "bm25"), **dense}


@pytest.fixture(params=["impact", "flat", "hnsw", "bm25"])
def index(request: pytest.FixtureRequest, tmp_path: Path, kinds: dict[str, Path]) -> Path:
    """An index of each kind, which a test may change."""
    return Path(shutil.copytree(kinds[request.param], tmp_path / "index"))


def test_what_an_update_left_that_a_full_disk_ended_is_no_file_of_the_index(index: Path) -> None:
    (data,) = index.glob("data-*")
    for name in ("flat-segments_99", "photos-99.sqlite"):
        (data / name).write_bytes(b"a part of it")
    damage = look_for_damage(index)
    assert (damage.files, damage.unknown) == ([], [])


def test_every_flipped_bit_is_found(index: Path) -> None:
    assert look_for_damage(index).files == []
    assert look_for_damage(index).unknown == []
    for file in in_use(index):
        for share in SHARES:
            with flipped(file, share):
                if file.name == "index.json":
                    with pytest.raises(BridgeError, match=r"index\.json"):
                        look_for_damage(index)
                else:
                    assert [damaged.file for damaged in look_for_damage(index).files] == [file]
    assert look_for_damage(index).files == []


def test_a_file_that_is_gone_is_found(index: Path) -> None:
    for file in in_use(index):
        if file.name != "index.json":
            content = file.read_bytes()
            file.unlink()
            (damaged,) = look_for_damage(index).files
            if file.suffix == ".si" or "segments_" in file.name:  # Lucene does not say which is missing
                assert damaged.file.is_relative_to(file.parent)
            else:
                assert damaged.file == file
            file.write_bytes(content)


def test_ids_are_checked_when_vectors_are_opened(kinds: dict[str, Path], tmp_path: Path) -> None:
    index = Path(shutil.copytree(kinds["flat"], tmp_path / "index"))
    says = r"is damaged \(ids\.json was changed after it was written\)"
    with flipped(next(index.glob("data-*/ids.json")), 0.4), pytest.raises(CorruptIndex, match=says):
        open_vectors(index)
    open_vectors(index)


def test_an_older_index_is_read_and_says_what_has_no_checksum(index: Path) -> None:
    names = sorted(name for name in read_header(index).files if "/" not in name)  # Lucene's have their own
    assert names
    change_header(index, files=None)
    damage = look_for_damage(index)
    assert (damage.files, damage.unknown) == ([], names)


# ---- whose photos they are ----


def test_the_photos_of_a_segment(made: Made) -> None:
    for segment, photos in (("_0", FIRST), ("_1", SECOND)):
        with flipped(next(made.index.glob(f"data-*/lucene/{segment}*.doc"))):
            assert look_for_damage(made.index).photos() == photos
    with flipped(next(made.index.glob("data-*/lucene/segments_*"))):
        assert look_for_damage(made.index).photos() == [*FIRST, *SECOND]
    with flipped(next(made.index.glob("data-*/captions-*/*.doc"))):
        assert look_for_damage(made.index).photos() == []
    with flipped(made.index / "data-1" / read_header(made.index).extra["photos"]):
        assert look_for_damage(made.index).photos() == []
        with flipped(next(made.index.glob("data-*/lucene/_0*.doc"))):
            assert look_for_damage(made.index).photos() is None
    assert look_for_damage(made.index).photos() == []


@pytest.mark.parametrize(
    ("kind", "file", "photos"),
    [("bm25", "lucene/*.doc", FIRST), ("flat", "vectors.faiss", [*FIRST, *SECOND])],
)
def test_all_photos_of_an_index_without_updates(
    kinds: dict[str, Path], tmp_path: Path, kind: str, file: str, photos: list[str]
) -> None:
    index = Path(shutil.copytree(kinds[kind], tmp_path / "index"))
    flip(next(index.glob(f"data-1/{file}")))
    assert look_for_damage(index).photos() == photos
    assert look_for_damage(index).way_out().startswith(f"build the index at {index} again")
    with pytest.raises(ConfigError, match="only an index of words can be updated: index without --update"):
        api.update(index, repair=True)


# ---- nothing damaged is written anew ----


def test_updates_refuse_a_damaged_index(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    Scenes(1, seed=30).image(0).save(made.photos / "newer.jpg")
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    for file in in_use(made.index):
        with flipped(file):
            before = state(made.index)
            with pytest.raises(CorruptIndex) as caught:
                update(made)
            assert str(made.index) in str(caught.value)
            if "captions-" not in str(file):  # which optimize does not read
                with pytest.raises(CorruptIndex), update_index(made.index) as writer:
                    writer.optimize()
            assert state(made.index) == before


# ---- repair ----


def test_only_what_is_damaged_is_encoded_again(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every file that an index has."""
    whole, before = contents(made), state(made.index)
    encoded: list[int] = []
    encode = LexLIP.encode_image

    def count(self: LexLIP, photos: Any) -> Any:
        encoded.append(len(photos))
        return encode(self, photos)

    monkeypatch.setattr(LexLIP, "encode_image", count)
    for file in in_use(made.index):
        shutil.rmtree(made.index)
        for path, content in before.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        flip(file)
        encoded.clear()
        damaged = state(made.index)
        words = file.parent.name == "lucene"
        if file.name == "index.json" or (words and (file.suffix == ".si" or "segments_" in file.name)):
            with pytest.raises(CorruptIndex, match=r"build the index again$"):
                update(made, repair=True)
            assert state(made.index) == damaged
            continue
        done = update(made, repair=True)
        number = len(FIRST if file.name[:2] == "_0" else SECOND) if words else 0
        assert (done.repaired, done.added, done.changed, done.deleted) == (number, 0, 0, 0)
        assert (done.unchanged, done.damaged_files) == (len([*FIRST, *SECOND]) - number, 1)
        assert sum(encoded) == number
        assert look_for_damage(made.index).files == []
        assert contents(made) == whole
        assert update(made, repair=True).damaged_files == 0


def test_with_the_table_gone_too_the_missing_photos_are_new(made: Made) -> None:
    whole = contents(made)
    flip(next(made.index.glob("data-*/lucene/_1*.doc")))
    (made.index / "data-1" / read_header(made.index).extra["photos"]).unlink()
    done = update(made, repair=True)
    assert (done.added, done.repaired, done.unchanged, done.damaged_files) == (2, 0, 5, 2)
    assert contents(made) == whole


def test_a_damaged_photo_that_is_gone_or_new_or_moved(made: Made) -> None:
    flip(next(made.index.glob("data-*/lucene/_0*.doc")))
    (made.photos / "0.jpg").unlink()
    (made.photos / "1.jpg").rename(made.photos / "moved.jpg")
    (made.photos / "2.jpg").write_bytes(b"")
    done = update(made, repair=True)
    assert (done.repaired, done.added, done.changed, done.deleted) == (2, 1, 0, 3)
    assert sorted(contents(made)[0]) == ["3.jpg", "4.jpg", "moved.jpg", *SECOND]
    assert look_for_damage(made.index).files == []


def test_photos_that_are_out_of_reach_are_not_forgotten(made: Made) -> None:
    flip(next(made.index.glob("data-*/lucene/_0*.doc")))
    before = state(made.index)
    for name in FIRST:
        (made.photos / name).unlink()
    with pytest.raises(DataError, match="give --prune to delete them"):
        update(made, repair=True)
    assert state(made.index) == before


def test_a_repair_that_fails_changes_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(next(made.index.glob("data-*/lucene/_0*.doc")))
    flip(made.index / "data-1" / read_header(made.index).extra["photos"])
    before = {file: file.read_bytes() for file in in_use(made.index)}

    def full(path: Path, metadata: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("anserini_bridge.writer.write_metadata", full)
        with pytest.raises(DataError, match="No space left"):
            update(made, repair=True)
    after = state(made.index)
    assert {path: after.get(path) for path in before} == before
    assert update(made, repair=True).damaged_files == 2
    assert look_for_damage(made.index).files == []


# ---- the model ----


@pytest.mark.parametrize("repair", [False, True])
def test_nothing_is_indexed_with_a_damaged_model(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repair: bool
) -> None:
    if repair:
        flip(next(made.index.glob("data-*/lucene/_0*.doc")))
    Scenes(1, seed=30).image(0).save(made.photos / "newer.jpg")
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    before = state(made.index)
    for file in files_of(made.model):
        if file.name == "README.md":
            continue  # a card may be edited
        with flipped(file):
            with pytest.raises(ModelError, match="is damaged: "):
                update(made, repair=repair)
            with pytest.raises(ModelError, match="is damaged: "):
                api.index(made.photos, tmp_path / "other", made.model)
    assert state(made.index) == before
    assert not (tmp_path / "other").exists()


def test_words_come_from_the_model(made: Made) -> None:
    """Those of another model are refused."""
    flip(made.index / "data-1" / "vocabulary.txt")
    with flipped(made.model / "vocabulary.txt"), pytest.raises(ModelError, match="vocabulary"):
        update(made, repair=True)
    with pytest.raises(CorruptIndex, match=r"vocabulary\.txt is damaged: it does not hold the words"):
        update(made)
    assert update(made, repair=True).repaired == 0
    assert look_for_damage(made.index).files == []
