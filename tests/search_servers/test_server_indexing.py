"""`lexlip index --server` against real servers: `make test-servers`."""

import json
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from lexlip.data import Given, Scenes
from lexlip.errors import DataError
from lexlip.other_engines import ask
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.retrieval.given_words import TAKEN
from lexlip.search_servers import photo_index, server_indexing
from lexlip.search_servers.photo_documents import MODIFIED, NEWEST, key_of, with_facts
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.server_albums import ServerAlbums
from tests.cli.conftest import ALL, Run, as_json, error
from tests.conftest import write_photos
from tests.data.pictures import write_tar
from tests.other_engines.real_servers import asked, dying, load, place, with_tls
from tests.search_servers.real_index import COUNTS, KINDS, index_of_its_own, indexed, versions
from tools.servers import PATIENCE, peers, wait

pytestmark = pytest.mark.servers


def counts(done: dict[str, Any]) -> dict[str, int]:
    return {name: done[name] for name in COUNTS if done[name]}


def test_the_report_is_that_of_an_index_in_a_folder(lexlip: Run, photos: Path, address: str) -> None:
    for _ in range(2):  # made, and updated
        here, there = as_json(lexlip, "index", "photos"), indexed(lexlip, address)
        assert list(here) == list(there)
        for name in ("index", "postings", "megabytes", "seconds"):
            del here[name], there[name]
        assert here == there
    assert not list(Path().glob(f"*{address[-6:]}*"))


def test_renumbered_photos_stay_in_their_albums(lexlip: Run, photos: Path, address: str) -> None:
    """The first has another name and was edited, so it is not known whether the next is renamed or a copy."""
    indexed(lexlip, address)
    albums = ServerAlbums(PhotoIndex.at(address))
    albums.change("some", ["2.jpg", "5.jpg"])
    for number in reversed(range(6)):
        (photos / f"{number}.jpg").rename(photos / f"{number + 1}.jpg")
    shutil.copy(photos / "1.jpg", photos / "before.jpg")
    Scenes(1, seed=9).image(0).save(photos / "1.jpg")
    assert counts(indexed(lexlip, address)) == {"changed": 2, "moved": 5}
    assert sorted(albums.ids("some")) == ["3.jpg", "6.jpg"]


def test_an_older_index_learns_the_days_of_photos(lexlip: Run, photos: Path, address: str) -> None:
    """One in whose documents `given` has no days."""
    (photos / "0.jpg").rename(photos / "IMG_20190704.jpg")
    indexed(lexlip, address)
    index = PhotoIndex.at(address)
    about = index.described()
    about.metadata.extra[MODIFIED] = NEWEST - 1
    older = [with_facts(one, {}) for one in index.get(["IMG_20190704.jpg"])]
    for document in older:
        del document["given"][TAKEN]
    index.write([(key_of(document["id"]), document) for document in older])
    index.say(about)
    index.refresh()

    def by_day() -> list[list[str]]:
        hits = as_json(lexlip, "search", "july 2019", "--server", address)["hits"]
        return [[word for word in hit["words"] if word.startswith("taken:")] for hit in hits[:1]]

    assert by_day() in ([], [[]])
    assert counts(indexed(lexlip, address)) == {"unchanged": 6}
    assert by_day() == [["taken:july", "taken:2019"]]


def test_an_older_index_learns_the_times_of_files(lexlip: Run, photos: Path, address: str) -> None:
    """One whose documents have no `modified`."""
    indexed(lexlip, address)
    index = PhotoIndex.at(address)
    about = index.described()
    del about.metadata.extra[MODIFIED]
    known = index.get([f"{number}.jpg" for number in range(6)])
    index.write([(key_of(one["id"]), {**with_facts(one, {}), "modified": None}) for one in known])
    index.say(about)
    index.refresh()

    def found(*asked: str) -> list[str]:
        answer = as_json(lexlip, "search", ALL, "--server", address, "--file-dates", *asked)
        return sorted(hit["id"] for hit in answer["hits"])

    assert found("--after", "2014") == []
    albums = ServerAlbums(index)
    albums.change("some", ["3.jpg", "0.jpg"])
    (photos / "3.jpg").rename(photos / "moved.jpg")
    (photos / "4.txt").write_text("a new caption\n")
    assert counts(indexed(lexlip, address)) == {"unchanged": 5, "moved": 1, "described": 1}
    assert found("--after", "2014") == found() == ["0.jpg", "1.jpg", "2.jpg", "4.jpg", "5.jpg", "moved.jpg"]
    assert found("--before", "2014") == []
    assert albums.ids("some") == ["0.jpg", "moved.jpg"]
    before = versions(address)
    assert counts(indexed(lexlip, address)) == {"unchanged": 6}
    assert versions(address) == before


