import io
import os
import shutil
import signal
from pathlib import Path

import httpx2
import pytest
from PIL import Image

from anserini_bridge import read_header
from lexlip.data import decode
from lexlip.retrieval.answer import key_of
from lexlip.retrieval.seal import folders_to_send
from lexlip.server import served_index
from lexlip.server.access import Limits
from lexlip.server.photo_files import make_thumbnail
from tests.conftest import write_photos
from tests.search.indexes import Indexed, change_header, index_words
from tests.server.conftest import HOSTILE
from tests.server.serving import Serving, problem, serving, until

PHOTO = f"/api/photos/{key_of('large.jpg')}"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_photo_is_described_and_sent_whatever_its_name(
    server: Serving, library: Indexed, name: str
) -> None:
    about = server.get(f"/photos/{key_of(name)}")
    assert about["id"] == name
    assert about["path"] == str(library.photos / name)
    assert about["captions"] == [HOSTILE[name]]
    with Image.open(library.photos / name) as photo:
        assert (about["width"], about["height"]) == photo.size
    assert about["words"]
    answer = server.client.get(f"/api/photos/{key_of(name)}/original")
    assert answer.content == (library.photos / name).read_bytes()
    assert answer.headers["content-type"] == "image/jpeg"
    place = answer.headers["content-disposition"]
    assert place.startswith("inline; filename*=UTF-8''")
    assert place.isascii()
    assert not set('<>"\n') & set(place)


