"""The page over an index on a real server, with its photos here, elsewhere, nowhere: `make test-servers`."""

from __future__ import annotations

import base64
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from lexlip.cli.demo import PHOTOS
from lexlip.retrieval.answer import key_of
from tests.search_servers.real_index import index_of_its_own
from tests.server.page.conftest import Visit
from tests.server.page.test_real import COFFEE, HOSTILE, lexlip
from tests.server.page.test_search import DROP, expect_chips, expect_hits, search_for
from tests.server.serving import serving_server
from tests.server.test_served_server import behind

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "photos"
    shutil.copytree(PHOTOS, folder)
    (folder / "hostile").mkdir()
    for name in HOSTILE:
        shutil.copy(folder / "chelsea.jpg", folder / "hostile" / name)
    for name in ("coffee.jpg", f"hostile/{HOSTILE[0]}"):
        (folder / name).with_suffix(".txt").write_text(f"{Path(name).stem} on a <b>caption</b>\n")
    return folder


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    with index_of_its_own("opensearch") as address:
        lexlip("index", photos, "--server", address)
        yield address


@contextmanager
def another_server(photos: Path) -> Iterator[str]:
    """Give the address of a server of files."""
    handler = partial(Quiet, directory=str(photos))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


def expect_found(page: Page) -> None:
    found = page.request.get("/api/search", params={"k": 60, "q": COFFEE}).json()
    assert found["hits"][0]["id"] == "coffee.jpg"
    expect_hits(page, [hit["id"] for hit in found["hits"]])
    expect_chips(page, list(found["terms"])[:9])


def loaded(page: Page, number: int) -> None:
    expect(page.locator(".hit img.loaded")).to_have_count(number)
    widths = page.locator(".hit img").evaluate_all("images => images.map((image) => image.naturalWidth)")
    assert all(widths)


def test_photos_of_a_folder(visit: Visit, address: str, photos: Path) -> None:
    with serving_server(address, [str(photos)]) as server:
        page = visit(server.address, base_url=server.address)
        expect(page.locator(".hit")).to_have_count(len(PHOTOS_THERE) + len(HOSTILE))
        search_for(page, COFFEE)
        expect_found(page)
        loaded(page, page.locator(".hit").count())
        page.locator("[data-index='0']").click()
        expect(page.locator(".path")).to_have_text(str(photos / "coffee.jpg"))
        expect(page.locator(".actions > *")).to_have_text(
            ["similar photos", "copy path", "open original", "☆ star"]
        )
        page.locator(".cloud button", has_text="cup").first.hover()
        expect(page.locator(".heat")).to_have_class("heat on")
        page.keyboard.press("Escape")
        page.locator("[data-index='0']").focus()
        page.keyboard.press("Space")
        expect(page.locator(".does > *")).to_have_text(
            ["all that fit", "download", "contact sheet", "copy paths", "save list", "★ star", "add to album"]
        )
        with page.expect_download() as download:
            page.get_by_role("button", name="download").click()
        assert (photos / "coffee.jpg").read_bytes() in download.value.path().read_bytes()


def test_a_picture_and_a_similar_photo(visit: Visit, address: str, photos: Path) -> None:
    with serving_server(address, [str(photos)]) as server:
        page = visit(f"{server.address}?like={key_of('coffee.jpg')}", base_url=server.address)
        body = {"k": 60, "like": key_of("coffee.jpg")}
        similar = page.request.post("/api/search", data=body).json()["hits"]
        expect_hits(page, [hit["id"] for hit in similar])
        picture = base64.b64encode((photos / "chelsea.jpg").read_bytes()).decode()
        page.evaluate(DROP, ["image/jpeg", picture, "drop"])
        expect(page.locator(".given")).to_contain_text("like this picture")
        expect(page.locator("[data-index='0']")).to_be_visible()


def test_photos_of_another_server(visit: Visit, address: str, photos: Path) -> None:
    with another_server(photos) as elsewhere, serving_server(address, [f"{elsewhere}/{{id}}"]) as server:
        page = visit(f"{server.address}?q={COFFEE}", base_url=server.address)
        expect_found(page)
        loaded(page, page.locator(".hit").count())  # those with hostile names, too
        page.locator("[data-index='0']").click()
        image = page.locator("dialog figure img")
        expect(image).to_be_visible()
        page.wait_for_function("image => image.naturalWidth === 600", arg=image.element_handle())
        page.keyboard.press("Escape")
        page.locator("[data-index='0']").focus()
        page.keyboard.press("Space")
        expect(page.locator(".does > *")).to_have_text(
            ["all that fit", "copy paths", "save list", "★ star", "add to album"]
        )


def test_no_pictures(visit: Visit, address: str, photos: Path) -> None:
    with serving_server(address) as server:
        page = visit(f"{server.address}?q={COFFEE}", base_url=server.address)
        expect(page.locator(".card").first).to_contain_text("coffee on a <b>caption</b>")
        expect(page.locator(".card").first).to_contain_text(str(photos / "coffee.jpg"))
        expect(page.locator(".card").first).to_contain_text("cup")
        expect(page.locator(".hit img")).to_have_count(0)
        page.locator("[data-index='0']").click()
        expect(page.locator("figure")).to_contain_text("coffee on a <b>caption</b>")
        expect(page.locator(".actions > *")).to_have_text(["similar photos", "copy path", "☆ star"])
        page.goto(server.address)
        expect(page.locator(".card")).to_have_count(len(PHOTOS_THERE) + len(HOSTILE))
        expect(page.locator("img")).to_have_count(0)


def test_a_cluster_that_goes_and_comes_back(visit: Visit, address: str, photos: Path) -> None:
    with behind(address, str(photos)) as (between, server):
        page = visit(server.address, base_url=server.address)
        expect(page.locator(".hit").first).to_be_visible()
        between.fault = "500"
        search_for(page, COFFEE)
        expect(page.locator(".lines .wrong")).to_contain_text("answers with an error (500")
        between.fault = ""
        expect(page.locator(".lines .wrong")).to_have_count(0)
        expect_found(page)


PHOTOS_THERE = [photo for photo in Path(PHOTOS).iterdir() if photo.suffix in (".jpg", ".png")]
