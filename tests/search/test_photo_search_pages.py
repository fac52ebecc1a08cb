"""Filters, pages, order, words and states of `PhotoSearch`, on drawn scenes."""

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from anserini_bridge import UnknownId
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.indexing.update import update_photos
from lexlip.queries.query_language import QueryError, parse_query
from lexlip.retrieval.answer import Answer
from lexlip.retrieval.filters import Filters
from lexlip.search.cursors import StaleCursor
from lexlip.search.photo_search import PhotoSearch
from tests.search.indexes import LISTED, Indexed, index_bm25, index_dense, index_words
from tests.tiny import CAPTIONS

ALL = "two dogs play with a white cat on the boat near the beach"
NUMBER = 40
DATE, EXIF = 0x9003, 0x8769  # DateTimeOriginal, and where it is


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty scenes in three folders; those of one have no date."""
    folder = tmp_path_factory.mktemp("album")
    scenes = Scenes(NUMBER, seed=3)
    for number in range(NUMBER):
        place = folder / ("2019/july", "2019/june", "old")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        if number % 3 < 2:
            exif.get_ifd(EXIF)[DATE] = f"20{19 + number % 2}:0{1 + number % 9}:{1 + number % 28:02d} 12:00:00"
        scenes.image(number).save(place / f"{number}.jpg", exif=exif)
        (place / f"{number}.txt").write_text(f"{CAPTIONS[number % len(CAPTIONS)]}\nnumber{number % 4}\n")
    return folder


@pytest.fixture(scope="module")
def index_of(
    album: Path, model_folder: Path, indexed: Indexed, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Makes an index of the album, once for each kind."""
    folder = tmp_path_factory.mktemp("indexes")

    @cache
    def made(kind: str) -> Path:
        if kind == "dense":
            return index_dense(indexed.dense_model, album, folder / kind)
        if kind == "bm25":
            return index_bm25(album, folder / kind)
        return index_words(model_folder, album, folder / kind)

    return made


@pytest.fixture(scope="module", params=["words", "dense", "bm25", "both"])
def search(request: pytest.FixtureRequest, index_of: Callable[[str], Path]) -> Iterator[PhotoSearch]:
    both = request.param == "both"
    kind = "words" if both else request.param
    with PhotoSearch(index_of(kind), also=index_of("bm25") if both else None) as search:
        yield search


def ids(answer: Answer) -> list[str]:
    return [hit.id for hit in answer.hits]


# ---- filters ----


@pytest.mark.parametrize(
    "filters",
    [
        Filters(folder="2019"),
        Filters(folder="2019/june"),
        Filters(after="2020"),
        Filters(before="2019-05"),
        Filters(after="2019-03", before="2019-03-20", folder="2019"),
        Filters(caption="NUMBER2"),
        Filters(folder="nowhere"),
        Filters(album="some"),
        Filters(album="some", folder="2019"),
    ],
    ids=str,
)
def test_filters_are_exact(search: PhotoSearch, filters: Filters) -> None:
    """As filtering all hits of the whole collection, not as filtering the first k."""
    some = {"2019/july/0.jpg", "2019/june/1.jpg", "old/2.jpg", "2019/july/3.jpg", "old/5.jpg"}
    search.albums.change("some", [*some, "gone.jpg"])
    every = search.text(ALL, NUMBER).hits
    with search.now() as (_, photos):
        facts = {photo.id: photo for photo in photos.get([hit.id for hit in every]) if photo}

    def meets(id: str) -> bool:
        taken = (facts[id].taken or "")[:10]
        return (
            (not filters.folder or id.startswith(f"{filters.folder}/"))
            and (not filters.after or taken >= filters.after)
            and (not filters.before or (bool(taken) and taken[: len(filters.before)] <= filters.before))
            and (not filters.album or id in some)
            and (not filters.caption or filters.caption.lower() in " ".join(facts[id].captions))
        )

    expected = [hit.id for hit in every if meets(hit.id)]
    both = search.stage.metadata.kind == "impact" and len(search.stage.tables()) == 2
    for k in (3, NUMBER):
        found = ids(search.text(ALL, k, filters=filters))
        if both:  # ranks are those among the photos that are allowed
            assert set(found) <= set(expected)
            assert len(found) == min(k, len(expected))
        else:
            assert found == expected[:k]


