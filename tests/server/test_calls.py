import gzip
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lexlip.models.language_model import how_to_install
from lexlip.queries.query_language import parse_query
from lexlip.retrieval.answer import key_of
from lexlip.search.photo_search import PhotoSearch
from lexlip.server.access import Limits
from tests.conftest import write_photos
from tests.data.test_facts import gps
from tests.queries.tiny_languages import install, write
from tests.search.indexes import Indexed, index_words
from tests.server.serving import Serving, problem, serving
from tests.tiny import CAPTIONS


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "ms"}


@pytest.fixture(scope="module")
def photos(library: Indexed) -> Iterator[PhotoSearch]:
    """The index of words, as the command line searches it."""
    with PhotoSearch(library.words) as photos:
        yield photos


@pytest.mark.parametrize("query", ["two dogs in snow", "dog^2 -cat snow", "+bike a man", "zebra"])
def test_a_search_answers_what_the_command_line_prints(
    server: Serving, photos: PhotoSearch, query: str
) -> None:
    answer = server.search(query, k=7)
    assert without_times(answer) == without_times(photos.text(query, 7, suggest=8).to_dict())
    assert [hit["key"] for hit in answer["hits"]] == [key_of(hit["id"]) for hit in answer["hits"]]


@pytest.mark.parametrize("word", ["dog", "snow", "beach", "children"])
def test_a_typed_word_is_among_the_heaviest(server: Serving, word: str) -> None:
    assert word in list(server.search(word)["terms"])[:3]
    assert {"white", word} <= {*list(server.search(f"white {word}")["terms"])[:3]}


def test_marks_may_come_apart_from_the_sentence(server: Serving, photos: PhotoSearch) -> None:
    expected = photos.text(parse_query("two dogs in snow", ["dog^2", "-cat"]), 5, suggest=8).to_dict()
    apart = server.search("two dogs in snow", adjust=["dog^2", "-cat"], k=5)
    assert apart["without"] == ["cat"]
    assert without_times(apart) == without_times(expected)


def test_pages_hold_every_hit_once(server: Serving) -> None:
    whole = [hit["id"] for hit in server.search("dog snow man cat boat", k=1000)["hits"]]
    assert len(whole) > 6
    pages: list[str] = []
    page: dict[str, Any] = {"cursor": ""}
    while page["cursor"] is not None:
        given = {"cursor": page["cursor"]} if pages else {}
        page = server.search("dog snow man cat boat", k=4, **given)
        pages += [hit["id"] for hit in page["hits"]]
    assert pages == whole


def test_filters_leave_out_photos(server: Serving) -> None:
    below = server.search("dog snow", folder="2014", k=100)["hits"]
    assert below
    assert all(hit["id"].startswith("2014/") for hit in below)
    said = server.search("dog snow", caption="football", k=100)["hits"]
    assert {hit["id"] for hit in said} <= {"3.jpg", "2014/snow/3.jpg"}
    lowest = server.search("dog snow", k=100)["hits"][2]["score"]
    above = server.search("dog snow", min_score=lowest)["hits"]
    assert len(above) >= 3
    assert min(hit["score"] for hit in above) == lowest


def test_words_with_weights_search(server: Serving, photos: PhotoSearch) -> None:
    expected = photos.words({"dog": 1.4, "snow": 0.5}, 5, ["cat"], suggest=8).to_dict()
    answer = server.post("/search", json={"terms": {"dog": 1.4, "snow": 0.5}, "without": ["cat"], "k": 5})
    assert without_times(answer) == without_times(expected)


def test_a_photo_of_the_index_searches(server: Serving, photos: PhotoSearch) -> None:
    answer = server.post("/search", json={"like": key_of("0.jpg"), "k": 5})
    assert without_times(answer) == without_times(photos.similar("0.jpg", 5, suggest=8).to_dict())
    assert answer["hits"]


def test_json_says_the_same_as_the_address(server: Serving) -> None:
    posted = server.post("/search", json={"q": "two dogs", "adjust": ["-cat"], "k": 3})
    assert without_times(posted) == without_times(server.search("two dogs", adjust=["-cat"], k=3))


