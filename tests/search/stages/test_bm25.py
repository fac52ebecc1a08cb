import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anserini_bridge import BridgeError
from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.indexing.update import update_photos
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.bm25 import BM25Stage, CaptionsStage
from tests.conftest import write_photos
from tests.search.indexes import LISTED, Indexed, index_bm25, index_words, is_open
from tests.tiny import CAPTIONS


@pytest.fixture
def stage(indexed: Indexed) -> Iterator[BM25Stage]:
    with closing(BM25Stage(indexed.bm25)) as stage:
        yield stage


def test_a_photo_is_found_by_the_words_of_its_caption(stage: BM25Stage) -> None:
    ids, scores = stage.search([stage.encode(query) for query in ("Dogs, jumping!", "quokka", "boats")], 3)
    assert ids == [["1.jpg", "0.jpg"], [], ["5.jpg"]]
    assert scores[0][0] > scores[0][1] > 0
    assert len(scores[1]) == 0


def test_each_caption_finds_its_photo_first(stage: BM25Stage) -> None:
    assert [ids[0] for ids in stage.search(CAPTIONS, 6)[0]] == [f"{number}.jpg" for number in range(6)]


def test_hits_say_which_words_of_the_query_they_have(stage: BM25Stage) -> None:
    (ids,), (scores,) = stage.search(["a dogs"], 6)
    words = stage.matches("a dogs", ids)
    assert [list(one) for one in words] == [["dogs"]] * len(ids)
    assert [one["dogs"] for one in words] == pytest.approx(scores.tolist(), abs=1e-3)
    assert stage.terms("a dogs") == {}
    assert (stage.unknown("a quokka"), stage.unread("a dog " * 100)) == ([], "")


def test_it_moves_to_a_new_index_when_told_and_closes_the_old_one(photos: Path, tmp_path: Path) -> None:
    index = index_bm25(photos, tmp_path / "index")
    with closing(BM25Stage(index)) as stage:
        assert not stage.refresh()
        (photos / "0.txt").write_text("a quokka")
        index_bm25(photos, index)
        assert stage.search(["quokka"], 3)[0] == [[]]
        assert stage.refresh()
        assert stage.search(["quokka"], 3)[0] == [["0.jpg"]]
        assert " (deleted)" not in "".join(mapped(index))
        assert not stage.refresh()
    assert not is_open(index)


def mapped(index: Path) -> list[str]:
    """The lines about an index of what this process has mapped into memory."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if str(index) in line]


def test_a_new_index_that_cannot_be_read_leaves_the_old_one_open(photos: Path, tmp_path: Path) -> None:
    index = index_bm25(photos, tmp_path / "index")
    with closing(BM25Stage(index)) as stage:
        (photos / "0.txt").unlink()
        index_bm25(photos, index)
        shutil.rmtree(index / "data-2" / "lucene")
        with pytest.raises(BridgeError):
            stage.refresh()
        assert stage.search(CAPTIONS[:1], 1)[0] == [["0.jpg"]]


def test_queries_are_of_the_language_of_the_captions(photos: Path, tmp_path: Path) -> None:
    (photos / "3.txt").write_text("die Häuser auf dem Bild")
    german = index_bm25(photos, tmp_path / "de", language="de")
    with closing(BM25Stage(german)) as stage:
        assert stage.metadata.language == "de"
        assert stage.search(["ein Haus", "auf dem"], 3)[0] == [["3.jpg"], []]
    english = index_bm25(photos, tmp_path / "en")
    with closing(BM25Stage(english)) as stage:
        assert stage.search(["ein Haus", "auf dem"], 3)[0] == [[], ["3.jpg"]]


def test_it_has_no_model(indexed: Indexed, model_folder: Path) -> None:
    with closing(BM25Stage(indexed.bm25, "bm25")) as stage:
        assert stage.metadata.encoder == "bm25"
    with pytest.raises(ModelError, match=r"was made with bm25, and .* is untrained@"):
        BM25Stage(indexed.bm25, str(model_folder))


def test_no_photo_is_like_another(stage: BM25Stage) -> None:
    with pytest.raises(ModelError, match="cannot search for similar photos"):
        stage.like("0.jpg")


# ---- captions beside words ----


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
        picture = Scenes(1, seed=3).image(0)
        assert both.image(picture, 5).hits == words.image(picture, 5).hits
        vector = words.stage.encoder.encode_image([picture])
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
