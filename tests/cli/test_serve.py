import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Run, search
from tests.conftest import ROOT, write_photos
from tests.other_engines.real_servers import with_tls
from tests.search.indexes import index_bm25, index_words
from tests.search_servers.real_index import KINDS, index_of_its_own
from tests.server.serving import until
from tests.tiny import CAPTIONS
from tools.servers import peers


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("index")
    return index_words(model_folder, write_photos(folder / "photos"), folder / "index")


@contextmanager
def started(
    index: Path | str, *options: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address; of an index in a folder, or at an address."""
    where = ["--server", index] if isinstance(index, str) else ["--index", str(index)]
    command = [sys.executable, "-m", "lexlip", "serve", *where, "--port", "0", *options]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"6 photos at (http://\S+) \(Ctrl-C ends\)", said)
        assert found is not None, said + process.communicate(timeout=120)[1]
        yield process, found[1]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_when_told_and_lets_requests_finish(index: Path, number: signal.Signals, code: int) -> None:
    with started(index) as (process, address):
        statuses: list[int] = []
        stopping = threading.Event()

        def ask() -> None:
            with httpx2.Client(base_url=address, timeout=120) as client:
                while True:
                    try:
                        statuses.append(client.get("/api/search", params={"q": "two dogs"}).status_code)
                    except httpx2.TransportError:
                        assert stopping.is_set()
                        return

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(statuses) < 40:
            time.sleep(0.02)
        stopping.set()
        process.send_signal(number)
        returned, errors = ended(process)
        for thread in threads:
            thread.join(30)
        assert returned == code
        assert set(statuses) == {200}
        assert "Traceback" not in errors
        assert ("interrupted: the server has ended" in errors) == (number is signal.SIGINT)


def test_it_ends_when_told_at_once(index: Path) -> None:
    with started(index) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")


@pytest.mark.slow
def test_its_further_process_ends_with_it(index: Path) -> None:
    with started(index) as (process, address):
        data = (index.parent / "photos" / "0.jpg").read_bytes()
        kind = {"Content-Type": "image/jpeg"}
        answer = httpx2.post(f"{address}api/search", content=data, headers=kind, timeout=120)
        assert answer.status_code == 200, answer.text
        children = [
            int(child)
            for task in Path(f"/proc/{process.pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
        assert children
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0
        until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 20)


def test_captions_are_searched_too(index: Path, lexlip: Run) -> None:
    with started(index, "--captions") as (_, address):
        found = httpx2.get(f"{address}api/search", params={"q": CAPTIONS[0]}).json()
        key = found["hits"][0]["key"]
        assert httpx2.post(f"{address}api/search", json={"like": key}).json()["hits"]
    printed = search(lexlip, CAPTIONS[0], "--index", index, "--captions")
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in printed["hits"]]


def test_options_reach_the_server(index: Path, lexlip: Run) -> None:
    """Another host, which needs a token, and limits; an answer is that of the command line."""
    said = lexlip("serve", "--index", index, "--host", "0.0.0.0", code=2).output
    assert "give a --token, or set LEXLIP_TOKEN" in said
    options = ("--max-k", "5", "--max-query", "10", "--max-upload", "0.001", "--rate", "50", "--idle", "7")
    secret = {"LEXLIP_TOKEN": "from the environment"}
    with started(index, "--host", "0.0.0.0", *options, **secret) as (_, address):
        address = f"http://127.0.0.1:{address.rstrip('/').rpartition(':')[2]}"
        assert httpx2.get(f"{address}/api/status").status_code == 401
        shown = {"Authorization": "Bearer from the environment"}
        with httpx2.Client(base_url=address, headers=shown) as client:
            status = client.get("/api/status").json()
            answers = [client.get("/api/search", params={"q": "dog", "k": k}) for k in (3, 6)]
            assert client.get("/api/search", params={"q": "more than ten"}).status_code == 422
    assert status["documents"] == 6
    limits = status["limits"]
    assert (limits["k"], limits["query"], limits["upload_bytes"]) == (5, 10, 1000)
    assert (limits["rate"], limits["idle"]) == (50, 7)
    assert [answer.status_code for answer in answers] == [200, 422]
    printed = search(lexlip, "dog", "--index", index, "-k", 3)
    for name in ("query", "terms", "hits", "unknown", "without", "cut"):
        assert answers[0].json()[name] == printed[name]


def test_a_port_that_is_taken_is_an_error_for_the_user(index: Path, lexlip: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = lexlip("serve", "--index", index, "--port", port, code=2).output
    assert f"cannot listen at 127.0.0.1, port {port} (Address already in use" in said


def test_only_an_index_of_words_is_watched(tmp_path: Path, lexlip: Run) -> None:
    index = index_bm25(write_photos(tmp_path / "captioned"), tmp_path / "captions")
    said = lexlip("serve", "--index", index, "--watch", code=2).output
    assert "--watch is for an index of words" in said


def test_no_index_is_an_error_for_the_user(tmp_path: Path, lexlip: Run) -> None:
    assert "Traceback" not in lexlip("serve", "--index", tmp_path / "none", code=2).output


CLUSTER = "opensearch+http://127.0.0.1:9/photos"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--server", CLUSTER, "--watch"),
            "--watch needs an index on this machine: leave it",
        ),
        (("--server", CLUSTER, "--index", "x"), "--index needs an index on this machine"),
        (("--server", CLUSTER, "--captions"), "--captions needs an index on this machine"),
        (("--server", CLUSTER, "--ray", "local"), "--ray needs an index on this machine"),
        (("--server", CLUSTER, "--photos", "none"), "--photos is none, which is no folder"),
        (("--server", CLUSTER, "--photos", "https://e.org/"), "says nowhere where the id of a photo comes"),
        (("--server", CLUSTER, "--photos", "https://e.org/{id}", "--photos", "."), "give that one alone"),
        (("--photos", "https://e.org/{id}"), "--photos is an address, which is for --server: give a folder"),
        (("--server", CLUSTER), "http://127.0.0.1:9 cannot be reached (Connection refused)"),
        (("--server", CLUSTER.replace("//", "//anna:secret@")), "--server holds a name or a password"),
        (("--server", CLUSTER.replace("opensearch", "vespa")), "not into vespa"),
        (("--server", "http://127.0.0.1:9/photos"), "--server names none of"),
    ],
)
def test_what_a_server_is_not_served_with(lexlip: Run, options: tuple[str, ...], says: str) -> None:
    said = lexlip("serve", "--port", "0", *options, code=2).output
    assert says in said
    assert "secret" not in said


@pytest.mark.servers
def test_an_index_on_a_server(lexlip: Run, model_folder: Path, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "library")
    with index_of_its_own("opensearch") as there:
        missing = lexlip("serve", "--server", there, "--port", "0", code=2).output
        assert f"make it with `lexlip index SOURCE --server {there}`" in missing
        lexlip("index", photos, "--server", there)
        secret = {"LEXLIP_SERVER_USER": "anna", "LEXLIP_SERVER_PASSWORD": "open sesame"}
        another = started(there)
        with pytest.raises(AssertionError, match="give the model that made it"), another:
            pass
        options = ("--model", str(model_folder), "--photos", str(photos))
        with started(there, *options, **secret) as (process, address):
            found = httpx2.get(f"{address}api/search", params={"q": CAPTIONS[0]}).json()
            key = found["hits"][0]["key"]
            photo = httpx2.get(f"{address}api/photos/{key}/original").content
            assert photo == (photos / found["hits"][0]["id"]).read_bytes()
            body = {"content": photo, "headers": {"Content-Type": "image/jpeg"}}
            alike = httpx2.post(f"{address}api/search", timeout=120, **body)  # a process of its own
            assert alike.json()["hits"][0]["key"] == key
            process.send_signal(signal.SIGTERM)
            assert ended(process) == (0, "")
        printed = search(lexlip, CAPTIONS[0], "--server", there)
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in printed["hits"]]


@pytest.mark.servers
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_on_a_server_behind_https(
    lexlip: Run, model_folder: Path, tmp_path: Path, kind: str
) -> None:
    photos = write_photos(tmp_path / "library")
    with index_of_its_own(kind) as there:
        lexlip("index", photos, "--server", there, "--model", model_folder)
        behind = peers(kind)[0].address
        with with_tls(tmp_path / "nginx", behind) as url:
            secret = {"LEXLIP_SERVER_USER": "admin", "LEXLIP_SERVER_PASSWORD": "PASSWORD"}
            secret["SSL_CERT_FILE"] = str(tmp_path / "nginx" / "root-ca.pem")
            options = ("--model", str(model_folder), "--photos", str(photos))
            place = there.replace(behind, url)
            for lacking, why in (("SSL_CERT_FILE", "SSL_CERT_FILE"), ("LEXLIP_SERVER_USER", "only one of")):
                some = started(place, *options, **{**secret, lacking: ""})
                with pytest.raises(AssertionError, match=why), some:
                    pass
            with started(place, *options, **secret) as (process, address):
                found = httpx2.get(f"{address}api/search", params={"q": CAPTIONS[0]}).json()
                key = found["hits"][0]["key"]
                photo = httpx2.get(f"{address}api/photos/{key}/original").content
                assert photo == (photos / found["hits"][0]["id"]).read_bytes()
                health = httpx2.get(f"{address}api/health").json()
                status = httpx2.get(f"{address}api/status").text
                process.send_signal(signal.SIGTERM)
                assert ended(process) == (0, "")
        assert health["status"] == "ok"
        assert "PASSWORD" not in status
        printed = search(lexlip, CAPTIONS[0], "--server", there, "--model", model_folder)
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in printed["hits"]]
