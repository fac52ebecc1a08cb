"""What is sent to a server, and what of its answers is believed, against a small HTTP server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from lexlip.data import Given
from lexlip.errors import ConfigError, DataError
from lexlip.machine import progress
from lexlip.other_engines.ask import Later
from lexlip.search_servers import photo_index, server_search
from lexlip.search_servers.photo_documents import NO_TEXT, key_of
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import A_PHOTO, Scored
from lexlip.search_servers.server_albums import ServerAlbums
from lexlip.search_servers.server_indexing import index_on_server
from lexlip.search_servers.server_photos import ServerPhotos
from lexlip.search_servers.server_search import has_photos
from tests.cli.conftest import Run
from tests.other_engines.stand_in import Refused, serving

pytestmark = pytest.mark.usefixtures("quick")


class Bulks:
    """A server that takes bulks, but first fails: by a status, "closed", or statuses of keys."""

    def __init__(self, *faults: Any, largest: int = 10**9) -> None:
        self.faults, self.largest = list(faults), largest
        self.held: dict[str, Any] = {}
        self.requests: list[list[str]] = []

    def __call__(self, method: str, path: str, headers: Any, body: str) -> str | None:
        assert method == "POST"
        assert path.startswith("/photos/_bulk?filter_path=")
        if len(body.encode()) > self.largest:
            raise Refused(413, "<html>too large</html>")
        fault = self.faults.pop(0) if self.faults else None
        if fault == "closed":
            return None
        if isinstance(fault, int):
            raise Refused(fault, '{"error": "of the test"}')
        lines = iter(map(json.loads, body.splitlines()))
        assert [next(lines), next(lines)] == [{"update": {"_id": "lexlip"}}, {"doc": {}}]
        items: list[Any] = [{"update": {"_id": "lexlip", "status": 200}}]
        asked = []
        for line in lines:
            ((kind, action),) = line.items()
            key = action["_id"]
            document = next(lines) if kind == "index" else None
            asked.append(key)
            status = (fault or {}).get(key, 200)
            items.append({kind: {"_id": key, "status": status}})
            if status == 200:
                self.held[key] = document
            else:
                items[-1][kind]["error"] = {"type": "t", "reason": f"no {key}"}
        self.requests.append(asked)
        return json.dumps(
            {"errors": any("error" in one for item in items for one in item.values()), "items": items}
        )


@contextmanager
def bulks(*faults: Any, **how: Any) -> Iterator[tuple[PhotoIndex, Bulks]]:
    server = Bulks(*faults, **how)
    with serving(server) as address:
        yield replace(PhotoIndex.at(f"opensearch+{address}/photos"), final=()), server


THERE = '{"update":{"_id":"lexlip"}}\n{"doc":{}}\n'
"""What comes first in a bulk: whether the index is still there."""

ACTIONS = [(f"k{number}", {"id": f"{number}.jpg"}) for number in range(8)]


@pytest.mark.parametrize("fault", [429, 503, 502, 504, "closed"])
def test_what_a_busy_server_refuses_is_sent_again(fault: Any, quick: list[float]) -> None:
    with bulks(fault, fault) as (index, server):
        index.write([*ACTIONS, ("old", None)])
    assert server.held == {**dict(ACTIONS), "old": None}
    assert quick == [1, 2]


def test_outside_of_a_run_nothing_is_sent_again(quick: list[float]) -> None:
    """Somebody who stars a photo on the page waits for it."""
    for fault, why in ((429, r"\(429: of the test\)$"), ({"k1": 429}, "too busy to write 1 document")):
        with bulks(fault) as (index, _), pytest.raises(DataError, match=why):
            replace(index, final=(Later,)).write(ACTIONS)
    assert quick == []


def write_until(error: BaseException, index: PhotoIndex) -> None:
    """Ends with the error."""
    with index.bulks() as add:
        for action in ACTIONS:
            add(action)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("of the test"), DataError("of the test")])
@pytest.mark.parametrize("fault", [None, 429, 401, 413, "closed", {"k1": 429}, {"k1": 400}])
def test_what_waits_as_a_block_ends_with_an_error_is_sent_once(
    error: Any, fault: Any, quick: list[float]
) -> None:
    """And the error is that of the block, whatever the server says."""
    with bulks(fault) as (index, server):
        with pytest.raises(type(error)) as raised:
            write_until(error, index)
        assert raised.value is error
        assert server.faults == []
    if fault in (None, 413):  # a bulk that is too large is halved
        assert server.held == dict(ACTIONS)
    assert quick == []


def test_a_server_that_is_away_is_sent_nothing_more(quick: list[float]) -> None:
    with bulks() as (index, server):
        with pytest.raises(Later, match="away"):
            write_until(Later("away"), index)
        assert server.requests == []


def test_single_photos_that_it_is_too_busy_for_are_sent_again(quick: list[float]) -> None:
    with bulks({"k1": 429, "k5": 503}, 429, {"k5": 429}) as (index, server):
        index.write(ACTIONS)
    assert server.held == dict(ACTIONS)
    assert server.requests == [[key for key, _ in ACTIONS], ["k1", "k5"], ["k5"]]


def test_a_server_that_stays_busy_ends_the_run(quick: list[float]) -> None:
    with bulks(*[429] * 99) as (index, _), pytest.raises(DataError, match="answers with an error \\(429: "):
        index.write(ACTIONS)
    assert quick == list(photo_index.WAITS)
    with (
        bulks(*[{"k1": 429}] * 99) as (index, _),
        pytest.raises(DataError, match="too busy to write 1 document"),
    ):
        index.write(ACTIONS)


@pytest.mark.parametrize("fault", [429, 503, 502, 504])
def test_the_first_answer_of_a_run_is_waited_for(fault: int, quick: list[float]) -> None:
    """If it is that of a server; one that is not reached may have another address."""
    faults = [fault, fault]

    def reply(*_: Any) -> str:
        raise Refused(faults.pop() if faults else 404, "{}")

    how: dict[str, Any] = {"given": Given(("photos",)), "update": True}
    with serving(reply) as url:
        address = f"opensearch+{url}/photos"
        with pytest.raises(DataError, match=r"there is no index .*/photos to update"):
            index_on_server(address=address, **how)
        assert quick == [1, 2]
        quick.clear()
        faults += [fault] * 99
        with pytest.raises(DataError, match=rf"\({fault}: .*; it was asked again for some two minutes$"):
            index_on_server(address=address, **how)
        assert quick == list(photo_index.WAITS)
        quick.clear()
    with pytest.raises(DataError, match="cannot be reached"):
        index_on_server(address=address, **how)
    assert quick == []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Is set once a wait is told, which then is long at once, and goes on only after that."""
    event, tell = Event(), progress.tell

    def sleep(_: float) -> None:
        assert event.wait(60), "nothing is told"

    monkeypatch.setattr(progress, "LONG", 0)
    monkeypatch.setattr(progress, "tell", lambda line: (tell(line), event.set()))
    monkeypatch.setattr(photo_index.time, "sleep", sleep)
    return event


