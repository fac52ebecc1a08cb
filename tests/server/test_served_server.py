"""The API over an index on a real server answers as over an index in a folder: `make test-servers`."""

import json
import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from click.testing import CliRunner

from lexlip.cli import main
from lexlip.other_engines import ask
from lexlip.retrieval.answer import key_of
from lexlip.server.photo_files import Thumbnails
from lexlip.server.served_server import _thumbnails
from tests.cli.conftest import ALL
from tests.data.pictures import jpeg
from tests.other_engines.real_servers import address as address_of
from tests.other_engines.real_servers import asked
from tests.other_engines.stand_in import Refused
from tests.other_engines.stand_in import serving as forwarding
from tests.search_servers.real_index import KINDS, index_of_its_own, write_library
from tests.search_servers.test_server_search import check_same
from tests.server.serving import Serving, problem, serving, serving_server, until
from tools.servers import PATIENCE

pytestmark = pytest.mark.servers


@dataclass
class Both:
    """A library of photos, its index in a folder, and the address of its index on a server."""

    photos: Path
    index: Path
    address: str

    @property
    def kind(self) -> str:
        """The engine."""
        return self.address.partition("+")[0]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def lexlip(*command: object) -> None:
    done = CliRunner().invoke(main, list(map(str, command)))
    assert done.exit_code == 0, done.output


def test_thumbnails_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", str)
    assert not _thumbnails("http://localhost:9200/photos", []).parent.is_dir()


def test_thumbnails_are_kept_where_the_cache_is_new(tmp_path: Path) -> None:
    folder = _thumbnails("http://localhost:9200/photos", [])
    assert not folder.exists()
    made = Thumbnails(folder, 10**9).get("digest", 320, jpeg)
    assert [file.read_bytes() for file in folder.rglob("*.webp")] == [made]


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("served_server")
    photos = write_library(folder / "photos")
    with index_of_its_own(request.param) as address:
        lexlip("index", photos, "--index", folder / "index")
        lexlip("index", photos, "--server", address)
        yield Both(photos, folder / "index", address)


@pytest.fixture
def opensearch(both: Both) -> Both:
    """The library in the engine whose documents and errors a test knows."""
    if both.kind != "opensearch":
        pytest.skip("this is of OpenSearch alone")
    return both


@pytest.fixture(scope="module")
def here(both: Both) -> Iterator[Serving]:
    with serving(both.index) as server:
        yield server


@pytest.fixture
def there(both: Both) -> Iterator[Serving]:
    with serving_server(both.address, [str(both.photos)]) as server:
        yield server


def alike(answer: Any) -> Any:
    """An answer without what differs between two indexes: times, and the names of their states in cursors."""
    if isinstance(answer, dict):
        return {
            name: value is None if "cursor" in name else alike(value)
            for name, value in answer.items()
            if name not in ("ms", "albums")
        }
    return [alike(one) for one in answer] if isinstance(answer, list) else answer


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/search", {"q": ALL, "k": 60}),
    ("/search", {"q": ALL, "after": "2017", "folder": "2020", "sort": "date"}),
    ("/search", {"q": "anna dog", "adjust": ["-snow", "beach^2"], "group": True}),
    ("/search", {"q": "near:45.5,9.4 dog", "sort": "place"}),
    ("/search", {"q": '"open quote'}),
    ("/search", {"q": "🐕"}),
    ("/search", {"q": "doog"}),
    ("/photos", {"k": 100}),
    ("/photos", {"k": 7, "caption": "dogs", "sort": "oldest"}),
    ("/timeline", {}),
    ("/timeline", {"folder": "2019 italy"}),
    ("/map", {"west": 8, "east": 12, "south": 44, "north": 48}),
    ("/facets", {}),
    ("/words", {"prefix": "d", "limit": 50}),
    ("/words", {"near": "doog"}),
    ("/telling", {"limit": 5}),
    (f"/photos/{key_of('été/anna maria 10.jpg')}", {}),
    (f"/explain/{key_of('été/anna maria 10.jpg')}", {"q": ALL}),
    (f"/photos/{key_of('copy.jpg')}/places", {"words": "dog,snow"}),
]