# ---- pages ----


@pytest.mark.parametrize("how", [{}, {"filters": Filters(folder="2019")}, {"sort": "date"}], ids=str)
def test_pages_follow_one_another(search: PhotoSearch, how: Any) -> None:
    whole = search.text(ALL, NUMBER, **how)
    assert whole.cursor is None
    pages: list[Answer] = [search.text(ALL, 7, **how)]
    while pages[-1].cursor is not None:
        pages.append(search.text(ALL, 7, cursor=pages[-1].cursor, **how))
    hits = [hit for page in pages for hit in page.hits]
    assert hits == whole.hits
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert all(page.terms == whole.terms for page in pages)


def test_a_cursor_is_of_its_query(search: PhotoSearch) -> None:
    cursor = search.text(ALL, 5).cursor
    assert cursor is not None
    for query, how in ((CAPTIONS[0], {}), (ALL, {"min_score": 0.1}), (ALL, {"filters": Filters(folder="a")})):
        with pytest.raises(StaleCursor, match="the cursor is of another query"):
            search.text(query, 5, cursor=cursor, **how)  # type: ignore[arg-type]
    same = search.text(ALL, 5, cursor=cursor, filters=Filters(), sort="match", group=False, min_score=None)
    assert same.hits == search.text(ALL, 5, cursor=cursor).hits
    with pytest.raises(DataError, match="is no cursor"):
        search.text(ALL, 5, cursor="5")


def test_a_page_of_an_album_that_has_changed(search: PhotoSearch) -> None:
    best = ids(search.text(ALL, 4))
    search.albums.change("changing", best[:3], best[3:])
    filters = Filters(album="changing")
    cursor = search.text(ALL, 1, filters=filters).cursor
    assert len(search.text(ALL, 5, filters=filters, cursor=cursor).hits) == 2
    search.albums.change("changing", best[3:])
    with pytest.raises(StaleCursor):
        search.text(ALL, 5, filters=filters, cursor=cursor)
    assert len(search.text(ALL, 5, filters=filters).hits) == 4
    search.albums.change("changing", remove_ids=best)
    with pytest.raises(DataError, match="there is no album 'none'"):
        search.text(ALL, filters=Filters(album="none"))


