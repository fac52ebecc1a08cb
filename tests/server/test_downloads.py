import base64
import io
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx2
import pytest
from PIL import Image

from anserini_bridge import read_header
from lexlip.retrieval.answer import key_of
from lexlip.retrieval.photo import Photo
from lexlip.server.access import Limits
from lexlip.server.calls import KEY
from lexlip.server.downloads import MISSING, zip_photos
from lexlip.server.served_index import DOWNLOADS
from tests.conftest import write_photos
from tests.search.indexes import Indexed, change_header, index_words
from tests.search.test_contact_sheet import Page
from tests.server.conftest import HOSTILE, TOKEN
from tests.server.serving import Serving, problem, serving, until

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def download(server: Serving, *ids: str) -> ZipFile:
    answer = server.client.post("/api/download", json={"keys": [key_of(id) for id in ids]})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="photos.zip"'
    archive = ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    return archive


def test_a_zip_holds_files_as_they_are(server: Serving, library: Indexed, tmp_path: Path) -> None:
    """Python and bsdtar or unzip read it; names are those that every system can have."""
    ids = ["0.jpg", "2014/snow/0.jpg", *HOSTILE, "0.jpg"]
    archive = download(server, *ids)
    names = archive.namelist()
    assert names[:2] == ["0.jpg", "0 (2).jpg"]
    assert len(names) == len(set(names)) == len(ids) - 1
    assert "größe 東京 🐕.jpg" in names
    for id, name in zip(ids[:-1], names, strict=True):
        assert archive.read(name) == (library.photos / id).read_bytes()
        assert not set('<>:"/\\|?*\n\u202e') & set(name)
    (tmp_path / "photos.zip").write_bytes(archive.fp.getvalue())  # type: ignore[union-attr]
    command = "import sys, shutil; shutil.unpack_archive(*sys.argv[1:])"
    subprocess.run(["python3", "-c", command, tmp_path / "photos.zip", tmp_path / "out"], check=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)


@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs unzip")
def test_unzip_reads_it(server: Serving, library: Indexed, tmp_path: Path) -> None:
    archive = download(server, "0.jpg", "1.jpg")
    (tmp_path / "photos.zip").write_bytes(archive.fp.getvalue())  # type: ignore[union-attr]
    subprocess.run(["unzip", "-q", "photos.zip"], cwd=tmp_path, check=True)
    assert (tmp_path / "1.jpg").read_bytes() == (library.photos / "1.jpg").read_bytes()
    assert (tmp_path / "1.jpg").stat().st_mode & 0o777 == 0o644


def test_a_member_of_a_zip_has_the_date_of_its_photo() -> None:
    state = "7 1000000000000000000 1"
    known = [
        (Photo("1.jpg", "1.jpg", "1.jpg", taken="2014-05-03T10:00:01", state=state), (2014, 5, 3, 10, 0, 0)),
        (Photo("a/IMG-20190704-WA0003.jpg", "2.jpg", "2.jpg", state=state), (2019, 7, 4, 0, 0, 0)),
        (Photo("3.jpg", "3.jpg", "3.jpg", state=state), time.localtime(1e9)[:6]),
        (Photo("4.jpg", "4.jpg", "4.jpg", taken="2014-13-03T10:00:00"), (1980, 1, 1, 0, 0, 0)),
        (Photo("5.jpg", "a.tar/5.jpg", "a.tar", offset=512, state=state), (1980, 1, 1, 0, 0, 0)),
    ]
    photos = {photo.id: photo for photo, _ in known}
    parts = zip_photos(photos, lambda id: (photos[id], b"x"))
    members = ZipFile(io.BytesIO(b"".join(parts))).infolist()
    assert [member.date_time for member in members] == [date for _, date in known]