def test_only_what_has_changed_is_written(
    lexlip: Run, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = write_photos(tmp_path / "photos", 12)
    indexed(lexlip, address)
    before = versions(address)
    (photos / "0.txt").write_text("a new caption\n")
    Scenes(1, seed=9).image(0).save(photos / "1.jpg")
    (photos / "3.jpg").rename(photos / "moved.jpg")
    (photos / "4.jpg").unlink()
    write_photos(tmp_path / "others", 13)
    shutil.copy(tmp_path / "others" / "12.jpg", photos / "new.jpg")
    encoded = []
    taken = PhotoVectors.take_facts
    monkeypatch.setattr(PhotoVectors, "take_facts", lambda self, ids: encoded.extend(ids) or taken(self, ids))
    done = indexed(lexlip, address, "--update")
    assert counts(done) == {
        "added": 1,
        "changed": 1,
        "deleted": 1,
        "unchanged": 9,
        "moved": 1,
        "described": 1,
    }
    assert sorted(encoded) == ["1.jpg", "new.jpg"]
    after = versions(address)
    assert {id for id in before if after.get(id) == before[id]} == set(before) - {
        *("0.jpg", "1.jpg", "3.jpg", "4.jpg"),
    }
    here = as_json(lexlip, "index", "photos", "--index", "fresh")
    assert done["photos"] == here["photos"] == len(after)
    for query in ("a new caption", "caption:new dog", "dogs in snow"):
        answers = [
            json.loads(lexlip("search", query, "--json", *where).stdout)["hits"]
            for where in (("--server", address), ("--index", "fresh"))
        ]
        assert [hit["id"] for hit in answers[0]] == [hit["id"] for hit in answers[1]]


def test_https_with_an_authority_of_ones_own_a_user_and_a_password(
    lexlip: Run, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind an nginx that takes no large requests, as many do; what may not be written is left as it is."""
    write_photos(tmp_path / "photos", 12)
    for name in (ask.KEY, ask.USER, ask.PASSWORD, "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    kind, _, plain = address.partition("+")
    behind = peers(kind)[0].address
    with with_tls(tmp_path / "nginx", behind, "6k") as url:
        there = f"{kind}+{plain.replace(behind, url)}"
        how = ("index", "photos", "--server", there)
        assert error(lexlip(*how, code=2)).endswith("): name its authority's file in SSL_CERT_FILE")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nginx" / "root-ca.pem"))
        assert f"refuses to answer (401): set {ask.KEY}, or {ask.USER}" in error(lexlip(*how, code=2))
        monkeypatch.setenv(ask.USER, "admin")
        monkeypatch.setenv(ask.PASSWORD, "WRONG")
        assert "refuses this password (401" in error(lexlip(*how, code=2))
        monkeypatch.setenv(ask.PASSWORD, "PASSWORD")
        done = as_json(lexlip, *how)
        assert (done["photos"], done["index"]) == (12, there)
        assert "client intended to send too large body" in (tmp_path / "nginx" / "log.txt").read_text()
        (tmp_path / "photos" / "0.jpg").unlink()
        assert counts(as_json(lexlip, *how)) == {"deleted": 1, "unchanged": 11}
        asking = ("search", "dogs in snow", "--server")
        found = [as_json(lexlip, *asking, where)["hits"] for where in (there, address)]
        (tmp_path / "photos" / "1.txt").write_text("long " * 2000)
        said = error(lexlip(*how, code=2))
        assert said.startswith(f"the photo '1.jpg' is not written: {url} takes no request of ")
        assert "<" not in said
    assert found[0] == found[1]
    assert "PASSWORD" not in json.dumps(done)


def test_many_that_are_gone_need_prune(lexlip: Run, tmp_path: Path, address: str) -> None:
    photos = write_photos(tmp_path / "photos", 12)
    indexed(lexlip, address)
    for number in range(6):
        (photos / f"{number}.jpg").unlink()
    said = error(lexlip("index", "photos", "--server", address, code=2))
    assert said.startswith(f"6 of the 12 photos of {address} are gone, as if a disk were not mounted")
    assert len(versions(address)) == 12
    assert counts(indexed(lexlip, address, "--prune")) == {"deleted": 6, "unchanged": 6}
    assert len(versions(address)) == 6


def test_an_interrupted_run_goes_on(
    lexlip: Run, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was encoded is on the server, and is not encoded again."""
    write_photos(tmp_path / "photos", 12)
    take_facts, encoded = PhotoVectors.take_facts, []

    def interrupt(self: PhotoVectors, ids: list[str]) -> Any:
        if encoded:
            raise KeyboardInterrupt
        encoded.extend(ids)
        return take_facts(self, ids)

    monkeypatch.setattr("lexlip.queries.photo_vectors.photos_at_a_time", lambda *_: 4)
    with monkeypatch.context() as patched:
        patched.setattr(PhotoVectors, "take_facts", interrupt)
        stopped = lexlip("index", "photos", "--server", address, code=130)
    assert "what was encoded is on the server; run the same command again to go on" in stopped.stderr
    before = versions(address)
    assert sorted(before) == sorted(encoded)
    done = indexed(lexlip, address)
    assert (done["photos"], done["resumed"]) == (12, 4)
    assert "added" not in done
    after = versions(address)
    assert {id: after[id] for id in before} == before
    assert counts(indexed(lexlip, address)) == {"unchanged": 12}


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_made_and_an_empty_one_that_is_there(lexlip: Run, photos: Path, kind: str) -> None:
    """Somebody has made it, or a run that was interrupted before it wrote anything."""
    with index_of_its_own(kind, shards=1) as address:
        if kind == "opensearch":
            asked("PUT", address.partition("+")[2])
        assert indexed(lexlip, address)["photos"] == 6
        assert counts(indexed(lexlip, address)) == {"unchanged": 6}


@pytest.mark.parametrize("other", ["photos", "others"])
@pytest.mark.parametrize("at", ["make", "begin"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("lexlip")
def test_two_that_make_it_at_the_same_moment(
    photos: Path, kind: str, at: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both finish; or with other photos, one of them does, and the other writes nothing."""
    write_photos(photos.with_name("others"), 9)
    meeting, go_on = Barrier(2), getattr(PhotoIndex, at)
    monkeypatch.setattr(PhotoIndex, at, lambda self, *how: (meeting.wait(60), go_on(self, *how))[1])

    def run(folder: str) -> int | str:
        try:
            return server_indexing.index_on_server(Given((folder,)), address).photos
        except DataError as error:
            return str(error)

    with index_of_its_own(kind, shards=1) as address, ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(run, ["photos", other]))
        held = len(versions(address))
    if other == "photos":
        assert ended == [6, 6]
        return
    assert held in ended
    (said,) = (one for one in ended if isinstance(one, str))
    assert said.startswith(f"{address} was made from ")
    assert held == (6 if ended[1] == said else 9)


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_deleted_while_it_is_written(
    lexlip: Run, photos: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bulk makes another index of that name in OpenSearch, with fields of other kinds."""
    write = PhotoIndex.write
    with place(kind) as there:
        monkeypatch.setattr(PhotoIndex, "write", lambda *how: (there.delete(), write(*how)))
        address = f"{kind}+{there.url}{'/solr' * (kind == 'solr')}/{there.name}"
        said = error(lexlip("index", "photos", "--server", address, code=2))
        monkeypatch.undo()
    if kind == "opensearch":
        assert said.startswith(f"{there.url}/{there.name} was deleted while it was written")
    else:
        assert f"has no index named {there.name}" in said


def test_an_alias_is_written_through(lexlip: Run, photos: Path, address: str) -> None:
    indexed(lexlip, address)
    kind, _, url = address.partition("+")
    above, _, name = url.rpartition("/")
    if kind == "solr":
        aliases = f"{above}/admin/collections?action="
        asked("GET", f"{aliases}CREATEALIAS&name={name}-alias&collections={name}")
    else:
        asked("PUT", f"{url}/_alias/{name}-alias")
    try:
        done = indexed(lexlip, f"{address}-alias")
        assert counts(done) == {"unchanged": 6}
        assert done["megabytes"] > 0
        hits = json.loads(lexlip("search", "dogs", "--json", "--server", f"{address}-alias").stdout)["hits"]
        assert (
            hits == json.loads(lexlip("search", "dogs", "--json", "--server", address).stdout)["hits"] != []
        )
    finally:
        if kind == "solr":  # which deletes no collection that has an alias
            asked("GET", f"{aliases}DELETEALIAS&name={name}-alias")


def test_where_no_photo_has_a_place(lexlip: Run, photos: Path, address: str) -> None:
    """No advice for an index of an older version: none of a server reads no places."""
    indexed(lexlip, address)
    said = lexlip("search", "a dog near:48.1,11.6", "--server", address).stdout
    assert "no photo of this index has a known place\n" in said


def test_several_sources_and_photos_in_tars(lexlip: Run, photos: Path, address: str) -> None:
    write_tar(Path("shards/1.tar"), {f"t{file.name}": file.read_bytes() for file in photos.iterdir()})
    for names in (("photos", "shards"),) * 2:
        done = as_json(lexlip, "index", *names, "--server", address)
        assert done["photos"] == 12
    assert counts(done) == {"unchanged": 12}
    how = ("search", "two dogs in snow", "-k", 12, "--json", "--server", address)
    hits = json.loads(lexlip(*how).stdout)["hits"]
    lexlip("index", "photos", "shards")
    assert hits == json.loads(lexlip(*how[:-2]).stdout)["hits"]
    named = ("--photos", "photos", "--photos", "shards", "--copy-to", "out")
    copies = json.loads(lexlip(*how, *named).stdout)["copies"]
    assert len(copies) == len(hits) > 6


def test_a_raw_behind_a_damaged_photo(lexlip: Run, photos: Path, address: str) -> None:
    """A photo that cannot be read and hides another file of it makes place for that, now and later."""
    (photos / "0.heic").write_bytes((photos / "0.jpg").read_bytes())
    (photos / "0.jpg").write_bytes(b"\xff\xd8\xff broken")
    here = [as_json(lexlip, "index", "photos") for _ in range(2)]
    there = [indexed(lexlip, address) for _ in range(2)]
    for one, other in zip(here, there, strict=True):
        names = ("photos", "skipped", "unchanged", "added")
        assert {name: one.get(name) for name in names} == {name: other.get(name) for name in names}


def test_of_another_model_other_settings_or_other_photos(
    lexlip: Run, photos: Path, other_model: Path, address: str
) -> None:
    indexed(lexlip, address)
    held = versions(address)
    write_photos(photos.with_name("others"))
    for more, why in (
        (("photos", "--model", other_model), "was made with --model "),
        (("photos", "--topk", "5"), "was made with --topk 32, not 5: leave --topk out, or give the name of"),
        (("photos", "--quantization", "paper"), "was made with --quantization "),
        (("others",), "was made from "),
    ):
        said = error(lexlip("index", *more, "--server", address, code=2))
        assert said.startswith(f"{address} {why}")
        assert "a new index" in said
    assert versions(address) == held


@pytest.mark.parametrize("kind", KINDS)
def test_of_an_export(lexlip: Run, photos: Path, kind: str) -> None:
    """It is refused by `index`, served as ever by `search`, and has no facts."""
    with place(kind) as there:
        address = f"{kind}+{there.url}{'/solr' * (kind == 'solr')}/{there.name}"
        said = error(lexlip("index", "photos", "--update", "--server", address, code=2))
        assert said == f"there is no index {address} to update: index once without --update"
        assert "has no index named" in error(lexlip("search", "a dog", "--server", address, code=2))
        lexlip("index", "photos")
        assert load(there.export(Path(".lexlip"), Path("out"))).returncode == 0
        said = error(lexlip("index", "photos", "--server", address, code=2))
        made = "was not made by `lexlip index --server`: give the name of a new index"
        assert said == f"{address} is there and {made}"
        here, found = (
            json.loads(lexlip("search", "two dogs", "--json", *where).stdout)["hits"]
            for where in (("--content-only",), ("--server", address))
        )
        assert [hit["id"] for hit in found] == [hit["id"] for hit in here]
        refused = lexlip("search", "two dogs", "--folder", "a", "--server", address, code=2).stderr
    made = "one that `lexlip index --server` has made"
    assert f"--folder needs an index on this machine, or {made}" in refused


def test_options_that_are_for_an_index_here(lexlip: Run, photos: Path) -> None:
    for option in (
        ("--index", "x"),
        ("--anew",),
        ("--pseudo-documents", "x"),
        ("--ann", "hnsw"),
    ):
        refused = lexlip("index", "photos", *option, "--server", "opensearch+http://127.0.0.1:1/x", code=2)
        assert f"{option[0]} is for an index on this machine: leave it or --server out" in refused.stderr
    said = error(lexlip("index", "photos", "--server", "qdrant+http://h/x", code=2))
    assert said.startswith("photos are indexed into opensearch or solr, not into qdrant")


def test_a_photo_that_the_server_refuses(
    lexlip: Run, photos: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written stays, and the next run goes on; OpenSearch writes the others of its bulk."""
    monkeypatch.setattr(photo_index, "WAITS", ())
    documents = server_indexing.documents

    def broken(*given: Any) -> Iterator[Any]:
        for key, document in documents(*given):
            yield key, {**document, "taken": {"no": "date"}} if document["id"] == "2.jpg" else document

    with monkeypatch.context() as patched:
        patched.setattr(server_indexing, "documents", broken)
        said = error(lexlip("index", "photos", "--server", address, code=2))
    kind = address.partition("+")[0]
    reasons = {
        "opensearch": "OpenSearch refuses a photo (",
        "solr": "Unknown operation for the an atomic update: no)",
    }
    assert reasons[kind] in said
    held = len(versions(address))
    assert held == 5 if kind == "opensearch" else held < 6
    done = indexed(lexlip, address)
    assert (done["photos"], done["resumed"]) == (6, held)


def whole(address: str) -> None:
    """Wait until all shards answer: a node that has started opens them one after another."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            versions(address)
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_node_that_dies_while_photos_are_written(
    lexlip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, replicas: int
) -> None:
    """With replicas the run goes on; without them it ends with a sentence, and the next one completes it."""
    write_photos(tmp_path / "photos", 48)
    ids = sorted(file.name for file in (tmp_path / "photos").glob("*.jpg"))
    monkeypatch.setattr(photo_index, "AT_ONCE", 4)
    monkeypatch.setattr("lexlip.queries.photo_vectors.photos_at_a_time", lambda *_: 4)
    with index_of_its_own(kind, shards=3, replicas=replicas) as address, dying(peers(kind)[-1]) as node:
        write, held = photo_index.PhotoIndex.write, []

        def killing(self: Any, actions: Any) -> None:
            write(self, actions)
            held.extend(key for key, _ in actions)
            if node.pid() is not None and len(held) > 12:
                if replicas and kind == "opensearch":  # a copy that is still being made would be lost
                    there = ask.Server.of(address)
                    asked("GET", f"{there.url}/_cluster/health/{there.index}?wait_for_status=green")
                node.end(signal.SIGKILL)

        with monkeypatch.context() as patched:
            patched.setattr(photo_index.PhotoIndex, "write", killing)
            if replicas:
                assert indexed(lexlip, address)["photos"] == 48
            else:
                patched.setattr(photo_index, "WAITS", (1,))
                *_, said = lexlip("index", "photos", "--server", address, code=2).stderr.splitlines()
                assert said.startswith("Error: http://127.0.0.1:")  # after what is waited for
        assert node.pid() is None
        if replicas:
            assert sorted(versions(address)) == ids
        node.start()
        wait(peers(kind))
        whole(address)
        done = indexed(lexlip, address)
        assert done["photos"] == 48
        if replicas:
            assert counts(done) == {"unchanged": 48}
        else:
            assert 12 <= done["resumed"] < 48
        assert sorted(versions(address)) == ids
        lexlip("index", "photos")
        here, there = (
            json.loads(lexlip("search", "two dogs in snow", "-k", 48, "--json", *where).stdout)["hits"]
            for where in ((), ("--server", address))
        )
        assert there == here