@pytest.mark.parametrize("kind", ["server", pytest.param("dense_server", marks=pytest.mark.slow)])
def test_a_picture_searches(library: Indexed, kind: str, request: pytest.FixtureRequest) -> None:
    server: Serving = request.getfixturevalue(kind)
    with PhotoSearch(server.served.index) as photos:
        expected = photos.image(library.photos / "1.jpg", 4).to_dict()
    data = (library.photos / "1.jpg").read_bytes()
    answer = server.post("/search", content=data, params={"k": 4}, headers={"Content-Type": "image/jpeg"})
    assert [hit["id"] for hit in answer["hits"]] == [hit["id"] for hit in expected["hits"]]
    assert answer["terms"] == expected["terms"]


def test_a_picture_does_not_search_captions(bm25_server: Serving) -> None:
    client, kind = bm25_server.client, {"Content-Type": "image/jpeg"}
    answer = client.post("/api/search", content=b"no matter", headers=kind)
    assert "holds captions (BM25)" in problem(answer, 400)
    assert bm25_server.search("dog")["hits"]
    assert "is for an index of words" in problem(client.get("/api/search", params={"q": "-dog"}), 400)


@pytest.mark.parametrize(
    ("data", "status", "says"),
    [
        (b"", 422, "the picture cannot be read: empty file"),
        (b"GIF89a", 422, "the picture cannot be read: "),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, "not an image"),
    ],
)
def test_what_is_no_picture_is_refused(server: Serving, data: bytes, status: int, says: str) -> None:
    answer = server.client.post("/api/search", content=data, headers={"Content-Type": "image/png"})
    assert says in problem(answer, status)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, "q: field required"),
        ({"q": ""}, "q: string should have at least 1 character"),
        ({"q": "  "}, "the query is empty"),
        ({"q": "x" * 1001}, "1,001 characters"),
        ({"q": "dog", "k": "0"}, "k: input should be greater than or equal to 1"),
        ({"q": "dog", "k": "1001"}, "at most 1000 hits"),
        ({"q": "dog", "k": "many"}, "k: input should be a valid integer"),
        ({"q": "dog", "min_score": "nan"}, "min_score: input should be a finite number"),
        ({"q": "dog", "sort": "size"}, "sort: input should be 'match', 'date' or 'place'"),
        ({"q": "dog", "fodler": "2014"}, "fodler: extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(server: Serving, params: dict[str, str], says: str) -> None:
    assert says in problem(server.client.get("/api/search", params=params), 422)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"q": "dog^-1"}, "needs a number"),
        ({"q": "dog", "adjust": "dog"}, "is not +word, -word or word^2"),
        ({"q": "dog", "after": "2014-13"}, "no such date"),
        ({"q": "dog", "cursor": "first"}, "is no cursor"),
    ],
)
def test_a_sentence_of_the_command_line_comes_as_it_is(
    server: Serving, params: dict[str, str], says: str
) -> None:
    assert says in problem(server.client.get("/api/search", params=params), 400)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("{", 422, "invalid JSON"),
        ("[]", 422, ""),
        ("{}", 422, "give one of q, terms and like"),
        ('{"q": "dog", "like": "MC5qcGc"}', 422, "give one of q, terms and like"),
        ('{"terms": {"dog": 1}, "adjust": ["-cat"]}', 422, "adjust is for q, and without for terms"),
        ('{"like": "MC5qcGc", "adjust": ["-cat"]}', 422, "adjust is for q, and without for terms"),
        ('{"q": "dog", "without": ["cat"]}', 422, "adjust is for q, and without for terms"),
        ('{"q": "dog", "more": 1}', 422, "more: extra inputs are not permitted"),
        ('{"terms": {}}', 422, "terms: dictionary should have at least 1 item, not 0"),
        ('{"terms": {"dog": 1e999}}', 422, "finite"),
        ('{"terms": {"dog": NaN}}', 422, ""),
        ('{"terms": {"dog": -1}}', 400, "give a number above 0"),
        ('{"q": "\\ud800"}', 422, "invalid JSON"),
        ('{"like": "//"}', 404, "is not the key of a photo"),
        ('{"like": "bm8"}', 404, "no photo with the id"),
        ('{"q": ' + "[" * 100_000 + "}", 422, ""),
        ('{"q": "' + "x" * 400_000 + '"}', 413, "at most 300,000 bytes"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(server: Serving, body: str, status: int, says: str) -> None:
    answer = server.client.post("/api/search", content=body, headers={"Content-Type": "application/json"})
    assert says in problem(answer, status)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_bodies_of_other_kinds_are_refused(server: Serving, kind: str) -> None:
    answer = server.client.post("/api/search", content=b'{"q": "dog"}', headers={"Content-Type": kind})
    assert "application/json" in problem(answer, 415)


def test_a_body_has_one_length(server: Serving) -> None:
    """Else what a proxy takes for its rest would be answered as a request."""
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    url = server.client.base_url
    with socket.create_connection((url.host, url.port), timeout=30) as client:
        client.sendall(head + lengths + b"0\r\n\r\nGET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert answers.count(b"HTTP/1.1") == 1
    assert answers.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"give Content-Length or Transfer-Encoding, not both" in answers


def test_bodies_that_are_compressed_are_refused(server: Serving) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = server.client.post("/api/search", content=gzip.compress(b'{"q": "dog"}'), headers=headers)
    assert problem(answer, 415) == "send the body as it is, without Content-Encoding: gzip"
    headers["Content-Encoding"] = "Identity"  # is none
    assert server.client.post("/api/search", content=b'{"q": "dog"}', headers=headers).is_success


def test_uploads_are_bounded_in_bytes_and_pixels(library: Indexed) -> None:
    data = (library.photos / "large.jpg").read_bytes()
    kind = {"Content-Type": "image/jpeg"}
    with serving(library.words, Limits(upload_bytes=len(data), upload_pixels=1_000_000)) as server:
        answer = server.client.post("/api/search", content=data, headers=kind)
        assert problem(answer, 413) == "the picture has 1,080,000 pixels: send one of at most 1,000,000"
        answer = server.client.post("/api/search", content=data + b"x", headers=kind)
        assert "the body is too long" in problem(answer, 413)
        parts = iter([data, b"x"])  # sent in chunks, whose length nobody says before
        answer = server.client.post("/api/search", content=parts, headers=kind)
        assert "the body is too long" in problem(answer, 413)


def test_the_language_of_a_sentence(
    library: Indexed, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "languages", model_folder)
    install(monkeypatch, tmp_path / "languages")
    with serving(library.words) as server:
        german = server.search("ein Hund im Schnee ohne Katze")
        assert (german["language"], set(german["terms"]), german["without"]) == (
            "und",
            {"dog", "snow"},
            ["cat"],
        )
        assert server.search("boot")["other_languages"] == ["de", "nl"]
        asked = server.get("/search", params={"q": "boot", "language": "DE"})
        assert (asked["language"], list(asked["terms"])) == ("de", ["boat"])
        told = server.get(f"/explain/{german['hits'][0]['key']}", params={"q": "ein Hund im Schnee"})
        assert {row["word"] for row in told["rows"]} <= {"dog", "snow"}
        wrong = server.client.post("/api/search", json={"q": "boot", "language": "german!"})
        assert "language" in problem(wrong, 422)
    install(monkeypatch, None)
    with serving(library.words) as server:
        answer = server.client.get("/api/search", params={"q": "boot", "language": "de"})
        assert problem(answer, 400) == f"this needs lexlip-languages: {how_to_install()}"


def test_a_score_is_explained(server: Serving) -> None:
    hit = server.search("two dogs in snow", k=1, content_only=True)["hits"][0]
    told = server.get(f"/explain/{hit['key']}", params={"q": "two dogs in snow"})
    assert told["score"] == pytest.approx(hit["score"])
    assert {row["word"]: row["product"] for row in told["rows"]} == pytest.approx(hit["words"])
    for row in told["rows"]:
        assert row["product"] == pytest.approx(row["query"] * row["photo"])
    adjusted = server.get(f"/explain/{hit['key']}", params={"q": "two dogs in snow", "adjust": "dog^0"})
    assert "dog" not in [row["word"] for row in adjusted["rows"]]


def test_words_are_found_by_their_beginning_and_their_spelling(server: Serving, photos: PhotoSearch) -> None:
    hits = photos.text(" ".join(CAPTIONS), 1000).hits
    counts = Counter(word for hit in hits for word in photos.photo_words(hit.id))
    found = server.get("/words", params={"limit": 1000})["words"]
    assert {word["word"]: word["photos"] for word in found} == counts
    assert [word["photos"] for word in found] == sorted(counts.values(), reverse=True)
    some = max(counts, key=len)
    begin = server.get("/words", params={"prefix": some[:2].upper()})["words"]
    assert {word["word"] for word in begin} == {word for word in counts if word.startswith(some[:2])}
    near = server.get("/words", params={"near": some[:-1] + "q", "limit": 1})["words"]
    assert near[0]["word"] == some


def test_telling_words_have_photos_that_hold_them(server: Serving) -> None:
    told = server.get("/telling", params={"limit": 3})["words"]
    assert len({word["key"] for word in told}) == len(told) <= 3
    for word in told:
        assert word["word"] in server.get(f"/photos/{word['key']}")["words"]


def test_facets_are_those_of_the_photos(server: Serving) -> None:
    facets = server.get("/facets")
    assert {"folder": "2014/snow", "photos": 6} in facets["folders"]
    assert facets["captioned"] == 18


def test_photos_are_listed_by_date(server: Serving, library: Indexed) -> None:
    paths = {path.relative_to(library.photos).as_posix(): path for path in library.photos.rglob("*.jpg")}
    written = {id: int(path.stat().st_mtime) for id, path in paths.items()}
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while page := server.get("/photos", params={"k": 5, **cursor}):
        found += page["photos"]
        assert (page["total"], page["unmet"]) == (len(paths), "")
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert [photo["id"] for photo in found] == sorted(sorted(paths), key=lambda id: -written[id])
    for photo in found:
        assert list(photo) == [
            *("key", "id", "path", "width", "height", "taken", "date", "dated", "version"),
        ]
        assert photo["key"] == key_of(photo["id"])
        assert photo["path"] == str(paths[photo["id"]])
        assert (photo["taken"], photo["dated"]) == (None, "file")
        assert photo["date"] == datetime.fromtimestamp(written[photo["id"]]).isoformat()
    below = server.get("/photos", params={"folder": "2014", "sort": "oldest"})["photos"]
    assert {photo["id"] for photo in below} == {id for id in paths if id.startswith("2014/")}
    dates = [photo["date"] for photo in below]
    assert dates == sorted(dates)


def test_the_timeline_counts_photos_by_month(server: Serving) -> None:
    photos = server.get("/photos", params={"k": 1000})["photos"]
    timeline = server.get("/timeline")
    assert list(timeline) == ["months", "undated", "undated_cursor"]
    assert (timeline["undated"], timeline["undated_cursor"]) == (0, None)
    assert sum(month["photos"] for month in timeline["months"]) == len(photos)
    for month in timeline["months"]:
        assert list(month) == ["month", "photos", "by_file_time", "key", "cursor"]
        mine = [photo["id"] for photo in photos if photo["date"].startswith(month["month"])]
        assert month["photos"] == month["by_file_time"] == len(mine)
        page = server.get("/photos", params={"cursor": month["cursor"], "k": len(mine)})
        assert [photo["id"] for photo in page["photos"]] == mine
    below = server.get("/timeline", params={"folder": "2014"})["months"]
    assert sum(month["photos"] for month in below) == 6


@pytest.mark.parametrize(
    ("path", "params", "status", "says"),
    [
        ("photos", {"k": "1001"}, 422, "at most 1000 hits"),
        ("photos", {"k": "0"}, 422, "greater than or equal to 1"),
        ("photos", {"sort": "match"}, 422, "sort: input should be 'newest' or 'oldest'"),
        ("photos", {"q": "dog"}, 422, "q: extra inputs are not permitted"),
        ("photos", {"cursor": "first"}, 400, "is no cursor"),
        ("photos", {"cursor": f"0.{'0' * 16}.{'0' * 16}"}, 410, "the photos have changed"),
        ("photos", {"after": "2014-13"}, 400, "no such date"),
        ("timeline", {"after": "2015", "before": "2014"}, 400, "swap the dates"),
        ("timeline", {"k": "3"}, 422, "k: extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_listing_is_said(
    server: Serving, path: str, params: dict[str, str], status: int, says: str
) -> None:
    assert says in problem(server.client.get(f"/api/{path}", params=params), status)


def test_the_map_says_where_photos_were_taken(model_folder: Path, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    for number, east in enumerate((11, 12, 151, None)):
        with Image.open(photos / f"{number}.jpg") as drawn:
            exif = gps() if east is None else gps(_4=(east, 30, 0))
            drawn.save(photos / f"{number}.jpg", exif=exif if east else b"")
    with serving(index_words(model_folder, photos, tmp_path / "index")) as server:
        assert server.get("/facets")["located"] == 3
        near, far = server.get("/map")["spots"]
        assert (near["photos"], near["box"]) == (2, pytest.approx([11.5, 48.13736, 12.5, 48.13736], abs=1e-4))
        assert (far["photos"], far["longitude"]) == (1, pytest.approx(151.5))
        part = {"west": 12, "east": 13, "south": 48, "north": 49, "columns": 3, "rows": 2}
        assert [one["longitude"] for one in server.get("/map", params=part)["spots"]] == [12.5]
        assert len(server.get("/map", params={"near": "48.1,11.5", "within": "20km"})["spots"]) == 1
        assert server.get("/map", params={"folder": "none"}) == {"spots": []}
        for wrong in ({"west": 10, "east": 10}, {"south": 3, "north": -3}, {"west": 181}, {"rows": 41}):
            problem(server.client.get("/api/map", params=wrong), 422)


def test_the_largest_towns_of_a_map(
    server: Serving, towns_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(towns_home))
    part = {"west": 4, "east": 6, "south": 45, "north": 46, "limit": 3}
    lyon, *_ = towns = server.get("/towns", params=part)["towns"]
    assert len(towns) == 3
    assert lyon == {
        "name": "Lyon",
        "latitude": pytest.approx(45.75, abs=0.02),
        "longitude": pytest.approx(4.85, abs=0.02),
    }
    assert server.get("/towns", params={"west": -1, "east": 1, "south": -1, "north": 1}) == {"towns": []}
    for wrong in ({"west": 10, "east": 10}, {"limit": 0}, {"columns": 3}):
        problem(server.client.get("/api/towns", params=wrong), 422)


def test_dense_indexes_answer_without_words(dense_server: Serving) -> None:
    answer = dense_server.search("two dogs", k=3)
    assert len(answer["hits"]) == 3
    assert answer["terms"] == {}
    assert dense_server.get("/words")["words"] == dense_server.get("/telling")["words"] == []
    assert dense_server.post("/search", json={"like": answer["hits"][0]["key"]})["hits"]


def test_a_cursor_outlives_an_update_but_not_many(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    whole = [hit["id"] for hit in server.search("dog snow man", k=100)["hits"]]
    first = server.search("dog snow man", k=2)
    for number in range(5):
        (photos / f"{number}.jpg").unlink()
        server.post("/update", 202, json={"prune": True})
        server.updated()
        answer = server.client.get(
            "/api/search", params={"q": "dog snow man", "k": 2, "cursor": first["cursor"]}
        )
        if number < 3:  # as many states are kept
            assert [hit["id"] for hit in answer.json()["hits"]] == whole[2:4]
        else:
            says = "the photos have changed since this page: search again"
            assert problem(answer, 410) == says