def test_the_lowest_score(search: PhotoSearch) -> None:
    every = search.text(ALL, NUMBER).hits
    lowest = every[len(every) // 2].score
    answer = search.text(ALL, NUMBER, min_score=lowest)
    assert answer.hits == [hit for hit in every if hit.score >= lowest]
    assert ids(search.text(ALL, min_score=1e9)) == []


def test_by_date(search: PhotoSearch) -> None:
    every = {hit.id: hit for hit in search.text(ALL, NUMBER).hits}
    newest = search.text(ALL, NUMBER, sort="date").hits
    assert {hit.id for hit in newest} == set(every)
    dates = [hit.taken or "" for hit in newest]
    assert dates == sorted(dates, reverse=True)
    assert dates[0] > "2019"
    assert dates[-1] == ""


def test_size_and_date_of_hits(search: PhotoSearch, album: Path) -> None:
    for hit in search.text(ALL, 5).hits:
        with Image.open(album / hit.id) as picture:
            assert (hit.width, hit.height) == picture.size
        assert (hit.taken is None) == hit.id.startswith("old/")
        assert hit.path == str(album / hit.id)


def test_near_duplicates_are_one_hit(
    album: Path, tmp_path: Path, model_folder: Path, indexed: Indexed
) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(album / "2019", photos)
    for path in sorted(photos.rglob("*.jpg"))[:6]:
        for quality in (40, 60):
            Image.open(path).save(path.with_name(f"{path.stem}-{quality}.jpg"), quality=quality)
    with PhotoSearch(index_words(model_folder, photos, tmp_path / "index")) as search:
        every = ids(search.text(ALL, 100))
        with search.now() as (_, table):
            groups = table.group(every)
        assert max(map(len, groups)) >= 3
        whole = search.text(ALL, 100, group=True)
        assert [[hit.id, *hit.duplicates] for hit in whole.hits] == groups
        assert [hit.rank for hit in whole.hits] == list(range(1, len(groups) + 1))
        first = search.text(ALL, 4, group=True)
        second = search.text(ALL, 4, group=True, cursor=first.cursor)
        assert ids(first) + ids(second) == [group[0] for group in groups][:8]


# ---- words ----


@pytest.fixture(scope="module")
def words(index_of: Callable[[str], Path]) -> Iterator[PhotoSearch]:
    with PhotoSearch(index_of("words"), query_topk=None) as search:
        yield search


def test_a_sentence_with_marks(words: PhotoSearch) -> None:
    plain = words.text("two dogs near the beach", NUMBER, content_only=True)
    without = words.text("two dogs near the beach -cat -quokka", NUMBER, content_only=True)
    held = {hit.id for hit in plain.hits if "cat" in words.photo_words(hit.id)}
    assert 0 < len(held) < len(plain.hits)
    assert ids(without) == [id for id in ids(plain) if id not in held]
    assert (without.without, without.unknown) == (["cat", "quokka"], ["quokka"])
    more = words.text("two dogs^3 near the beach", NUMBER)
    ratio = more.terms["dogs"] / more.terms["beach"]
    assert ratio == pytest.approx(3 * plain.terms["dogs"] / plain.terms["beach"], rel=0.02)
    assert words.text(parse_query("two dogs near the beach", ["dogs^3"]), NUMBER).hits == more.hits
    assert "boat" in words.text("two dogs +boat").terms
    assert words.text("-cat").hits == []


def test_given_words(words: PhotoSearch) -> None:
    answer = words.words({"dogs": 2, "beach": 1, "quokka": 3}, NUMBER, without=["cat"])
    assert answer.terms["dogs"] == pytest.approx(2 * answer.terms["beach"], abs=0.002)
    assert (answer.unknown, answer.without) == (["quokka", "cat"][:1], ["cat"])
    assert not any("cat" in words.photo_words(id) for id in ids(answer))
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(DataError, match="the weight of 'dogs' is"):
            words.words({"dogs": weight})
    assert words.words({}).hits == []


def test_similar_photos(words: PhotoSearch) -> None:
    id = ids(words.text(ALL))[0]
    similar = words.similar(id, 5)
    assert id not in ids(similar)
    assert len(similar.hits) == 5
    assert similar.query == id
    assert set(similar.terms) == set(words.photo_words(id))
    second = words.similar(id, 5, cursor=similar.cursor)
    assert ids(second) == ids(words.similar(id, 10))[5:]
    with pytest.raises(UnknownId):
        words.similar("nowhere.jpg")


def test_suggestions_are_new_words_of_the_hits(words: PhotoSearch) -> None:
    answer = words.text("two dogs -cat", suggest=4)
    held = [set(words.photo_words(id)) for id in ids(answer)]
    assert 0 < len(answer.suggestions) <= 4
    for word in answer.suggestions:
        assert word not in {*answer.terms, "cat"}
        assert sum(word in some for some in held) >= 2
    assert words.text("two dogs").suggestions == []


def test_indexes_without_words_refuse_marks(indexed: Indexed) -> None:
    for index in (indexed.dense, indexed.bm25):
        with PhotoSearch(index) as search:
            for query in ("two +dogs", "two -dogs", "two dogs^2"):
                with pytest.raises(QueryError, match=r"\(dogs\) is for an index of words, and .* was made"):
                    search.text(query)
            answer = search.text("two dogs", suggest=3)
            assert (answer.suggestions, answer.terms, search.photo_words("0.jpg")) == ([], {}, {})


# ---- states ----


def test_cursors_over_an_update(photos: Path, tmp_path: Path, model_folder: Path) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    with PhotoSearch(index) as none, PhotoSearch(index, keep_states=1) as one:
        before = one.text(ALL, 6)
        first = one.text(ALL, 2)
        for number in range(2):
            Scenes(1, seed=number).image(0).save(photos / f"new{number}.jpg")
            update_photos(open_source(photos), LISTED + number, index, workers=0)
            assert none.refresh()
            assert one.refresh()
            with pytest.raises(StaleCursor, match="the photos have changed since this page: search again"):
                none.text(ALL, 2, cursor=first.cursor)
            if number == 0:
                assert one.text(ALL, 9, cursor=first.cursor).hits == before.hits[2:]
            else:
                with pytest.raises(StaleCursor, match="search again"):
                    one.text(ALL, 9, cursor=first.cursor)
