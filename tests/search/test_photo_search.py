import io
import json
import pickle
import shutil
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anserini_bridge import BridgeError, ImpactSearcher, IndexNotFound, UnknownId, read_header
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError, ModelError
from lexlip.indexing.update import update_photos
from lexlip.models.lexlip import LexLIP
from lexlip.queries.query_language import Query, QueryError
from lexlip.queries.text_queries import TextQueries
from lexlip.retrieval.answer import Answer, Hit
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.first_stage import Results
from lexlip.search import answering, photo_search
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.rerank import Reranker
from lexlip.search.stages.index_model import open_index
from lexlip.sparse.quantize import quantize
from tests.conftest import Clock, write_photos
from tests.retrieval.plain_stage import PlainStage
from tests.search.indexes import LISTED, Indexed, change_header, index_bm25, index_dense, index_words, is_open
from tests.tiny import CAPTIONS

ALL = "two dogs play with a white cat on the boat near the beach"  # shares a word with every photo
IDS = [f"{number}.jpg" for number in range(6)]


def without_times(answer: Answer) -> Answer:
    return replace(answer, ms=dict.fromkeys(answer.ms, 0.0))


def alike(answer: Answer, other: Answer) -> bool:
    """Whether two answers are the same but for their times, and what rounding does to scores."""
    pairs = zip(answer.hits, other.hits, strict=True)
    return (
        without_times(replace(answer, hits=[])) == without_times(replace(other, hits=[]))
        and all(replace(hit, score=0) == replace(its, score=0) for hit, its in pairs)
        and [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in other.hits])
    )


def test_ids_are_names_however_these_are_composed(model_folder: Path, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    composed, on_disk = (unicodedata.normalize(form, "Zürich.jpg") for form in ("NFC", "NFD"))
    (photos / "0.jpg").rename(photos / on_disk)
    with PhotoSearch(index_words(model_folder, photos, tmp_path / "index")) as search:
        assert without_times(replace(search.similar(composed), query="")) == without_times(
            replace(search.similar(on_disk), query="")
        )
        assert search.photo(composed).id == on_disk
        assert search.photo_words(composed) == search.photo_words(on_disk)
        with pytest.raises(DataError, match=r"holds no photo with the id 'Bern ü\.jpg'"):
            search.similar("Bern ü.jpg")


def test_the_photo_whose_path_is_typed_comes_first(model_folder: Path, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 6)
    names = [
        "2019/1.jpg",
        "2019/old/1.jpg",
        "2019/Copy of 1.jpg",
        "2019/bw-1.jpg",
        "old/1.jpg",
        "2019/old.jpg",
    ]
    for number, name in enumerate(names):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / f"{number}.jpg").rename(photos / name)
    with PhotoSearch(index_words(model_folder, photos, tmp_path / "index")) as search:
        for name in names:
            for typed in (name, f"/home/me/photos/{name}", f"photos/{name}"):
                assert search.text(typed).hits[0].id == name


def test_photos_are_read_that_only_the_second_index_has(model_folder: Path, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 2)
    index = index_words(model_folder, photos, tmp_path / "index")
    write_photos(photos, 4)
    also = index_bm25(photos, tmp_path / "also")
    with PhotoSearch(index, also=also) as search:
        for number in range(4):
            assert search.read(f"{number}.jpg") == (photos / f"{number}.jpg").read_bytes()
        with pytest.raises(DataError, match="not in the index"):
            search.read("5.jpg")


# ---- sentences ----


