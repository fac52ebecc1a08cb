from contextlib import closing
from pathlib import Path

import pytest

from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, DataError
from lexlip.indexing.update import update_photos
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.bm25 import BM25Stage
from lexlip.search.stages.captions import CaptionsStage
from tests.conftest import write_photos
from tests.search.indexes import LISTED, Indexed, index_words, is_open
from tests.tiny import CAPTIONS


def test_answers_are_those_of_an_index_of_captions(indexed: Indexed) -> None:
    with closing(CaptionsStage(indexed.words)) as inside, closing(BM25Stage(indexed.bm25)) as alone:
        for caption in CAPTIONS:
            (ids,), (scores,) = inside.search([caption], 5)
            (expected,), (points,) = alone.search([caption], 5)
            assert (ids, list(scores)) == (expected, list(points))


def test_fused_with_the_words_of_the_index(indexed: Indexed) -> None:
    with (
        PhotoSearch(indexed.words, captions=True) as inside,
        PhotoSearch(indexed.words, also=indexed.bm25) as two,
    ):
        for caption in CAPTIONS:
            assert inside.text(caption).hits == two.text(caption).hits
    assert not is_open(indexed.words)


def test_pictures_and_similar_photos_are_searched_by_words_alone(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words, captions=True) as both, PhotoSearch(indexed.words) as words:
        assert both.similar("3.jpg", 5).hits == words.similar("3.jpg", 5).hits
        vector = words.stage.encoder.encode_image([Scenes(1, seed=3).image(0)])
        assert both.vector(vector, 5).hits == words.vector(vector, 5).hits


def test_an_update_is_seen_after_a_refresh(photos: Path, tmp_path: Path, model_folder: Path) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    with PhotoSearch(index, captions=True) as search:
        before = search.stage.state
        Scenes(1, seed=7).image(0).save(photos / "new.jpg")
        (photos / "new.txt").write_text("a zeppelin")
        update_photos(open_source(photos), LISTED, index, workers=0)
        assert search.refresh()
        assert search.stage.state != before
        (hit,) = [hit for hit in search.text("zeppelin").hits if hit.id == "new.jpg"]
        assert hit.path == str(photos / "new.jpg")
        assert not search.refresh()


def test_photos_without_captions(tmp_path: Path, model_folder: Path, indexed: Indexed) -> None:
    photos = write_photos(tmp_path / "photos")
    for text in photos.glob("*.txt"):
        text.unlink()
    index = index_words(model_folder, photos, tmp_path / "index")
    with pytest.raises(DataError, match=r"no photo of the index .* has a caption or a keyword"):
        PhotoSearch(index, captions=True)
    assert not is_open(index)
    with pytest.raises(ConfigError, match="leave out --also or --captions"):
        PhotoSearch(indexed.words, also=indexed.bm25, captions=True)
