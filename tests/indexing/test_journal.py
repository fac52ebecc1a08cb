import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher
from lexlip.data import open_source
from lexlip.data.facts import Facts
from lexlip.errors import DataError
from lexlip.indexing.dense import index_vectors
from lexlip.indexing.impact import index_photos
from lexlip.indexing.journal import Journal
from lexlip.indexing.report import Indexed
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.retrieval.photo_table import open_photos
from tests.conftest import write_photos
from tests.search.indexes import open_vectors
from tests.tiny import tiny_dense, tiny_model

PHOTOS = 70  # eight batches of 8, and six photos


class Ended(Exception):
    pass


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_photos(tmp_path / "photos", PHOTOS)
    return tmp_path / "photos"


def index(model: LexLIP, photos: Path, folder: Path, topk: int | None = 8) -> Indexed:
    return index_photos(model, "a model", open_source(photos), listed_now(photos), folder, topk, workers=0)


def listed_now(photos: Path) -> float:
    """Return a moment after all photos were written, as a listing's beginning is in practice."""
    return max(path.stat().st_ctime for path in photos.iterdir()) + 1.0


def end_after(model: object, batches: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the model encode so many batches, and then fail; return the sizes of those it encoded."""
    encode, sizes = model.encode_image, list[int]()  # type: ignore[attr-defined]

    def encode_some(pixels: np.ndarray) -> object:
        if len(sizes) == batches:
            raise Ended
        sizes.append(len(pixels))
        return encode(pixels)

    monkeypatch.setattr(model, "encode_image", encode_some)
    return sizes


def content(folder: Path) -> object:
    with ImpactSearcher(folder) as searcher:
        ids = searcher.ids()
        vectors = searcher.vectors(ids).toarray().tolist()
        with open_photos(folder, searcher.metadata) as table:
            facts = dict(zip(ids, table.get(ids), strict=True))
    return sorted(zip(ids, vectors, [repr(facts[id]) for id in ids], strict=True))


def test_an_interrupted_index_goes_on_and_is_as_one_that_was_not(
    model: LexLIP, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = index(model, photos, tmp_path / "whole")
    with monkeypatch.context() as patch:
        encoded = end_after(model, 2, patch)
        with pytest.raises(Ended):
            index(model, photos, tmp_path / "index")
    with monkeypatch.context() as patch:
        rest = end_after(model, 100, patch)
        done = index(model, photos, tmp_path / "index")
    assert (sum(encoded), sum(rest)) == (done.resumed, PHOTOS - done.resumed)
    assert (done.photos, done.postings, whole.resumed) == (PHOTOS, whole.postings, 0)
    assert content(tmp_path / "index") == content(tmp_path / "whole")
    assert not (tmp_path / "index" / "unfinished").exists()
    assert index(model, photos, tmp_path / "index").resumed == 0


@pytest.fixture
def interrupted(model: LexLIP, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index that is not complete: eight batches are encoded."""
    interrupt(lambda: index(model, photos, tmp_path / "index"), model, monkeypatch)
    return tmp_path / "index"


def check_against_a_whole_one(model: LexLIP, photos: Path, folder: Path) -> None:
    index(model, photos, folder.with_name("whole"))
    assert content(folder) == content(folder.with_name("whole"))


def test_what_changed_meanwhile_is_encoded_again(model: LexLIP, photos: Path, interrupted: Path) -> None:
    (photos / "0.jpg").unlink()
    (photos / "1.jpg").write_bytes((photos / "69.jpg").read_bytes())
    later = listed_now(photos) + 100
    os.utime(photos / "1.jpg", (later, later))
    (photos / "2.jpg").rename(photos / "a new name.jpg")
    done = index(model, photos, interrupted)
    assert (done.photos, done.resumed) == (PHOTOS - 1, 64 - 3)
    check_against_a_whole_one(model, photos, interrupted)


@pytest.mark.parametrize("other", ["settings", "photos"])
def test_other_settings_and_other_photos_begin_anew(
    model: LexLIP, photos: Path, interrupted: Path, other: str
) -> None:
    if other == "photos":
        photos = write_photos(photos.with_name("others"), PHOTOS)
    assert index(model, photos, interrupted, topk=5 if other == "settings" else 8).resumed == 0


@pytest.mark.parametrize("damage", ["file", "half a file", "row"])
def test_what_is_damaged_is_encoded_again(
    model: LexLIP, photos: Path, interrupted: Path, damage: str
) -> None:
    file = interrupted / "unfinished" / "encoded.sqlite"
    if damage == "file":
        file.write_bytes(b"no database" + file.read_bytes()[11:])
    else:
        row = "UPDATE photos SET weights = zeroblob(32) WHERE id = '3.jpg'"
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(row if damage == "row" else "DELETE FROM made")
    assert index(model, photos, interrupted).resumed == (63 if damage == "row" else 0)
    check_against_a_whole_one(model, photos, interrupted)


@pytest.mark.parametrize("pages", [2, 8])  # of SQLite, of which its tables take four
def test_a_full_disk_is_one_sentence(
    model: LexLIP, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    connect = sqlite3.connect

    def small(path: Path, **options: object) -> sqlite3.Connection:
        connection = connect(path, **options)  # type: ignore[call-overload]
        if path.name == "encoded.sqlite":
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(DataError, match=r"^cannot write the index .*: database or disk is full; to"):
        index(model, photos, tmp_path / "index")


def test_dense_vectors_too(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = tiny_dense()

    def make(folder: Path) -> Indexed:
        return index_vectors(dense, "dense", open_source(photos), listed_now(photos), folder, workers=0)

    interrupt(lambda: make(tmp_path / "index"), dense, monkeypatch)
    assert (make(tmp_path / "index").resumed, make(tmp_path / "whole").resumed) == (64, 0)
    (_, resumed), (_, whole) = open_vectors(tmp_path / "index"), open_vectors(tmp_path / "whole")
    assert resumed.ids == whole.ids
    rows = [[found.vectors.reconstruct(row) for row in range(PHOTOS)] for found in (resumed, whole)]
    np.testing.assert_array_equal(*rows)


def test_some_photos_only_and_what_is_forgotten(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    source = open_source(photos)

    def journal(topk: int, indices: list[int] | None = None) -> Journal:
        return Journal(folder, {"topk": topk}, source, listed_now(photos), 4, np.int32, indices)

    with journal(8) as kept:
        one = csr_matrix(np.ones((1, 4), np.int32))
        kept.keep([([source.items[0].id], one, [(0, Facts(state=source.state(0)))])])
        assert kept.missing == list(range(1, PHOTOS))
    with journal(8, [1, 2]) as kept:
        assert (kept.kept, kept.missing) == ([], [1, 2])
    with journal(8, [0, 2]) as kept:
        assert (kept.kept, kept.missing) == ([0], [2])
    journal(16).forget()
    assert (folder / "unfinished").is_dir()  # another command goes on with it
    journal(8).forget()
    journal(8).forget()
    assert list(folder.iterdir()) == []


def interrupt(make: Callable[[], Indexed], model: LexLIP | Dense, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        end_after(model, 8, patch)
        with pytest.raises(Ended):
            make()