def test_a_sentence_is_answered_with_scores_and_the_words_that_add_up_to_them(
    indexed: Indexed, model_folder: Path
) -> None:
    """Scores are those of brute force over the stored vectors."""
    with PhotoSearch(indexed.words, query_topk=None) as search:
        answer = search.text(ALL)
    with ImpactSearcher(indexed.words) as searcher:
        stored, words = searcher.vectors(IDS), searcher.vocabulary
    query = quantize(TextQueries(model_folder).encode(ALL))
    scores = dict(zip(IDS, (stored @ query.T.astype(np.int64)).toarray()[:, 0] / 1e6, strict=True))
    assert {hit.id: hit.score for hit in answer.hits} == pytest.approx(scores)
    assert [hit.score for hit in answer.hits] == sorted(scores.values(), reverse=True)
    assert [hit.rank for hit in answer.hits] == [1, 2, 3, 4, 5, 6]
    weights = {words[c]: value / 1000 for c, value in zip(query.indices, query.data, strict=True)}
    assert answer.terms == pytest.approx(weights)
    assert list(answer.terms.values()) == sorted(weights.values(), reverse=True)
    for hit in answer.hits:
        assert sum(hit.words.values()) == pytest.approx(hit.score)
        assert list(hit.words.values()) == sorted(hit.words.values(), reverse=True)
        assert hit.words.keys() <= answer.terms.keys()
        assert (hit.path, hit.probability) == (str(indexed.photos / hit.id), None)
    assert answer.query == ALL
    assert list(answer.ms) == ["encode", "search"]


@pytest.mark.parametrize("kind", ["words", "dense", "bm25"])
def test_several_sentences_are_answered_as_one_by_one(indexed: Indexed, kind: str) -> None:
    queries = [*CAPTIONS, "a quokka", ALL]
    with PhotoSearch(getattr(indexed, kind)) as search:
        together = search.texts(queries, k=3)
        assert len(together) == len(queries)
        for query, answer in zip(queries, together, strict=True):
            assert alike(answer, search.text(query, k=3))
        assert search.texts([]) == []


def test_several_sentences_in_two_indexes_are_answered_as_one_by_one(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words, also=indexed.dense) as search:
        for query, answer in zip(CAPTIONS, search.texts(CAPTIONS), strict=True):
            assert alike(answer, search.text(query))


def test_k_and_the_words_that_a_query_keeps(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words, query_topk=None) as search:
        whole = search.text(ALL)
        assert search.text(ALL, k=2).hits == whole.hits[:2]
    with PhotoSearch(indexed.words, query_topk=2) as search:
        assert list(search.text(ALL).terms) == list(whole.terms)[:2]
    with PhotoSearch(indexed.words, query_encoder="words") as search:
        assert set(search.text("two dogs").terms) == {"two", "dogs"}
    with PhotoSearch(indexed.words) as search:
        assert search.text("snow^1").hits == search.text("snow").hits
        assert {"white", "blue", "snow"} <= search.text("white, blue, snow").terms.keys()