@pytest.mark.parametrize(("path", "params"), CALLS, ids=str)
def test_it_answers_as_an_index_in_a_folder(
    here: Serving, there: Serving, path: str, params: dict[str, Any]
) -> None:
    check_same(alike(here.get(path, params=params)), alike(there.get(path, params=params)))


def test_a_photo_a_picture_and_words_search(here: Serving, there: Serving, both: Both) -> None:
    words = {"terms": {"dog": 1, "snow": 0.4}, "without": ["cat"]}
    for body in ({"like": key_of("copy.jpg"), "k": 9}, words):
        check_same(alike(here.post("/search", json=body)), alike(there.post("/search", json=body)))
    how: Any = {"content": (both.photos / "copy.jpg").read_bytes(), "headers": {"Content-Type": "image/jpeg"}}
    check_same(alike(here.post("/search", **how)), alike(there.post("/search", **how)))


def test_pages(there: Serving) -> None:
    ids, cursor = [], None
    while True:
        answer = there.search(ALL, k=20, **({"cursor": cursor} if cursor else {}))
        ids += [hit["id"] for hit in answer["hits"]]
        cursor = answer["cursor"]
        if cursor is None:
            break
    assert ids == [hit["id"] for hit in there.search(ALL, k=100)["hits"]]


def test_files(here: Serving, there: Serving, both: Both) -> None:
    for id in ("copy.jpg", "été/anna maria 10.jpg"):
        for what in ("thumbnail", "original"):
            path = f"/api/photos/{key_of(id)}/{what}"
            assert here.client.get(path).content == there.client.get(path).content
    assert there.client.get(f"/api/photos/{key_of(id)}/original").content == (both.photos / id).read_bytes()
    zipped = there.client.post("/api/download", json={"keys": [key_of(id)]})
    assert zipped.status_code == 200
    assert (both.photos / id).read_bytes() in zipped.content
    assert there.get("/status")["photos"] == "files"


def test_a_file_that_is_gone_or_another_one_is_not_sent(both: Both, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "copy.jpg").write_bytes((both.photos / "été/anna maria 10.jpg").read_bytes())
    with serving_server(both.address, [str(tmp_path / "some")]) as server:
        for id, why in (("copy.jpg", "not what was indexed"), ("été/anna maria 10.jpg", "No such file")):
            for what in ("thumbnail", "original"):
                said = problem(server.client.get(f"/api/photos/{key_of(id)}/{what}"), 410)
                assert why in said


@pytest.fixture
def changed(opensearch: Both) -> Iterator[Any]:
    """Put other facts into a photo's document, which come back at the end."""
    url, before = opensearch.address.partition("+")[2], {}

    def change(id: str, **facts: Any) -> None:
        (hit,) = asked("POST", f"{url}/_search", {"query": {"term": {"id": id}}})["hits"]["hits"]
        before.setdefault(hit["_id"], hit["_source"])
        new = {**hit["_source"], "facts": {**hit["_source"]["facts"], **facts}}
        asked("PUT", f"{url}/_doc/{hit['_id']}?refresh=true", new)

    yield change
    for key, document in before.items():
        asked("PUT", f"{url}/_doc/{key}?refresh=true", document)