AGAIN = "asking again for some two minutes"
CLOSED = "Remote end closed connection without response"


def waited_for(url: str) -> PhotoIndex:
    """An index on a server that is waited for, which is told on stderr."""
    return replace(PhotoIndex.at(f"opensearch+{url}/photos", progress.tell), final=())


@pytest.mark.parametrize("fault", [429, "closed"])
def test_who_waits_for_an_answer_is_told(fault: Any, told: Event, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    def reply(*how: Any) -> str | None:
        asked.append(how)
        if len(asked) > 1:
            raise Refused(404, "{}")
        told.wait(60)
        if fault == "closed":
            return None
        raise Refused(fault, "{}")

    with serving(reply) as url, pytest.raises(DataError, match="has no index"):
        waited_for(url).refresh()
    why = {429: "answers with an error (429: {})", "closed": f"broke the connection off ({CLOSED})"}[fault]
    lines = [f"waiting for {url} to answer", f"{url} {why}; {AGAIN}"]
    assert capsys.readouterr().err.splitlines() == lines


def test_who_waits_for_a_busy_server_to_write_is_told(
    told: Event, capsys: pytest.CaptureFixture[str]
) -> None:
    with bulks({"k1": 429, "k5": 503}) as (index, server):
        replace(index, tell=progress.tell).write(ACTIONS)
    assert server.held == dict(ACTIONS)
    assert capsys.readouterr().err == f"{index.server.url} is too busy to write 2 documents; {AGAIN}\n"


def test_what_to_do_about_a_server_is_said_at_the_end(quick: list[float]) -> None:
    with serving(lambda *_: None) as url, pytest.raises(DataError) as error:
        waited_for(url).refresh()
    assert str(error.value) == (
        f"{url} broke the connection off ({CLOSED}); it was asked again for some two minutes:"
        " ask again, or write opensearch+https if it speaks https"
    )


def test_a_run_tells_that_it_waits_and_then_why(lexlip: Run, photos: Path, told: Event) -> None:
    statuses = [404, 429, 429]

    def reply(*_: Any) -> str:
        told.wait(60)
        raise Refused(statuses.pop(), "{}")

    with serving(reply) as url:
        how = ("index", "photos", "--update", "--json", "--server", f"opensearch+{url}/photos")
        result = lexlip(*how, code=2)
    assert result.stdout == ""
    assert result.stderr.splitlines()[:-1] == [
        f"waiting for {url} to answer",
        f"{url} answers with an error (429: {{}}); {AGAIN}",
    ]


@pytest.mark.parametrize(
    ("engine", "command"),
    [
        ("opensearch", ("search", "a dog", "--json")),
        ("solr", ("serve", "--port", "0")),
        ("qdrant", ("search", "a dog", "--json")),
    ],
)
def test_who_waits_for_the_answer_to_a_search_is_told(
    lexlip: Run, told: Event, engine: str, command: tuple[str, ...]
) -> None:
    def reply(*_: Any) -> str:
        told.wait(60)
        raise Refused(404, "{}")

    with serving(reply) as url:
        result = lexlip(*command, "--server", f"{engine}+{url}/photos", code=2)
    assert result.stdout == ""
    line, _ = result.stderr.splitlines()
    assert line == f"waiting for {url} to answer"


def test_who_waits_for_later_answers_is_told(
    lexlip: Run, told: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of a node that hangs, behind one that answered first."""
    monkeypatch.setattr(server_search, "has_photos", lambda *_: True)

    def reply(*_: Any) -> str:
        told.wait(60)
        raise Refused(404, "{}")

    with serving(reply) as url:
        said = lexlip("search", "a dog", "--server", f"opensearch+{url}/photos", code=2).stderr
        assert said.splitlines()[0] == f"waiting for {url} to answer"
        told.clear()
        with pytest.raises(DataError, match="has no index"):
            waited_for(url).count()
        assert told.is_set()


def test_what_is_wrong_is_not_sent_again(quick: list[float]) -> None:
    with bulks({"k3": 400}) as (index, server), pytest.raises(DataError, match=r"refuses a photo \(no k3\)"):
        index.write(ACTIONS)
    assert len(server.held) == 7
    for fault, error in ((400, DataError), (401, ConfigError), (403, ConfigError)):
        with bulks(fault) as (index, _), pytest.raises(error):
            index.write(ACTIONS)
    assert quick == []


def test_a_bulk_that_is_too_large_is_halved() -> None:
    size = 60  # of a photo, at most
    with bulks(largest=len(THERE) + 2 * size) as (index, server):
        index.write(ACTIONS)
    assert server.held == dict(ACTIONS)
    assert max(map(len, server.requests)) <= 3
    with bulks(largest=10) as (index, _), pytest.raises(DataError) as error:
        index.write(ACTIONS)
    sent = len(THERE + '{"index": {"_id": "k0"}}\n{"id":"0.jpg"}\n')
    limits = "OpenSearch: http.max_content_length; nginx: client_max_body_size"
    assert str(error.value) == (
        f"the photo '0.jpg' is not written: {index.server.url} takes no request of {sent} bytes (413):"
        f" let it, or the proxy before it, take larger ones ({limits})"
    )
    entry = {"album": "some", "member": "a.jpg", "added": "1"}
    with (
        bulks(largest=10) as (index, _),
        pytest.raises(DataError, match=r"^the photo 'a\.jpg' of the album 'some' is not written: "),
    ):
        index.write([("album-0", entry)])


def test_nothing_is_sent_for_nothing() -> None:
    PhotoIndex.at("opensearch+http://127.0.0.1:1/photos").write([])


def test_an_album_holds_no_id_with_an_end_of_line() -> None:
    """As in a folder, where an album is lines of ids; and nothing is sent."""
    albums = ServerAlbums(PhotoIndex.at("opensearch+http://127.0.0.1:1/photos"))
    for id in ("two\nlines.jpg", "two\rlines.jpg"):
        with pytest.raises(DataError, match="has an end of line in its name: no album can hold it"):
            albums.change("some", ["a.jpg", id])


FACTS = {
    **{"root": "/photos", "file": "a.jpg", "member": "", "start": None, "size": 3, "width": 1, "height": 1},
    **{"taken": None, "camera": None, "captions": [], "embedded": [], "keywords": [], "side": ""},
    **NO_TEXT,
    **{"digest": "", "fingerprint": None, "state": "", "place": None},
}


@contextmanager
def telling(answer: Any) -> Iterator[PhotoIndex]:
    """An index on a server that answers the same to all."""
    with serving(lambda *_: json.dumps(answer)) as address:
        yield PhotoIndex.at(f"opensearch+{address}/photos")


def document(**facts: Any) -> dict[str, Any]:
    return {"docs": [{"found": True, "_source": {"id": "a.jpg", "facts": {**FACTS, **facts}}}]}


@pytest.mark.parametrize(
    "facts",
    [
        {"file": "../../etc/passwd"},
        {"file": "a/../../x.jpg"},
        {"file": "/etc/passwd"},
        {"file": 7},
        {"file": "a\0.jpg"},
        {"width": -1},
        {"fingerprint": "-1"},
        {"place": [91.0, 0.0]},
        {"captions": ["a", None]},
        {"start": "x"},
        {"start": 2**63},
    ],
)
def test_a_photo_that_cannot_be_is_an_error(facts: dict[str, Any]) -> None:
    with (
        telling(document(**facts)) as index,
        pytest.raises(DataError, match="does not answer as opensearch does"),
    ):
        ServerPhotos(index).get(["a.jpg"])


@pytest.mark.parametrize("sort", [[-1, "a"], [float("nan"), "a"], [1e300, "a"], [True, "a"], ["x", "a"], [1]])
def test_a_score_that_cannot_be_is_an_error(sort: list[Any]) -> None:
    found = {"timed_out": False, "_shards": {"total": 1, "successful": 1}, "hits": {"hits": [{"sort": sort}]}}
    with telling(found) as index, pytest.raises(DataError, match="does not answer as opensearch does"):
        index.best([Scored(A_PHOTO, 1)], 1, None)


def test_another_photo_than_was_asked_for_is_an_error() -> None:
    with telling(document()) as index, pytest.raises(DataError, match="another key than its photo"):
        ServerPhotos(index).get(["b.jpg"])


def test_a_photo_is_read_below_the_folders_alone(tmp_path: Any) -> None:
    """Neither where the server says, nor where a link leads; and only the bytes that were indexed."""
    from lexlip.data.facts import digest
    from lexlip.errors import UnreadableImage

    (tmp_path / "in").mkdir()
    (tmp_path / "secret.jpg").write_bytes(b"abc")
    (tmp_path / "in" / "a.jpg").symlink_to(tmp_path / "secret.jpg")
    for root, file in ((str(tmp_path), "secret.jpg"), (None, str(tmp_path / "secret.jpg")), ("/x", "a.jpg")):
        with telling(document(root=root, file=file, digest=digest(b"abc"))) as index:
            for folders in ([], [str(tmp_path / "in")]):
                with pytest.raises(UnreadableImage):
                    ServerPhotos(index, folders).read("a.jpg")
    (tmp_path / "in" / "a.jpg").unlink()
    (tmp_path / "in" / "a.jpg").write_bytes(b"abc")
    with telling(document(digest=digest(b"abc"))) as index:
        assert ServerPhotos(index, [str(tmp_path / "in")]).read("a.jpg") == b"abc"
        (tmp_path / "in" / "a.jpg").write_bytes(b"abd")
        with pytest.raises(UnreadableImage, match="not what was indexed"):
            ServerPhotos(index, [str(tmp_path / "in")]).read("a.jpg")


@pytest.mark.parametrize(
    "answer",
    [
        {"found": True},
        {"found": True, "_source": {}, "_seq_no": 1, "_primary_term": 1},
        {"found": True, "_source": {"about": {"format": 1}}, "_seq_no": 1, "_primary_term": 1},
        {"found": True, "_source": {"about": {"format": 2, "encoder": 5}}, "_seq_no": 1, "_primary_term": 1},
        [],
        "x",
    ],
)
def test_what_an_index_says_of_itself_is_looked_at(answer: Any) -> None:
    with telling(answer) as index, pytest.raises(DataError, match="does not answer as opensearch does"):
        index.about()


def test_an_answer_of_a_part_is_an_error() -> None:
    shards = {"total": 5, "successful": 3, "failed": 2}
    part = {"timed_out": False, "_shards": shards, "hits": {"hits": []}}
    with telling(part) as index, pytest.raises(DataError, match="2 of 5 shards"):
        index.ids(A_PHOTO)


def test_an_export_is_told_from_an_index_of_photos() -> None:
    def reply(method: str, path: str, headers: Any, body: str) -> str:
        assert (method, path) == ("GET", "/photos/_doc/lexlip")
        raise Refused(404, '{"_index": "photos", "_id": "lexlip", "found": false}')

    with serving(reply) as address:
        assert not has_photos(f"opensearch+{address}/photos")
    assert not has_photos("qdrant+http://127.0.0.1:1/photos")  # which is not asked


def test_keys_are_the_same_each_time() -> None:
    assert key_of("été/1.jpg") == key_of("été/1.jpg") != key_of("été/2.jpg")