@pytest.mark.parametrize("width", [320, 960])
def test_a_thumbnail_is_the_photo_made_smaller(server: Serving, library: Indexed, width: int) -> None:
    answer = server.client.get(f"{PHOTO}/thumbnail", params={"width": width})
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["cache-control"] == "private, max-age=60"
    with Image.open(io.BytesIO(answer.content)) as small:
        assert small.format == "WEBP"
        assert small.size == (width, width * 3 // 4)
    known = {"If-None-Match": answer.headers["etag"]}
    again = server.client.get(f"{PHOTO}/thumbnail", params={"width": width}, headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == answer.headers["etag"]


def test_a_browser_keeps_a_version_of_a_thumbnail(changing: tuple[Path, Serving]) -> None:
    photos, server = changing

    def shown() -> httpx2.Response:
        about = server.get(f"/photos/{key_of('0.jpg')}")
        (hit,) = [hit for hit in server.search("dog snow man", k=100)["hits"] if hit["id"] == "0.jpg"]
        assert hit["version"] == about["version"] != ""
        return server.client.get(f"/api/photos/{key_of('0.jpg')}/thumbnail", params={"v": hit["version"]})

    before = shown()
    assert before.headers["cache-control"] == "private, max-age=31536000, immutable"
    Image.open(photos / "0.jpg").rotate(30).save(photos / "0.jpg")
    server.post("/update", 202, json={})
    server.updated()
    after = shown()
    assert after.url != before.url
    assert after.headers["etag"] != before.headers["etag"]


def test_thumbnails_have_two_widths(server: Serving) -> None:
    assert "width" in problem(server.client.get(f"{PHOTO}/thumbnail", params={"width": 1000}), 422)
    small, large = (server.client.get(f"{PHOTO}/thumbnail?width={width}") for width in (320, 960))
    assert small.headers["etag"] != large.headers["etag"]


def test_the_original_is_asked_for_once(server: Serving) -> None:
    answer = server.client.get(f"{PHOTO}/original")
    again = server.client.get(f"{PHOTO}/original", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("call", ["", "/thumbnail", "/original", "/places", "/heat?word=dog"])
@pytest.mark.parametrize(
    "id",
    [
        *("/etc/passwd", "../model/config.json", "2014/../0.jpg", "./0.jpg"),
        *("0.txt", "nothing.jpg", "0.jpg\0"),
    ],
)
def test_only_photos_of_the_index_are_served(server: Serving, call: str, id: str) -> None:
    problem(server.client.get(f"/api/photos/{key_of(id)}{call}"), 404)


@pytest.mark.parametrize(
    "key", ["MC5qcGc=", "MC5qcG", "%2e%2e%2f", "..%2f..%2fetc%2fpasswd", "a" * 5000, "_w"]
)
def test_what_is_no_key_is_refused(server: Serving, key: str) -> None:
    answer = server.client.get(f"/api/photos/{key}/original")
    assert answer.status_code in (400, 404)
    problem(answer, answer.status_code)


def test_a_photo_that_is_gone_is_a_problem_of_its_own(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    (photos / "0.jpg").unlink()
    (photos / "1.jpg").write_bytes(b"<script>alert(1)</script>")
    for call in ("thumbnail", "original"):
        problem(server.client.get(f"/api/photos/{key_of('0.jpg')}/{call}"), 410)
    for call in ("thumbnail", "original", "places", "heat?word=dog"):
        answer = server.client.get(f"/api/photos/{key_of('1.jpg')}/{call}")
        assert "not what was indexed" in problem(answer, 410)
    assert server.get(f"/photos/{key_of('0.jpg')}")["id"] == "0.jpg"


def test_what_is_kept_of_a_photo_is_of_what_was_indexed(
    tmp_path: Path, model_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    one, other = ((photos / f"{number}.jpg").read_bytes() for number in range(2))
    (photos / "1.jpg").write_bytes(one)  # two photos of the same bytes
    with serving(index_words(model_folder, photos, tmp_path / "index")) as server:

        def ask(name: str, call: str = "thumbnail", **parameters: str) -> httpx2.Response:
            return server.client.get(f"/api/photos/{key_of(name)}/{call}", params=parameters)

        (photos / "0.jpg").write_bytes(other)
        version = server.get(f"/photos/{key_of('0.jpg')}")["version"]
        problem(ask("0.jpg", v=version), 410)
        assert f"not sent: {photos / '0.jpg'}: not what was indexed" in capfd.readouterr().err
        kept = ask("1.jpg", v=version)
        assert kept.content == make_thumbnail(one, 320)
        (photos / "0.jpg").write_bytes(one)
        assert ask("0.jpg", v=version).content == kept.content
        assert ask("0.jpg", "original").content == one
        for call, more in (("thumbnail", {}), ("heat", {"word": "dog"})):
            assert "max-age" in ask("0.jpg", call, v=version, **more).headers["cache-control"]
            answer = ask("0.jpg", call, v="another", **more)
            assert answer.headers["cache-control"] == "private, no-store"
        assert ask("0.jpg", "heat", word="dog").headers["cache-control"] == "private, max-age=60"


def test_a_stranger_s_index_is_searched_only(library: Indexed, tmp_path: Path) -> None:
    index = tmp_path / "index"
    shutil.copytree(library.words, index)
    extra = {name: value for name, value in read_header(index).extra.items() if name != "seal"}
    change_header(index, extra=extra)
    with serving(index) as server:
        assert server.search("dog")["hits"]
        for call in ("thumbnail", "original", "places", "heat?word=dog"):
            answer = server.client.get(f"/api/photos/{key_of('0.jpg')}/{call}")
            assert "not in a folder whose photos may be sent" in problem(answer, 410)
        assert "with SOURCE" in problem(server.client.post("/api/update", json={}), 409)
        server.served.folders = folders_to_send([str(library.photos)])
        assert server.client.get(f"/api/photos/{key_of('0.jpg')}/original").status_code == 200


def test_an_index_without_digests_sends_photos(bm25_server: Serving, library: Indexed) -> None:
    ask, address = bm25_server.client.get, f"/api/photos/{key_of('0.jpg')}"
    data = (library.photos / "0.jpg").read_bytes()
    answer = ask(f"{address}/original")
    assert answer.content == data
    again = {"If-None-Match": answer.headers["etag"]}
    assert ask(f"{address}/original", headers=again).status_code == 304
    assert ask(f"{address}/thumbnail").content == make_thumbnail(data, 320)


def test_words_have_places(server: Serving, library: Indexed, model_folder: Path) -> None:
    from lexlip.explain.word_places import places
    from lexlip.models.lexlip import LexLIP

    model = LexLIP.from_pretrained(model_folder).fold_batch_norms()
    photo = decode((library.photos / "0.jpg").read_bytes(), 960)
    expected = places(model, photo, ["dog", "snow"]).to_dict()
    told = server.get(f"/photos/{key_of('0.jpg')}/places", params={"words": "dog,snow"})
    assert told == {name: expected[name] for name in ("rows", "columns", "box", "words")}
    own = server.get(f"/photos/{key_of('0.jpg')}/places")
    assert list(own["words"]) == list(server.get(f"/photos/{key_of('0.jpg')}")["words"])[:64]
    answer = server.client.get(f"/api/photos/{key_of('0.jpg')}/places", params={"words": "zebra"})
    assert "the vocabulary has no word 'zebra'" in problem(answer, 400)


def test_a_heat_map_lies_over_the_photo(server: Serving) -> None:
    answer = server.client.get(f"{PHOTO}/heat", params={"word": "dog"})
    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as heat:
        assert (heat.mode, heat.size) == ("RGBA", (960, 720))


def test_an_index_without_words_has_no_places(dense_server: Serving) -> None:
    address = f"/api/photos/{key_of('0.jpg')}"
    for call in ("places", "heat?word=dog"):
        assert "does not know words" in problem(dense_server.client.get(f"{address}/{call}"), 409)
    assert dense_server.get(f"/photos/{key_of('0.jpg')}")["words"] == {}
    assert dense_server.client.get(f"{address}/thumbnail").status_code == 200


@pytest.mark.slow
def test_the_model_s_process_comes_back(library: Indexed, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash, and after it hung."""
    address = f"/api/photos/{key_of('0.jpg')}/heat?word=dog"
    with serving(library.words, own_process=True) as server:
        model = server.served.model
        assert server.client.get(address).status_code == 200
        pid = model.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(served_index, "LOADING", 0.1)
        assert problem(server.client.get(address), 504) == "that took more than 0.1 seconds"
        monkeypatch.undo()
        assert server.search("dog")["hits"]
        until(lambda: model.pid is None)
        with pytest.raises(RuntimeError, match="KeyError"):
            model.call("no such task")
        assert model.pid not in (None, pid)
        os.kill(model.pid or 0, signal.SIGKILL)
        until(lambda: model.pid is None)
        assert server.client.get(address).status_code == 200


def test_what_the_model_is_asked_has_its_time(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []

    def call(task: str, *arguments: object, seconds: float) -> bytes:
        asked.append((task, seconds))
        return b""

    monkeypatch.setattr(server.served.model, "call", call)
    assert server.client.get(f"/api/photos/{key_of('0.jpg')}/heat?word=dog").status_code == 200
    assert asked == [("load", 300.0), ("heat", server.served.limits.seconds)]


def test_the_model_s_process_ends_when_idle(library: Indexed) -> None:
    with serving(library.words, Limits(idle=0.2), own_process=True) as server:
        with pytest.raises(RuntimeError, match="KeyError"):
            server.served.model.call("no such task")
        until(lambda: server.served.model.pid is None)
        assert server.search("dog")["hits"]