def test_paths_that_a_stranger_wrote_lead_nowhere(both: Both, changed: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes((both.photos / "copy.jpg").read_bytes())
    key = key_of("copy.jpg")
    with serving_server(both.address, [str(both.photos)]) as server:
        changed("copy.jpg", root=None, file=str(secret))
        for what in ("thumbnail", "original"):
            said = problem(server.client.get(f"/api/photos/{key}/{what}"), 410)
            assert "not in a folder whose photos may be sent" in said
        changed("copy.jpg", root="/", file="../../secret.jpg")
        said = problem(server.client.get(f"/api/photos/{key}/original"), 502)
        assert "'copy.jpg' lies outside of its folder" in said
        said = problem(server.client.get("/api/search", params={"q": ALL, "k": 60}), 502)
        assert "'copy.jpg' lies outside of its folder" in said


def test_photos_elsewhere(both: Both) -> None:
    with serving_server(both.address, ["https://photos.example.org/all/{id}"]) as server:
        for what in ("thumbnail", "original"):
            answer = server.client.get(f"/api/photos/{key_of('été/anna maria 10.jpg')}/{what}")
            assert answer.status_code == 307
            wanted = "https://photos.example.org/all/%C3%A9t%C3%A9/anna%20maria%2010.jpg"
            assert answer.headers["Location"] == wanted
        policy = server.client.get("/").headers["Content-Security-Policy"]
        assert "; img-src 'self' blob: data: https://photos.example.org;" in policy
        said = problem(server.client.get(f"/api/photos/{key_of('../x.jpg')}/original"), 400)
        assert "its id leads to another folder" in said
        assert server.get("/status")["photos"] == "addresses"
        assert "captions" not in server.search(ALL)["hits"][0]
        check_no_files(server)


def check_no_files(server: Serving) -> None:
    key = key_of("copy.jpg")
    for answer in (
        server.client.get(f"/api/photos/{key}/places"),
        server.client.get(f"/api/photos/{key}/heat", params={"word": "dog"}),
        server.client.post("/api/download", json={"keys": [key]}),
        server.client.post("/api/download", json={"keys": [key], "form": "sheet"}),
    ):
        assert problem(answer, 409).startswith("this server has no files of photos")


def test_no_pictures(both: Both, here: Serving) -> None:
    with serving_server(both.address) as server:
        assert server.get("/status")["photos"] == "none"
        check_no_files(server)
        for what in ("thumbnail", "original"):
            said = problem(server.client.get(f"/api/photos/{key_of('copy.jpg')}/{what}"), 409)
            assert said.endswith("start it with --photos FOLDER, the folder that holds them")
        hits = [*server.search(ALL, k=9)["hits"], *server.get("/photos")["photos"]]
        for hit in hits:
            assert hit["captions"] == here.get(f"/photos/{hit['key']}")["captions"]
        assert any(hit["captions"] for hit in hits)


def test_albums(there: Serving, here: Serving) -> None:
    for one in (there, here):
        assert one.get("/albums") == {"writable": True, "albums": []}
        path, change = "/api/albums/starred", {"add": [key_of("copy.jpg")]}
        said = one.client.post(path, json=change).json()
        assert said == one.get("/albums")
        assert said["albums"] == [{"name": "starred", "photos": 1}]
        assert one.get(f"/photos/{key_of('copy.jpg')}")["albums"] == ["starred"]
        assert [photo["id"] for photo in one.get("/photos?album=starred")["photos"]] == ["copy.jpg"]
        assert "no photo with the id" in problem(one.client.post(path, json={"add": [key_of("x")]}), 404)
        assert one.client.post(path, json={"remove": [key_of("copy.jpg")]}).json()["albums"] == []


def test_what_an_index_on_a_server_has_not(there: Serving) -> None:
    said = problem(there.client.post("/api/update", json={}), 409)
    assert said.startswith("an index on a server is not updated from here, but by `lexlip index SOURCE")


def test_health_and_status(there: Serving, both: Both) -> None:
    assert there.get("/health") == {"status": "ok", "cluster": "green"}
    status = there.get("/status")
    assert (status["index"], status["documents"], status["words"]) == (both.address, 49, True)
    assert status["cluster"] == {"status": "green", "message": ""}


def test_an_update_is_found_without_a_restart(tmp_path: Path, both: Both) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    files = sorted(both.photos.rglob("*.jpg"))[:6]
    for number, file in enumerate(files[:5]):
        (photos / f"{number}.jpg").write_bytes(file.read_bytes())
    with index_of_its_own(both.kind) as address:
        lexlip("index", photos, "--server", address)
        with serving_server(address) as server:
            before, cursor = server.get("/status"), server.search(ALL, k=2)["cursor"]
            (photos / "new.jpg").write_bytes(files[5].read_bytes())
            lexlip("index", photos, "--server", address)
            until(lambda: server.get("/status")["snapshot"] != before["snapshot"])
            assert server.get("/status")["documents"] == 6
            assert "new.jpg" in {photo["id"] for photo in server.get("/photos")["photos"]}
            problem(server.client.get("/api/search", params={"q": ALL, "k": 2, "cursor": cursor}), 410)


class Between:
    """What stands between a server and the cluster, and may fail: "down", "slow" or a status."""

    fault = ""

    def reply(self, method: str, path: str, headers: Any, body: str) -> str | None:
        if self.fault == "down":
            return None
        if self.fault:
            said = f'{{"error": "of {headers["Authorization"]}"}}'
            raise Refused(int(self.fault), said)
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            address_of("opensearch") + path, body.encode() or None, kind, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return str(response.read().decode())
        except HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode()) from None


