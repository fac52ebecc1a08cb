"""Calls about several photos: their albums. Downloads are in test_downloads.py."""

from pathlib import Path

import pytest

from anserini_bridge import read_header
from lexlip.data import open_source
from lexlip.indexing.update import update_photos
from lexlip.retrieval.albums import Albums
from lexlip.retrieval.answer import key_of
from tests.conftest import write_photos
from tests.search.indexes import change_header, index_words
from tests.server.conftest import TOKEN
from tests.server.serving import Serving, problem, serving, until

ALL = "dog snow man cat boat"


def keys(*ids: str) -> list[str]:
    return [key_of(id) for id in ids]


def test_albums_are_made_changed_and_searched(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    assert server.get("/albums") == {"writable": True, "albums": []}
    told = server.post("/albums/starred", json={"add": keys("0.jpg", "1.jpg", "0.jpg")})
    assert told == {"writable": True, "albums": [{"name": "starred", "photos": 2}]}
    server.post("/albums/am%20Meer", json={"add": keys("1.jpg", "3.jpg")})
    assert server.get(f"/photos/{key_of('1.jpg')}")["albums"] == ["am Meer", "starred"]
    assert server.get(f"/photos/{key_of('2.jpg')}")["albums"] == []
    found = server.search(ALL, album="am Meer")["hits"]
    assert {hit["id"] for hit in found} == {"1.jpg", "3.jpg"}
    liked = server.post("/search", json={"like": key_of("1.jpg"), "album": "starred"})["hits"]
    assert [hit["id"] for hit in liked] == ["0.jpg"]

    (photos / "0.jpg").unlink()
    update_photos(open_source(photos), 1e9, server.served.index, workers=0)
    until(lambda: server.get("/status")["documents"] == 5)
    assert server.get("/albums")["albums"] == [
        {"name": "am Meer", "photos": 2},
        {"name": "starred", "photos": 1},
    ]
    assert (server.served.index / "albums" / "starred.txt").read_text() == "0.jpg\n1.jpg\n"
    left = server.post("/albums/am%20Meer", json={"remove": keys("1.jpg", "3.jpg")})
    assert left["albums"] == [{"name": "starred", "photos": 1}]


def test_a_photo_that_no_album_can_hold_is_left_out_and_named(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    (photos / "0.jpg").rename(photos / "two\nlines.jpg")
    update_photos(open_source(photos), 1e9, server.served.index, workers=0)
    until(lambda: server.client.get(f"/api/photos/{key_of('0.jpg')}").status_code == 404)
    told = server.post("/albums/a", json={"add": keys("two\nlines.jpg", "1.jpg")})
    assert told == {
        "writable": True,
        "albums": [{"name": "a", "photos": 1}],
        "left_out": ["two\nlines.jpg"],
    }
    said = problem(server.client.post("/api/albums/a", json={"add": keys("two\nlines.jpg")}), 400)
    assert said == "'two\\nlines.jpg' has an end of line in its name: no album can hold it"


def test_many_albums_are_listed_at_once(
    changing: tuple[Path, Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = changing
    for number in range(30):
        server.post(f"/albums/{number:02}", json={"add": keys("0.jpg")})
    monkeypatch.delattr(Albums, "ids")  # which looks through all of them for one
    assert server.get("/albums")["albums"][7] == {"name": "07", "photos": 1}


def test_what_is_refused(changing: tuple[Path, Serving]) -> None:
    _, server = changing
    post = server.client.post
    said = problem(post("/api/albums/a", json={"add": keys("none.jpg")}), 404)
    assert said == "the index holds no photo with the id 'none.jpg'"
    problem(post("/api/albums/a", json={"add": ["?"]}), 404)
    problem(post("/api/albums/a", json={"photos": keys("0.jpg")}), 422)
    problem(post("/api/albums/a", data={"add": "MC5qcGc"}), 415)
    for name in ("a%0Ab", "con", "%20", "x" * 300, "a%5Cb", "..%20"):
        assert "album" in problem(post(f"/api/albums/{name}", json={"add": keys("0.jpg")}), 400)
    problem(post("/api/albums/..%2F..%2Fa", json={"add": keys("0.jpg")}), 405)
    said = problem(server.client.get("/api/search", params={"q": "dog", "album": "none"}), 400)
    assert said == "there is no album 'none'; there is none yet"
    assert server.get("/albums")["albums"] == []
    assert not (server.served.index / "albums").exists()


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_pages_of_other_sites_change_nothing(changing: tuple[Path, Serving], origin: str) -> None:
    _, server = changing
    asked = {"json": {"add": keys("0.jpg")}, "headers": {"Origin": origin}}
    problem(server.client.post("/api/albums/starred", **asked), 403)
    assert server.get("/albums")["albums"] == []


def test_the_token_is_needed(locked_server: Serving) -> None:
    problem(locked_server.client.get("/api/albums"), 401)
    problem(locked_server.client.post("/api/albums/starred", json={"add": keys("0.jpg")}), 401)
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert locked_server.client.get("/api/albums", headers=known).json()["writable"]


def test_albums_of_another_user_are_shown_only(tmp_path: Path, model_folder: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    index = index_words(model_folder, photos, tmp_path / "index")
    extra = read_header(index).extra
    change_header(index, extra={name: value for name, value in extra.items() if name != "seal"})
    (index / "albums").mkdir()
    (index / "albums" / "theirs.txt").write_text("0.jpg\nnone.jpg\n")
    with serving(index) as server:
        assert server.get("/albums") == {"writable": False, "albums": [{"name": "theirs", "photos": 1}]}
        assert [hit["id"] for hit in server.search(ALL, album="theirs")["hits"]] == ["0.jpg"]
        answer = server.client.post("/api/albums/theirs", json={"remove": keys("0.jpg")})
        assert "this user has not made the index" in problem(answer, 403)
    assert (index / "albums" / "theirs.txt").read_text() == "0.jpg\nnone.jpg\n"
