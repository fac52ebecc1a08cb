"""What Solr is sent, and what of its answers is believed, against a small HTTP server."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from lexlip.errors import ConfigError, DataError
from lexlip.search_servers import photo_index
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import A_PHOTO, Beside, Condition, Holds, Is, Scored, all_of, any_of
from lexlip.search_servers.server_search import has_photos
from tests.other_engines.stand_in import Refused, serving

HEADER = {"status": 0, "QTime": 1}


pytestmark = pytest.mark.usefixtures("quick")


Reply = Callable[[str, str, Any, str], str | None]


@contextmanager
def solr(reply: Reply, name: str = "solr/photos") -> Iterator[PhotoIndex]:
    with serving(reply) as address:
        yield PhotoIndex.at(f"solr+{address}/{name}")


def telling(**answer: Any) -> Reply:
    """A Solr that answers the same to all."""
    return lambda *_: json.dumps({"responseHeader": HEADER, **answer})


@pytest.mark.parametrize("name", ["photos", "solr/photos", "proxy/solr/photos", "proxy/photos"])
def test_an_address_with_and_without_solr(name: str) -> None:
    asked = []

    def reply(method: str, path: str, headers: Any, body: str) -> str:
        asked.append(path)
        return json.dumps({"responseHeader": HEADER, "response": {"docs": []}})

    with solr(reply, name) as index:
        assert index.about() is None
        assert str(index).endswith(f"{'/proxy' * ('proxy' in name)}/solr/photos")
    assert asked == [f"{'/proxy' * ('proxy' in name)}/solr/photos/get"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((name, "no host and index") for name in ("", "/", "/solr", "/solr/", "/solr/#/photos")),
        ("/solr/photos?q=a", "no host and index"),
        ("/solr/a b", "ends with 'a b', which is no name of an index"),
    ],
)
def test_an_address_without_a_collection(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"{says}.*: write it as solr\+https://HOST/solr/INDEX"):
        PhotoIndex.at(f"solr+http://h{name}")


@pytest.mark.parametrize("fault", [429, 500, 502, 503, 504, "closed"])
def test_a_write_is_sent_again_while_a_node_dies(fault: Any, quick: list[float]) -> None:
    faults, bodies = [fault, fault], []

    def reply(method: str, path: str, headers: Any, body: str) -> str | None:
        assert (method, path) == ("POST", "/solr/photos/update?commitWithin=10000")
        bodies.append(body)
        if (one := faults.pop(0) if faults else None) == "closed":
            return None
        if one:
            raise Refused(one, '{"error": {"metadata": ["x"], "msg": "no leader"}}')
        return json.dumps({"responseHeader": HEADER})

    with solr(reply) as index:
        replace(index, final=()).write([("lexlip", {"about": {"a": 1}}), ("old", None)])
    assert quick == [1, 2]
    assert bodies == ['{"add":{"doc":{"key":"lexlip","about":"{\\"a\\":1}"}},"delete":{"id":"old"}}'] * 3


def test_what_is_wrong_is_said_and_not_sent_again(quick: list[float]) -> None:
    """In the words that Solr has for people, which come after some for programs."""
    answer = {"responseHeader": HEADER, "error": {"metadata": ["x" * 400], "msg": 'field "a" is\nno date'}}

    def reply(*_: Any) -> str:
        raise Refused(400, json.dumps(answer, indent=2))

    with solr(reply) as index, pytest.raises(DataError, match=r'\(400: field "a" is no date\)$'):
        index.write([("a", None)])
    assert quick == []


def test_an_answer_of_a_part_is_an_error() -> None:
    header = {**HEADER, "partialResults": True}
    with solr(telling(responseHeader=header, response={"numFound": 0, "docs": []})) as index:
        for question in (
            index.about,
            index.is_empty,
            lambda: index.ids(A_PHOTO),
            lambda: index.counts([A_PHOTO]),
            lambda: index.best([Scored(A_PHOTO, 1)], 3, None),
            lambda: index.terms("folders", ".*", 3),
            lambda: index.first("taken", "asc"),
            lambda: index.get(["a.jpg"]),
        ):
            with pytest.raises(DataError, match="answered for only a part of its documents"):
                question()


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"id": "b.jpg", "facts": "{}", "words": "1|2"},
        {"id": "a.jpg", "facts": "{", "words": "1|2"},
        {"id": "a.jpg", "facts": "{}", "words": "1"},
        {"id": "a.jpg", "facts": "{}", "words": "1|2|3"},
        {"id": "a.jpg", "facts": "{}", "words": "x|1"},
        {"id": "a.jpg", "facts": "{}", "words": "9|1"},
        {"id": "a.jpg", "facts": "{}", "words": "1|-1"},
        {"id": "a.jpg", "facts": "{}", "words": 5},
        {"id": "a.jpg", "facts": "{}"},
    ],
)
def test_a_photo_that_cannot_be_is_an_error(found: dict[str, Any]) -> None:
    found = {"key": photo_index.key_of("a.jpg"), **found}
    with (
        solr(telling(response={"docs": [found]})) as index,
        pytest.raises(DataError, match="does not answer as solr does"),
    ):
        index.vectors(["a.jpg"], 9)


@pytest.mark.parametrize("score", [-1, float("nan"), 1e300, True, "x", None])
def test_a_score_that_cannot_be_is_an_error(score: Any) -> None:
    found = telling(response={"docs": [{"id": "a", "score": score}]}, nextCursorMark="x")
    with solr(found) as index, pytest.raises(DataError, match="does not answer as solr does"):
        index.best([Scored(A_PHOTO, 1)], 1, None)


@pytest.mark.parametrize("word", ['{!lucene}*:*" OR "', "$p0", "*", "</SpanTerm>&", "a b", "'", "\\"])
def test_what_was_typed_is_no_query(word: str) -> None:
    """It is the whole of a parameter, or the text of an element."""
    bodies = []

    def reply(method: str, path: str, headers: Any, body: str) -> str:
        bodies.append(json.loads(body))
        found = {"response": {"docs": []}, "nextCursorMark": "x"}
        return json.dumps({"responseHeader": HEADER, **found})

    condition: Condition = any_of([Is("said", (word,)), Beside("given.name", ((word, "b"), ("c",)))])
    with solr(reply) as index:
        index.best([Scored(Holds(3), 7), Scored(condition, 0.5)], 1, all_of([Is("folders", (word,))]))
    (body,) = bodies
    texts = [value for name, value in body["params"].items() if re.fullmatch(r"p\d+", name)]
    near = next(text for text in texts if text.startswith("<SpanNear"))
    assert [one.text for one in ElementTree.fromstring(near).iter("SpanTerm")] == [word, "b", "c"]
    assert texts.count(word) == 2
    named = r"id:\*|\{!(term f=[a-z]+ v=\$p\d+|xmlparser v=\$p\d+|bool( (filter|should)=\$p\d+)+)\}"
    assert all(re.fullmatch(named, text) for text in texts if text not in (word, near))
    assert re.fullmatch(r'words:3\^7 _query_:"\{!query v=\$p\d+\}"\^=0\.500000000', body["query"])
    assert re.fullmatch(r"\{!query v=\$p\d+\}", *body["filter"])


def test_another_server_at_the_address_is_told_from_solr() -> None:
    def reply(*_: Any) -> str:
        raise Refused(404, "<html>nothing here</html>")

    with solr(reply) as index, pytest.raises(DataError, match=r"does not answer as solr does \(404\)"):
        index.make(False)


def test_an_export_is_told_from_an_index_of_photos() -> None:
    with serving(telling(response={"docs": []})) as address:
        assert not has_photos(f"solr+{address}/solr/photos")


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="which others can read") as refused:
        PhotoIndex.at("solr+http://me:secret@h/solr/photos")
    assert "secret" not in str(refused.value)