@contextmanager
def behind(address: str, *photos: str) -> Iterator[tuple[Between, Serving]]:
    between = Between()
    with forwarding(between.reply) as url:
        name = address.rpartition("/")[2]
        with serving_server(f"opensearch+{url}/{name}", photos) as server:
            yield between, server


PATHS = (
    *("/search?q=dog", "/search?q=dog&folder=2020", "/photos", "/timeline", "/facets", "/map", "/words"),
    *("/telling", f"/photos/{key_of('copy.jpg')}", f"/explain/{key_of('copy.jpg')}?q=dog"),
)


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("down", 503, "broke the connection off"),
        ("503", 503, "answers with an error (503"),
        ("429", 503, "answers with an error (429"),
        ("500", 502, "answers with an error (500"),
        ("401", 502, "refuses this password (401"),
        ("403", 502, "gives this password no right to search"),
        ("404", 502, "has no index named"),
    ],
)
def test_what_the_cluster_does_not_answer(
    opensearch: Both,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: str,
    status: int,
    says: str,
) -> None:
    monkeypatch.setenv(ask.USER, "anna")
    monkeypatch.setenv(ask.PASSWORD, "open sesame")
    with behind(opensearch.address) as (between, server):
        between.fault = fault
        said = [problem(server.client.get(f"/api{path}"), status) for path in PATHS]
        assert all(says in one for one in said), said
        health = problem(server.client.get("/api/health"), 503)
        assert health == "the cluster does not answer searches now: /api/status says why"
        until(lambda: says in server.get("/status")["cluster"]["message"])
        said += [json.dumps(server.get("/status"))]
        between.fault = ""
        assert server.get("/health") == {"status": "ok", "cluster": "green"}
        for path in PATHS:
            server.get(path)
        until(lambda: not server.get("/status")["cluster"]["message"])
    shown = capsys.readouterr()
    secret = ask.base64.b64encode(b"anna:open sesame").decode()
    for text in (*said, shown.out, shown.err):
        assert "sesame" not in text
        assert secret not in text


def test_a_cluster_that_hangs(opensearch: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "TIMEOUT", 1)
    released = threading.Event()
    between = Between()
    forward = between.reply

    def reply(method: str, path: str, headers: Any, body: str) -> str | None:
        if between.fault == "slow":
            released.wait(20)
            return None
        return forward(method, path, headers, body)

    with forwarding(reply) as url:
        try:
            with serving_server(f"opensearch+{url}/{opensearch.address.rpartition('/')[2]}") as server:
                between.fault = "slow"
                said = problem(server.client.get("/api/search?q=dog"), 503)
                assert "has not answered for 1 seconds" in said
                between.fault = ""
                assert server.search("dog")["hits"]
        finally:
            released.set()


def test_many_at_once(there: Serving) -> None:
    wanted = alike(there.search(ALL, k=60))
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(alike(there.search(ALL, k=60)))) for _ in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 24
