import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from anserini_bridge import UnknownId, read_header
from lexlip.errors import DataError, ModelError
from lexlip.explain.score_table import score_table
from lexlip.mcp.photo_tools import PhotoTools, text_of_answer
from lexlip.queries.query_language import QueryError
from lexlip.retrieval.filters import Filters
from lexlip.search.photo_search import PhotoSearch
from tests.conftest import write_photos
from tests.mcp.conftest import HOSTILE
from tests.search.indexes import change_header, index_bm25, index_dense, index_words
from tests.tiny import tiny_dense

IDS = [f"{name}.jpg" for name in [*range(6), *HOSTILE]]


def test_a_search_is_that_of_photo_search(tools: PhotoTools, hostile: Path) -> None:
    with PhotoSearch(hostile) as search:
        for query in ("two dogs in snow", "a cat +dog^2 -boat"):
            found, wanted = tools.search(query, k=4), search.text(query, k=4, suggest=8)
            assert (found.hits, found.terms, found.cursor) == (wanted.hits, wanted.terms, wanted.cursor)
            assert (found.without, found.suggestions) == (wanted.without, wanted.suggestions)
            assert found.hits


@pytest.mark.parametrize("word", ["dog", "snow", "beach", "children"])
def test_a_typed_word_is_among_the_heaviest(tools: PhotoTools, word: str) -> None:
    assert word in list(tools.search(word).terms)[:3]
    assert {"white", word} <= {*list(tools.search(f"white {word}").terms)[:3]}


def test_words_in_lists_are_marks(tools: PhotoTools) -> None:
    found = tools.search("a cat", add=["dog^2", "snow"], exclude=["boat"])
    wanted = tools.search("a cat +dog^2 +snow -boat")
    assert (found.hits, found.terms, found.without) == (wanted.hits, wanted.terms, ["boat"])
    assert tools.search("", add=["dog"]).terms == {"dog": 1.0}
    holders = {hit.id for hit in tools.search("", add=["dog"], k=20).hits}
    assert holders
    assert not holders & {hit.id for hit in tools.search("a cat", exclude=["dog"], k=20).hits}


def test_names_alone_are_a_query(tools: PhotoTools) -> None:
    (found,) = tools.search("name:4").hits
    assert (found.id, found.words) == ("4.jpg", {"name:4": 1.0})
    assert "name:4 1.0" in text_of_answer(tools.search("name:4"))


@pytest.mark.parametrize("word", ["-dog", "hot dog", "", "dog^x", "dog^101"])
def test_words_that_are_none(tools: PhotoTools, word: str) -> None:
    with pytest.raises(QueryError, match=r"is not understood|is not \+word, -word or|needs a number"):
        tools.search("a cat", add=[word])


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("-dog", "only leaves words out"),
        ("no dogs", "only leaves words out"),
    ],
)
def test_queries_of_nothing(tools: PhotoTools, query: str, says: str) -> None:
    with pytest.raises(DataError, match=f"the query {says}: give a sentence, or words to add"):
        tools.search(query)


def test_pages_and_filters(tools: PhotoTools) -> None:
    first = tools.search("a dog", k=3)
    second = tools.search("a dog", k=3, cursor=first.cursor)
    together = tools.search("a dog", k=6)
    assert [hit.id for hit in first.hits + second.hits] == [hit.id for hit in together.hits]
    told = {hit.id for hit in tools.search("a dog", k=20, filters=Filters(caption="TOLD you")).hits}
    assert told <= {f"{name}.jpg" for name in HOSTILE}
    lowest = together.hits[2].score
    best = tools.search("a dog", k=20, min_score=lowest).hits
    assert {hit.id for hit in best} >= {hit.id for hit in together.hits[:3]}
    assert all(hit.score >= lowest for hit in best)


def test_similar_photos(tools: PhotoTools, hostile: Path) -> None:
    with PhotoSearch(hostile) as search:
        assert tools.similar("3.jpg", 4).hits == search.similar("3.jpg", 4).hits
    with pytest.raises(UnknownId):
        tools.similar("7.jpg")


def test_reasons(tools: PhotoTools, hostile: Path) -> None:
    with PhotoSearch(hostile) as search:
        table = score_table(search, "a dog +cat", "1.jpg").to_dict()
        reasons = tools.explain("a dog", "1.jpg", add=["cat"])
        assert {name: reasons[name] for name in ("score", "rows", "words", "id", "path")} == {
            name: table[name] for name in ("score", "rows", "words", "id", "path")
        }
        assert (
            reasons["score"]
            == sum(row["product"] for row in reasons["rows"])
            == pytest.approx(table["score"])
        )
        assert tools.explain(id="1.jpg") == {
            "id": "1.jpg",
            "path": table["path"],
            "words": search.photo_words("1.jpg"),
        }
        answer = search.text("a dog +xyz")
        assert tools.explain("a dog +xyz") == {
            "query": "a dog +xyz",
            "words": answer.terms,
            "unknown": answer.unknown,
        }
    with pytest.raises(DataError, match="give a query, the id of a photo, or both"):
        tools.explain()


