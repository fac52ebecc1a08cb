from pathlib import Path

import pytest
from PIL import Image

from lexlip.data import open_source
from lexlip.indexing.update import update_photos
from tests.conftest import write_photos
from tests.search.indexes import Indexed
from tests.server.conftest import indexed_now
from tests.server.serving import Serving, problem, serving, until


def ids(server: Serving) -> set[str]:
    return {hit["id"] for hit in server.search("dog snow man cat boat", k=1000)["hits"]}


def test_health(server: Serving) -> None:
    assert server.get("/health") == {"status": "ok"}


def test_the_status_says_what_is_served(server: Serving, library: Indexed) -> None:
    status = server.get("/status")
    assert status["index"] == str(library.words)
    assert status["documents"] == 19
    assert status["kind"] == "impact"
    assert status["words"] is True
    assert status["limits"]["k"] == 1000
    assert status["update"] == {"running": False, "done": 0, "total": 0, "message": ""}


def test_an_update_is_found_without_a_restart(tmp_path: Path, model_folder: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    index = indexed_now(model_folder, photos, photos / "index")  # inside the photos: the hardest place
    with serving(index) as server:
        before = server.get("/status")
        server.client.get(f"/api/photos/{server.search('dog')['hits'][0]['key']}/thumbnail")
        Image.open(photos / "0.jpg").rotate(20).save(photos / "new.jpg")
        answer = server.post("/update", 202, json={})
        assert answer["update"]["running"]
        assert server.updated().startswith("1 added, 6 unchanged")
        assert server.get("/status")["update"]["done"] == server.get("/status")["update"]["total"] == 1
        assert "new.jpg" in ids(server)
        after = server.get("/status")
        assert after["snapshot"] != before["snapshot"]
        assert after["documents"] == 7


@pytest.mark.slow
def test_photos_that_come_and_go_are_seen_while_watching(tmp_path: Path, model_folder: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    index = indexed_now(model_folder, photos, photos / "index", include=(".private/",))
    with serving(index, watch=True) as server:
        until(lambda: "unchanged" in server.get("/status")["update"]["message"])
        (photos / ".private").mkdir()
        Image.open(photos / "0.jpg").rotate(10).save(photos / ".private" / "new.jpg")
        until(lambda: ".private/new.jpg" in ids(server))
        (photos / "deeper").mkdir()
        Image.open(photos / "0.jpg").rotate(20).save(photos / "deeper" / "new.jpg")
        until(lambda: "deeper/new.jpg" in ids(server))
        (photos / "1.jpg").unlink()
        until(lambda: "1.jpg" not in ids(server))
        server.updated()
        quiet = server.get("/status")
        key = server.search("dog")["hits"][0]["key"]
        assert server.client.get(f"/api/photos/{key}/thumbnail").status_code == 200
        assert server.get("/status")["update"] == quiet["update"]  # its own thumbnails do not wake it


def test_a_commit_of_another_program_is_found(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    (photos / "2.jpg").unlink()
    update_photos(open_source(photos), 1e9, server.served.index, workers=0)
    until(lambda: "2.jpg" not in ids(server))


def test_a_folder_that_is_gone_is_no_reason_to_delete_photos(
    changing: tuple[Path, Serving], tmp_path: Path
) -> None:
    photos, server = changing
    photos.rename(tmp_path / "elsewhere")
    server.post("/update", 202, json={})
    assert "does not exist" in server.updated()
    assert server.get("/status")["documents"] == 6


def test_many_photos_that_are_gone_are_asked_about(changing: tuple[Path, Serving]) -> None:
    photos, server = changing
    for number in range(5):
        (photos / f"{number}.jpg").unlink()
    server.post("/update", 202, json={})
    assert "5 of the 6 photos" in server.updated()
    assert server.get("/status")["documents"] == 6
    server.post("/update", 202, json={"prune": True})
    assert server.updated().startswith("5 deleted, 1 unchanged")
    assert server.get("/status")["documents"] == 1


def test_an_index_of_vectors_is_not_updated(dense_server: Serving) -> None:
    answer = dense_server.client.post("/api/update", json={})
    assert "only an index of words can be updated" in problem(answer, 409)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b'{"prune": 3}', "application/json", 422),
        (b'{"purne": true}', "application/json", 422),
        (b"[]", "application/json", 422),
        (b" " * 10_001, "application/json", 413),
    ],
)
def test_an_update_is_asked_for_in_json(server: Serving, body: bytes, kind: str, status: int) -> None:
    problem(server.client.post("/api/update", content=body, headers={"Content-Type": kind}), status)
    assert not server.get("/status")["update"]["running"]