def test_unknown_words_are_in_the_answer_and_in_its_json(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as search:
        known, unknown = search.texts(["a dog with a cat", "the Quokka and a dog of Zürich"])
    assert (known.unknown, unknown.unknown) == ([], ["Quokka", "Zürich"])
    assert json.loads(json.dumps(unknown.to_dict()))["unknown"] == ["Quokka", "Zürich"]
    with PhotoSearch(indexed.words, also=indexed.dense) as search:
        assert search.text("a quokka").unknown == ["quokka"]
    with PhotoSearch(indexed.dense) as search:
        assert search.text("a quokka").unknown == []


# ---- pictures ----


@pytest.mark.parametrize("kind", ["words", "dense"])
def test_a_picture_finds_itself(indexed: Indexed, kind: str) -> None:
    picture = indexed.photos / "3.jpg"
    with PhotoSearch(getattr(indexed, kind)) as search:
        answer = search.image(picture, k=6)
        assert [hit.id for hit in search.image(str(picture), k=2).hits] == [h.id for h in answer.hits[:2]]
    assert (answer.query, answer.unknown, list(answer.ms)) == (str(picture), [], ["encode", "search"])
    best = answer.hits[0].score
    assert best == pytest.approx(1, abs=0.01)  # a cosine
    assert "3.jpg" in {hit.id for hit in answer.hits if hit.score > best - 1e-4}
    assert bool(answer.terms) == (kind == "words")


def test_pictures_that_cannot_be_read(indexed: Indexed, tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("text")
    with PhotoSearch(indexed.words) as search:
        for name, says in (("none.jpg", "No such file or directory"), ("text.jpg", "not an image")):
            with pytest.raises(DataError, match=f"^cannot read the picture .*{name}: {says}$"):
                search.image(tmp_path / name)


def test_pictures_of_pil_that_cannot_be_read(indexed: Indexed) -> None:
    """Their pixels are read when they are needed."""
    file = io.BytesIO()
    Image.effect_noise((300, 300), 90).save(file, "JPEG")
    cut, closed = Image.open(io.BytesIO(file.getvalue()[:2000])), Image.open(file)
    closed.close()
    with PhotoSearch(indexed.words) as search:
        for picture in (cut, closed):
            with pytest.raises(DataError, match=r"^the picture cannot be read: "):
                search.image(picture)
        with pytest.raises(DataError, match=r"no file has such a name$"):
            search.image("a\0b.jpg")


def test_what_a_picture_cannot_search(indexed: Indexed, cross_encoder: Path) -> None:
    for opened, says in (
        (PhotoSearch(indexed.bm25), rf"{indexed.bm25} holds captions \(BM25\), which a picture cannot"),
        (PhotoSearch(indexed.words, also=indexed.dense), "a picture searches one index: leave out --also"),
        (PhotoSearch(indexed.words, rerank=Reranker(cross_encoder)), "with photos: leave out --rerank"),
    ):
        with opened as search, pytest.raises(ModelError, match=says):
            search.image(indexed.photos / "0.jpg")


# ---- opening and closing ----


@pytest.mark.parametrize("kind", ["words", "bm25"])
def test_it_is_closed_at_the_end_of_the_block_whatever_happens(indexed: Indexed, kind: str) -> None:
    index = getattr(indexed, kind)
    with PhotoSearch(index) as search:
        assert is_open(index)
    assert not is_open(index)
    with pytest.raises(BridgeError):
        search.text("two dogs")
    with pytest.raises(ZeroDivisionError), PhotoSearch(index):
        raise ZeroDivisionError
    assert not is_open(index)


def test_both_of_two_indexes_are_closed(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words, also=indexed.bm25):
        assert all(map(is_open, (indexed.words, indexed.bm25)))
    assert not any(map(is_open, (indexed.words, indexed.bm25)))


@pytest.mark.parametrize("what", ["vectors", "model"])
def test_a_second_index_that_cannot_be_opened_leaves_the_first_closed(
    indexed: Indexed, tmp_path: Path, what: str
) -> None:
    second = tmp_path / "second"
    shutil.copytree(indexed.dense, second)
    if what == "vectors":
        next(second.glob("data-*/vectors.faiss")).write_bytes(b"short")
    else:
        change_header(second, extra={**read_header(second).extra, "model": "/gone"})
    with pytest.raises((BridgeError, ModelError)):
        PhotoSearch(indexed.words, also=second)
    assert not is_open(indexed.words)


def test_indexes_of_other_photos_are_not_opened_together(
    indexed: Indexed, tmp_path: Path, model_folder: Path
) -> None:
    other = index_words(model_folder, write_photos(tmp_path / "photos", 1), tmp_path / "other")
    with pytest.raises(DataError, match="are not indexes of the same photos"):
        PhotoSearch(indexed.words, also=other)
    with pytest.raises(IndexNotFound):
        PhotoSearch(indexed.words, also=tmp_path / "nothing")
    assert not is_open(indexed.words)


def test_a_search_in_an_index_that_is_open_already(indexed: Indexed) -> None:
    with PhotoSearch.of(open_index(indexed.words)) as search, PhotoSearch(indexed.words) as usual:
        assert alike(search.text(ALL), usual.text(ALL))
        assert search.rerank is None
    assert not is_open(indexed.words)


@pytest.mark.parametrize("kind", ["words", "bm25"])
def test_a_program_that_ends_without_closing_ends_quietly(
    indexed: Indexed, kind: str, run_python: Callable[..., Any]
) -> None:
    code = "import sys, lexlip; search = lexlip.PhotoSearch(sys.argv[1]); search.text('dogs')"
    ended = run_python("-c", code, getattr(indexed, kind))
    assert (ended.returncode, ended.stderr) == (0, "")


# ---- an index that changes ----


@pytest.mark.parametrize("kind", ["words", "dense", "bm25", "words and dense"])
def test_a_refreshed_search_sees_a_new_photo(
    photos: Path, tmp_path: Path, model_folder: Path, indexed: Indexed, kind: str
) -> None:
    make: dict[str, Callable[[Path], Path]] = {
        "words": lambda index: index_words(model_folder, photos, index),
        "dense": lambda index: index_dense(indexed.dense_model, photos, index),
        "bm25": lambda index: index_bm25(photos, index),
    }
    first, _, second = kind.partition(" and ")
    indexes = [make[name](tmp_path / name) for name in (first, second) if name]
    opened = PhotoSearch(indexes[0], also=indexes[1] if second else None)
    with opened as search, search.stage.hold() as held:
        assert not search.refresh()
        Scenes(1, seed=7).image(0).save(photos / "new.jpg")
        (photos / "new.txt").write_text(ALL)
        if kind == "words":
            update_photos(open_source(photos), LISTED, indexes[0], workers=0)
        else:
            make[second or first](indexes[-1])
        assert "new.jpg" not in {hit.id for hit in search.text(ALL).hits}
        assert search.refresh()
        found = search.text(ALL).hits
        assert "new.jpg" in {hit.id for hit in found}
        assert {hit.path for hit in found} <= set(map(str, photos.glob("*.jpg")))
        assert not search.refresh()
        (before,), _ = held.search([held.encode(ALL)], 10)
        assert "new.jpg" not in before


def test_a_new_state_that_cannot_be_read_leaves_the_old_one_open(
    photos: Path, tmp_path: Path, model_folder: Path
) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    with PhotoSearch(index) as search:
        before = search.text(ALL)
        index_words(model_folder, photos, index, topk_words=2)
        (index / "index.json").write_text("{")
        with pytest.raises(BridgeError, match="not JSON"):
            search.refresh()
        assert alike(search.text(ALL), before)


def test_a_new_state_is_shown_once_it_can_be_read(photos: Path, tmp_path: Path, model_folder: Path) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    with PhotoSearch(index) as search:
        Scenes(1, seed=7).image(0).save(photos / "new.jpg")
        update_photos(open_source(photos), LISTED, index, workers=0)
        hidden = index / "data-1" / read_header(index).extra["photos"]
        hidden.rename(tmp_path / "table")
        with pytest.raises(BridgeError):
            search.refresh()
        (tmp_path / "table").rename(hidden)
        assert search.refresh()
        assert "new.jpg" in {hit.id for hit in search.text(ALL, k=20).hits}
        assert not search.refresh()


def test_several_sentences_stay_in_the_folders_that_they_name(
    photos: Path, tmp_path: Path, model_folder: Path
) -> None:
    """Also in one whose name has no word."""
    write_photos(photos / "___", 2)
    with PhotoSearch(index_words(model_folder, photos, tmp_path / "index")) as search:
        query = f"two dogs folder:{photos / '___'}"
        (answer,) = search.texts([query])
        assert {hit.id for hit in answer.hits} == {"___/0.jpg", "___/1.jpg"}
        assert alike(answer, search.text(query))


# ---- negations ----


def test_negations_leave_words_out_where_an_index_knows_words(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as alone, PhotoSearch(indexed.words, captions=True) as fused:
        for photos in (alone, fused):
            said, marked = photos.text("a boat without dogs"), photos.text("a boat -dogs -dog")
            assert [hit.id for hit in said.hits] == [hit.id for hit in marked.hits]
            assert (said.without, said.negations) == (["dogs", "dog"], {"without dogs": ("dogs", "dog")})
        (batched,) = alone.texts(["a boat without dogs"])
        assert alike(batched, alone.text("a boat without dogs"))


def test_negations_are_text_in_other_indexes(indexed: Indexed) -> None:
    for index, model in ((indexed.dense, str(indexed.dense_model)), (indexed.bm25, None)):
        with PhotoSearch(index, model) as photos:
            said, text = photos.text("a boat without dogs"), photos.text('a boat "without dogs"')
            assert (said.without, said.negations) == ([], {})
            assert [hit.id for hit in said.hits] == [hit.id for hit in text.hits]


# ---- the second stage ----


class Stage(PlainStage):
    """A first stage that knows photos "0", "1", ... and takes its time, by a clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.depths: list[int] = []

    def encode(self, query: str | Query) -> str:
        self.clock.now += 1
        return self.sentence(query)

    def unknown(self, query: str | Query) -> list[str]:
        self.clock.now += 1000
        return ["quokka"]

    def search(self, queries: Sequence[Any], k: int, allowed: None = None) -> Results:
        self.depths.append(k)
        self.clock.now += 6
        ids = [str(number) for number in range(k)]
        return [ids for _ in queries], [-np.arange(float(k)) for _ in queries]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (answering, photo_search):
        monkeypatch.setattr(module, "time", clock)
    return clock


class Backwards:
    """A second stage that turns the first k hits around, in three seconds."""

    def __init__(self, clock: Clock, k: int) -> None:
        self.clock, self.k = clock, k

    def __call__(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        self.clock.now += 3
        return [*hits[: self.k][::-1], *hits[self.k :]]


def test_times_are_each_sentence_s_share_and_looking_for_unknown_words_is_not_in_them(clock: Clock) -> None:
    stage: Any = Stage(clock)
    answers = PhotoSearch.of(stage).texts(["a", "b", "c"])
    assert [answer.ms for answer in answers] == [{"encode": 1000, "search": 2000}] * 3
    assert [answer.unknown for answer in answers] == [["quokka"]] * 3


@pytest.mark.parametrize(("k", "reranked", "depth"), [(2, 5, 5), (5, 2, 6)])
def test_a_second_stage_looks_at_its_own_number_of_hits(
    clock: Clock, k: int, reranked: int, depth: int
) -> None:
    stage: Any = Stage(clock)
    second: Any = Backwards(clock, reranked)
    [answer] = PhotoSearch.of(stage, second).texts(["a"], k)
    assert stage.depths == [depth]
    order = [*reversed(range(reranked)), *range(reranked, depth)]
    assert [hit.path for hit in answer.hits] == [f"/photos/{number}" for number in order[:k]]
    assert answer.ms == {"encode": 1000, "search": 6000, "rerank": 3000}


def test_a_cross_encoder_reranks_sentence_by_sentence(indexed: Indexed, cross_encoder: Path) -> None:
    second = Reranker(cross_encoder, k=3)
    with PhotoSearch(indexed.words) as first, PhotoSearch(indexed.words, rerank=second) as both:
        for query, answer in zip(CAPTIONS, both.texts(CAPTIONS, k=4), strict=True):
            assert answer.hits == second(query, first.text(query, k=4, content_only=True).hits)
            assert list(answer.ms) == ["encode", "search", "rerank"]


@pytest.mark.parametrize("kind", ["words", "dense", "bm25"])
def test_an_empty_query_is_refused(indexed: Indexed, kind: str) -> None:
    with PhotoSearch(getattr(indexed, kind)) as photos:
        for query in ("", " \n"):
            with pytest.raises(QueryError, match=r"^the query is empty: give a sentence$"):
                photos.text(query)
            with pytest.raises(QueryError, match="the query is empty"):
                photos.texts(["dogs", query])


def test_a_query_that_only_leaves_words_out_finds_nothing(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as photos:
        assert photos.text("-dogs").hits == photos.words({}, without="dogs").hits == []


def test_what_is_no_query_and_no_number(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as search:
        for query in (None, b"a dog", ["a dog"]):
            with pytest.raises(QueryError, match=r"^a query is a text, and not "):
                search.text(query)  # type: ignore[arg-type]
        for ask in (search.text, search.texts):
            with pytest.raises(DataError, match=r"^k is 0: give the number"):
                ask("a dog", 0)
        with pytest.raises(DataError, match=r"^k is -1: give the number"):
            search.listed(-1)
        for picture in (b"\xff\xd8", np.zeros((9, 9, 3), np.uint8)):
            with pytest.raises(DataError, match=r"^a picture is a file or a picture of PIL, and not "):
                search.image(picture)  # type: ignore[arg-type]


def test_values_of_other_kinds_are_refused_in_a_sentence(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as search:
        number, unknown = r"^k is .*: give the number of photos", r"^no index holds a photo with the id "
        weight, texts = "give a number above 0", r"^texts are strings, or one, and text 1 is int$"
        wrong: list[tuple[Callable[[], object], str]] = [
            *((partial(search.text, "dog", k), number) for k in ("3", 1.5, None)),
            *((partial(search.listed, k), number) for k in ("3", 1.5, None)),
            *((partial(search.text, "dog", cursor=one), "is no cursor: give the one") for one in (5, b"1")),
            (partial(search.text, "dog", filters={"after": "2014"}), r"^filters are .*: give some, as in "),
            (partial(search.timeline, "2014"), r"^filters are '2014': give some, as in "),
            *((partial(search.text, "dog", suggest=n), r"^suggest is .*0 or more$") for n in (-1, 1.5, "x")),
            *(
                (partial(search.text, "dog", min_score=n), r"^min_score is .*number$")
                for n in ("1", nan, inf)
            ),
            (partial(search.text, "dog", sort="best"), r"^sort is 'best': give one of match, date, place$"),
            *((partial(search.similar, id), unknown) for id in (5, None, b"1")),
            *((partial(search.words, one), r"^words are .*: give them with ") for one in ("dog", ["dog"])),
            *((partial(search.words, {"dog": one}), weight) for one in ("1", None, 10**400)),
            (partial(search.words, {5: 1.0}), texts),
            (partial(search.words, {"dog": 1.0}, without=[5]), texts),
            (partial(search.listed, order="olest"), r"^order is 'olest': give one of newest, oldest$"),
        ]
        for ask, message in wrong:
            with pytest.raises(DataError, match=message):
                ask()
        with pytest.raises(TypeError, match=r"^a search takes no 'filter': it takes filters, min_score, "):
            search.text("dog", filter="x")  # type: ignore[call-arg]
        one, two = search.texts(sentence for sentence in ("two dogs", "a boat"))
        assert [one.query, two.query] == ["two dogs", "a boat"]
        assert search.text("dog", k=np.int64(2), min_score=np.float32(0)).hits  # type: ignore[arg-type]
        assert search.words({"dog": np.float32(0.5)}).hits


def test_an_open_index_stays_in_its_process(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as search, pytest.raises(TypeError, match="open it again in the other"):
        pickle.dumps(search)


def test_halves_of_characters_are_refused(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as photos:
        for query in ("\ud800", "two dogs \ud800", "dog +\ud800", "dog \ud800^2"):
            with pytest.raises(DataError, match="half a character"):
                photos.text(query)
        for ask in (lambda: photos.words({"\ud800": 1.0}), lambda: Filters(folder="\ud800")):
            with pytest.raises(DataError, match="half a character"):
                ask()
        for ask in (photos.similar, photos.photo, photos.photo_words):
            with pytest.raises(UnknownId):
                ask("\ud800")


def test_no_model_is_loaded_for_a_picture_that_is_no_file(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    with (
        PhotoSearch(indexed.words) as photos,
        pytest.raises(DataError, match="cannot read the picture /dev/zero: not a file"),
    ):
        photos.image("/dev/zero")