@pytest.mark.parametrize("id", ["7.jpg", "../photos/0.jpg", "/etc/passwd", ""])
def test_photos_that_are_not_there(tools: PhotoTools, id: str) -> None:
    with pytest.raises(DataError, match="holds no photo"):
        tools.photo(id, 100)
    if id:
        with pytest.raises(DataError, match="holds no photo"):
            tools.explain("a dog", id)
        with pytest.raises(DataError, match="holds no photo"):
            tools.explain(id=id)


@pytest.mark.parametrize("id", IDS)
def test_a_photo_of_any_name(tools: PhotoTools, hostile: Path, id: str) -> None:
    known, data = tools.photo(id, 64)
    path = hostile.parent / "photos" / id
    assert (known["id"], known["path"]) == (id, str(path))
    with Image.open(path) as photo, Image.open(io.BytesIO(data)) as picture:
        assert (known["width"], known["height"]) == photo.size
        assert picture.format == "JPEG"
        assert max(picture.size) == min(64, max(photo.size))
    assert known["words"] == tools.explain(id=id)["words"]
    json.dumps(known)


def test_photos_that_cannot_be_read(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    (photos / "0.jpg").write_bytes(b"text")
    (photos / "1.jpg").unlink()
    with PhotoTools(index) as tools:
        for id, why in (("0.jpg", "not what was indexed"), ("1.jpg", "not there|No such file|gone|cannot")):
            with pytest.raises(DataError, match=rf"cannot read the picture {photos / id}: .*({why})"):
                tools.photo(id, 100)


def test_a_photo_of_an_index_without_a_table(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    """Such an index has a place for any id; only those that it holds are shown."""
    index = index_words(model_folder, photos, photos / "index")
    (tmp_path / "secret.jpg").write_bytes((photos / "0.jpg").read_bytes())
    extra = read_header(index).extra
    del extra["photos"]
    change_header(index, extra=extra)
    with PhotoTools(index) as tools, pytest.raises(DataError, match="not in a folder"):
        tools.photo("0.jpg", 100)
    with PhotoTools(index, [str(photos)]) as tools:
        assert tools.photo("0.jpg", 100)[0]["path"] == str(photos / "0.jpg")
        with pytest.raises(UnknownId):
            tools.photo("../secret.jpg", 100)


def test_the_status(tools: PhotoTools, hostile: Path) -> None:
    header, status = read_header(hostile), tools.status()
    assert (status["index"], status["documents"], status["kind"]) == (str(hostile), len(IDS), "impact")
    assert (status["model"], status["made"], status["words"]) == (header.encoder, header.created, True)
    assert (status["dated"], status["captioned"], status["folders"]) == (0, len(IDS), [])


def test_folders_of_the_status(photos: Path, tmp_path: Path) -> None:
    for number in range(150):
        write_photos(photos / f"{number:03}" / "below", 1)
    with PhotoTools(index_bm25(photos, tmp_path / "index")) as tools:
        status = tools.status()
    assert status["folders"] == [{"folder": f"{number:03}", "photos": 1} for number in range(100)]
    assert status["folders_in_all"] == 300


def test_each_call_sees_the_newest_state(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    with PhotoTools(index) as tools:
        first = tools.search("a dog", k=2)
        write_photos(photos, 9)
        index_words(model_folder, photos, index)
        assert tools.status()["documents"] == 9
        assert tools.photo("8.jpg", 64)[0]["id"] == "8.jpg"
        more = tools.search("a dog", k=2, cursor=first.cursor)  # of the state before
        assert not {hit.id for hit in more.hits} & {"6.jpg", "7.jpg", "8.jpg"}


def test_indexes_without_words(photos: Path, tmp_path: Path) -> None:
    tiny_dense().save(tmp_path / "model")
    dense = index_dense(tmp_path / "model", photos, tmp_path / "dense")
    bm25 = index_bm25(photos, tmp_path / "bm25")
    for index in (dense, bm25):
        with PhotoTools(index) as tools:
            assert tools.search("a dog jumps", k=2).hits
            assert tools.photo("1.jpg", 64)[0]["words"] == {}
            assert not tools.status()["words"]
            with pytest.raises(QueryError, match="is for an index of words"):
                tools.search("a dog", add=["cat"])
            with pytest.raises(DataError, match="no words to explain"):
                tools.explain("a dog", "1.jpg")
    with PhotoTools(dense) as tools:
        assert len(tools.similar("1.jpg").hits) == 5
    with PhotoTools(bm25) as tools, pytest.raises(ModelError, match="cannot search for similar photos"):
        tools.similar("1.jpg")


def test_nothing_needs_torch(hostile: Path, run_python: Callable[..., Any]) -> None:
    code = f"""
import sys
from lexlip.mcp.photo_tools import PhotoTools
with PhotoTools({str(hostile)!r}) as tools:
    tools.search("a dog"), tools.similar("0.jpg"), tools.explain("a dog", "0.jpg"), tools.photo("0.jpg", 64)
print("torch" in sys.modules)
"""
    done = run_python("-c", code)
    assert done.stdout == "False\n", done.stderr