def test_what_is_gone_or_changed_is_named(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    (photos / "1.jpg").unlink()
    shutil.copy(photos / "0.jpg", photos / "2.jpg")
    archive = download(server, "0.jpg", "1.jpg", "2.jpg", "never.jpg", "3.jpg")
    assert archive.namelist() == ["0.jpg", "3.jpg", MISSING]
    said = archive.read(MISSING).decode()
    assert "\n1.jpg: No such file or directory\n" in said
    assert "\n2.jpg: not what was indexed: update the index\n" in said
    assert "\nnever.jpg: not in the index any more\n" in said


def test_a_form_asks_for_the_same(server: Serving, library: Indexed) -> None:
    keys = "+".join(key_of(id) for id in ("0.jpg", "1.jpg"))
    answer = server.client.post("/api/download", content=f"keys={keys}", headers=FORM)
    with ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["0.jpg", "1.jpg"]


def sheet(server: Serving, *ids: str, query: str = "") -> Page:
    asked = {"keys": [key_of(id) for id in ids], "form": "sheet", "query": query}
    answer = server.client.post("/api/download", json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="photos.html"'
    return Page(answer.text)


def test_a_contact_sheet_holds_small_copies(server: Serving) -> None:
    query = "<script>dogs</script> & größe"
    page = sheet(server, "large.jpg", "0.jpg", *HOSTILE, "0.jpg", query=query)
    assert query in page.texts
    assert {"large.jpg", "0.jpg", "größe 東京 🐕.jpg"} < set(page.texts)
    assert not {name for name, _ in page.elements} & {"script", "link", "iframe", "base"}
    images = page.all("img")
    assert [image["alt"] for image in images] == ["large.jpg", "0.jpg", *HOSTILE]
    for image in images:
        kind, _, data = (image["src"] or "").partition(",")
        with Image.open(io.BytesIO(base64.b64decode(data))) as small:
            assert (kind, small.format, small.width <= 320) == ("data:image/webp;base64", "WEBP", True)
    form = f"keys={key_of('0.jpg')}+{key_of('1.jpg')}&form=sheet&query=d%C3%B6gs+%2Bsnow"
    page = Page(server.client.post("/api/download", content=form, headers=FORM).text)
    assert len(page.all("img")) == 2
    assert "dögs +snow" in page.texts


def test_a_contact_sheet_names_what_is_gone(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    (photos / "1.jpg").unlink()
    shutil.copy(photos / "0.jpg", photos / "2.jpg")
    page = sheet(server, "0.jpg", "1.jpg", "2.jpg", "never.jpg")
    assert [image["alt"] for image in page.all("img")] == ["0.jpg"]
    assert [text for text in page.texts if ": " in text and "{" not in text] == [
        "1.jpg: No such file or directory",
        "2.jpg: not what was indexed: update the index",
        "never.jpg: not in the index any more",
    ]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"keys": []}', "application/json", 422),
        (b'{"keys": ["?"]}', "application/json", 404),
        (b'{"photos": ["MC5qcGc"]}', "application/json", 422),
        (b"keys=", FORM["Content-Type"], 422),
        (b"", FORM["Content-Type"], 422),
        (b"\xff=\xff&&&;", FORM["Content-Type"], 422),
        (b"MC5qcGc", "text/plain", 415),
        (b'{"keys": ["MC5qcGc"], "form": "pdf"}', "application/json", 422),
        (b"keys=MC5qcGc&form=pdf", FORM["Content-Type"], 422),
        (b"keys=MC5qcGc&form=sheet&query=" + b"x" * 1001, FORM["Content-Type"], 422),
    ],
)
def test_bodies_that_are_refused(server: Serving, body: bytes, kind: str, status: int) -> None:
    problem(server.client.post("/api/download", content=body, headers={"Content-Type": kind}), status)


def test_a_body_that_is_too_long_is_refused(server: Serving) -> None:
    with httpx2.Client() as client:  # the connection is closed
        content = b"keys=" + b"x" * KEY * server.served.limits.download_photos
        problem(client.post(f"{server.client.base_url}/api/download", content=content, headers=FORM), 413)


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_pages_of_other_sites_are_refused(server: Serving, origin: str) -> None:
    headers = {**FORM, "Origin": origin}
    said = problem(server.client.post("/api/download", content="keys=MC5qcGc", headers=headers), 403)
    assert said == "this call came from a page of another site"


def test_the_token_is_needed(locked_server: Serving) -> None:
    asked = {"json": {"keys": [key_of("0.jpg")]}}
    problem(locked_server.client.post("/api/download", **asked), 401)
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert locked_server.client.post("/api/download", **asked, headers=known).content[:2] == b"PK"


def test_more_than_the_limits_is_refused(library: Indexed) -> None:
    def refused(limits: Limits, form: str = "zip") -> str:
        with serving(library.words, limits=limits) as server:
            keys = [key_of("0.jpg"), key_of("1.jpg")]
            assert server.get("/status")["limits"]["download_photos"] == limits.download_photos
            asked = {"keys": keys, "form": form}
            return problem(server.client.post("/api/download", json=asked), 413)

    assert refused(Limits(download_photos=1)) == "2 photos are wanted: at most 1 at once"
    assert refused(Limits(download_photos=1), "sheet") == "2 photos are wanted: at most 1 at once"
    assert refused(Limits(download_bytes=100)).endswith("MB: at most 0 MB at once")


def test_an_index_of_another_user_sends_nothing(tmp_path: Path, model_folder: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    index = index_words(model_folder, photos, tmp_path / "index")
    extra = read_header(index).extra
    change_header(index, extra={**extra, "seal": {**extra["seal"], "code": "0" * 64}})
    with serving(index) as server:
        answer = server.client.post("/api/download", json={"keys": [key_of("0.jpg")]})
        assert "this user has not made the index" in problem(answer, 410)


def test_downloads_have_places_of_their_own(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow ones hold up no search; one more is refused; one that is given up leaves its place."""
    go, begun, read = threading.Event(), threading.Semaphore(0), server.served._file
    asked: Any = {"method": "POST", "url": "/api/download", "json": {"keys": [key_of("0.jpg")]}}
    got: list[bytes] = []

    def slow(id: str) -> object:
        go.wait(60)
        return read(id)

    def save() -> None:
        with server.client.stream(**asked) as answer:
            begun.release()
            got.append(answer.read())

    with monkeypatch.context() as patched:
        patched.setattr(server.served, "_file", slow)
        threads = [threading.Thread(target=save) for _ in range(DOWNLOADS)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert begun.acquire(timeout=30)
        assert "busy with downloads" in problem(server.client.request(**asked), 503)
        assert server.search("dog")["hits"]
        go.set()
        for thread in threads:
            thread.join(60)
    assert len(got) == DOWNLOADS
    assert {data[:2] for data in got} == {b"PK"}
    for _ in range(2 * DOWNLOADS):
        with server.client.stream(**asked) as answer:
            assert answer.status_code == 200  # and hangs up
    until(lambda: server.client.request(**asked).status_code == 200)
