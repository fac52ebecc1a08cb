import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anserini_bridge import BridgeError
from lexlip.errors import ModelError
from lexlip.queries.query_language import QueryError
from lexlip.search.stages.bm25 import BM25Stage
from tests.search.indexes import Indexed, index_bm25, is_open
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


def test_no_picture_can_search(stage: BM25Stage, indexed: Indexed) -> None:
    with pytest.raises(ModelError, match=f"the index {indexed.bm25} holds captions"):
        _ = stage.encoder


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


def test_only_allowed_photos_are_found(stage: BM25Stage) -> None:
    query = " ".join(CAPTIONS)
    (every,), (scores,) = stage.search([query], 6)
    for some in ([every[-1]], every[::2], [], [*every, "unknown"]):
        (ids,), (points,) = stage.search([query], 2, stage.allow(some))
        expected = [(id, score) for id, score in zip(every, scores, strict=True) if id in some][:2]
        assert list(zip(ids, points, strict=True)) == expected
    assert stage.allow(None) is None
    with pytest.raises(QueryError, match="leaving out dog is for an index of words"):
        stage.allow(None, ["dog"])
    with pytest.raises(ModelError, match="cannot search for similar photos"):
        stage.like(every[0])
