"""The page in front of `lexlip serve` itself: the packaged model on real photos, with names that attack."""

from __future__ import annotations

import shlex
import shutil
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import APIResponse, Page, expect

from lexlip.cli import main
from lexlip.cli.demo import PHOTOS
from tests.server.page.conftest import WIDTHS, Visit
from tests.server.page.test_accessibility import SERIOUS
from tests.server.page.test_photo import brightness
from tests.server.page.test_search import DROP, asked, expect_chips, expect_hits, search_for, shown, until
from tests.server.serving import serving

HOSTILE = [
    "<img src=x onerror=alert(1)>.jpg",
    "\"onmouseover='alert(1)'.jpg",
    "\u202egpj.live\u202c.jpg",
    "two\nlines.jpg",
]
COFFEE = "a cup of coffee on a table"


def lexlip(*command: str | Path) -> None:
    done = CliRunner().invoke(main, list(map(str, command)))
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "photos"
    shutil.copytree(PHOTOS, folder)
    (folder / "hostile").mkdir()
    for name in HOSTILE:
        with Image.open(folder / "chelsea.jpg") as cat:
            cat.rotate(len(name)).save(folder / "hostile" / name, "JPEG")
    for photo in (folder / "coffee.jpg", folder / "rocket.jpg", folder / "hostile" / HOSTILE[0]):
        photo.with_suffix(".txt").write_text(f"{photo.stem} on a <b>caption</b>\n")
    return folder


@pytest.fixture(scope="module")
def index(photos: Path) -> Path:
    lexlip("index", photos, "--topk", "32", "--workers", 0, "--index", photos.parent / "index")
    return photos.parent / "index"


@pytest.fixture(scope="module")
def real(index: Path) -> Iterator[str]:
    with serving(index) as server:
        yield server.address


def answer(page: Page, **given: Any) -> dict[str, Any]:
    """What the API answers."""
    found: dict[str, Any] = page.request.get("/api/search", params={"k": 60, **given}).json()
    return found


@pytest.mark.parametrize("width", [360, 1440])
def test_a_sentence(visit: Visit, real: str, width: int) -> None:
    page = visit(real, width, base_url=real)
    expect(page.locator(".welcome li").first).to_be_visible()
    search_for(page, COFFEE)
    expected = answer(page, q=COFFEE)
    assert expected["hits"][0]["id"] == "coffee.jpg"
    expect_hits(page, [hit["id"] for hit in expected["hits"]])
    expect_chips(page, list(expected["terms"])[: 5 if width == 360 else 9])
    assert page.locator(".suggestions button").all_inner_texts() == expected["suggestions"]
    expect(page.locator("[data-index='0'] img")).to_have_class("loaded")
    ratio = page.locator("[data-index='0'] img").evaluate("image => image.naturalWidth / image.naturalHeight")
    assert ratio == pytest.approx(600 / 400, rel=0.02)


def test_a_photo_by_its_name(visit: Visit, real: str) -> None:
    page = visit(f"{real}?q=chelsea", base_url=real)
    first = answer(page, q="chelsea")["hits"][0]
    assert (first["id"], next(iter(first["words"]))) == ("chelsea.jpg", "name:chelsea")
    assert not any(
        ":" in word for hit in answer(page, q="chelsea", content_only=True)["hits"] for word in hit["words"]
    )
    expect(page.locator("[data-index='0'] .why")).to_contain_text("name:chelsea")
    expect(page.locator(".unknown")).to_have_count(0)
    page.locator("[data-index='0']").click()
    table = page.locator("dialog table")
    expect(table.locator("tbody tr").first).to_have_text(f"name:chelsea{first['words']['name:chelsea']:.3f}")
    expect(table.locator("tfoot td")).to_have_text(f"{first['score']:.3f}")


def test_a_name_that_no_photo_has(visit: Visit, real: str) -> None:
    page = visit(f"{real}?q=two dogs name:nosuch", base_url=real)
    expect(page.locator(".none li")).to_have_text("No photo has 'nosuch' in its name.")


def test_a_photo_its_words_and_where_they_are(visit: Visit, real: str, photos: Path) -> None:
    page = visit(f"{real}?q={COFFEE}", base_url=real)
    page.locator("[data-index='0']").click()
    key = asked(page)["photo"][0]
    words = page.request.get(f"/api/photos/{key}").json()["words"]
    expect(page.locator(".cloud button")).to_have_text(list(words))
    expect(page.locator(".path")).to_have_text(str(photos / "coffee.jpg"))
    expect(page.locator("dd").first).to_have_text("coffee on a <b>caption</b>")
    score = answer(page, q=COFFEE)["hits"][0]["score"]
    assert float(page.locator("tfoot td").inner_text()) == pytest.approx(score, abs=0.002)

    page.locator(".cloud button", has_text="cup").first.hover()
    expect(page.locator(".heat")).to_have_class("heat on")
    found = brightness(page, 8)
    places = page.request.get(f"/api/photos/{key}/places", params={"words": "cup"}).json()
    given = places["words"]["cup"]
    flat = [value for row in found for value in row]
    assert (places["rows"], places["columns"]) == (8, 8)
    assert max(range(64), key=flat.__getitem__) == max(range(64), key=given.__getitem__)


def test_a_picture_finds_itself(visit: Visit, real: str, photos: Path) -> None:
    page = visit(real, base_url=real)
    expect(page.locator(".welcome li").first).to_be_visible()
    page.get_by_label("search with a picture", exact=True).set_input_files(photos / "coffee.jpg")
    expect(page.locator(".hit").first).to_be_visible()
    expect_hits(page, ["coffee.jpg"], 1)
    terms = asked(page)["terms"]
    assert len(page.url) < 300
    found = shown(page, 9)
    page.reload()
    expect_hits(page, found, 9)  # by all words
    again = visit(f"{real}?{page.url.partition('?')[2]}", base_url=real)
    expect_hits(again, ["coffee.jpg"], 1)
    assert asked(again)["terms"] == terms
    page.evaluate(DROP, ["image/png", "AAAA", "drop"])
    expect(page.locator(".wrong")).to_be_visible()


def test_similar_photos(visit: Visit, real: str) -> None:
    page = visit(f"{real}?q={COFFEE}", base_url=real)
    page.locator("[data-index='0']").click()
    page.get_by_role("link", name="similar photos").click()
    like = asked(page)["like"][0]
    body, own = {"like": like, "k": 60}, {"Origin": real.rstrip("/")}
    found = page.request.post("/api/search", data=body, headers=own)
    expect_hits(page, [hit["id"] for hit in found.json()["hits"]])
    chip = page.locator("[data-word]").first
    chip.press("Delete")
    expect(chip.or_(page.locator(".chip.remove")).first).to_be_visible()
    until(page, lambda: asked(page).get("terms"))
    expect(page.locator(".hit").first).to_be_visible()


def test_names_that_attack(visit: Visit, real: str, photos: Path) -> None:
    page = visit(f"{real}?q=a+cat&folder=hostile", base_url=real)
    expect(page.locator(".hit")).to_have_count(len(HOSTILE))
    page.locator("[data-index='0']").click()
    path, seen = page.locator(".path bdi"), set()
    for _ in HOSTILE:
        until(page, lambda: path.count() and path.evaluate("node => node.textContent") not in seen)
        seen.add(path.evaluate("node => node.textContent"))
        page.keyboard.press("ArrowRight")
    assert seen == {str(photos / "hostile" / name) for name in HOSTILE}
    assert page.locator("img[src=x], dd b").count() == 0


def test_an_index_of_captions(visit: Visit, photos: Path) -> None:
    folder = photos.parent / "bm25"
    lexlip("index", photos, "--model", "bm25", "--index", folder)
    with serving(folder) as server:
        page = visit(f"{server.address}?q=coffee+caption", base_url=server.address)
        expect_hits(page, [hit["id"] for hit in answer(page, q="coffee caption")["hits"]])
        expect(page.locator(".chips")).to_have_count(0)
        page.locator("[data-index='0']").click()
        expect(page.locator(".path")).to_have_text(str(photos / "coffee.jpg"))
        expect(page.locator(".cloud")).to_have_count(0)


def asked_by_curl(page: Page, command: str) -> APIResponse:
    """Ask what a command of curl asks."""
    parser = ArgumentParser()
    parser.add_argument("url")
    for option in ("-o", "-H", "-d", "--data-binary"):
        parser.add_argument(option)
    given = parser.parse_args(shlex.split(command.removeprefix("curl ")))
    headers = dict([given.H.split(": ")]) if given.H else {}
    photo = given.data_binary and PHOTOS / given.data_binary.replace("@photo", "coffee")
    data = photo.read_bytes() if photo else given.d
    return page.request.fetch(
        given.url, method="POST" if data else "GET", data=data, headers=headers, timeout=120_000
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_the_api_s_own_page(visit: Visit, real: str, width: int) -> None:
    page = visit(f"{real}docs", width)
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.reload()
    calls = page.request.get(f"{real}api/openapi.json").json()["paths"]
    expect(page.locator("nav a")).to_have_count(sum(map(len, calls.values())))
    assert loaded
    assert [url for url in loaded if not url.startswith(real)] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    serious = [found for found in Axe().run(page).response["violations"] if found["impact"] in SERIOUS]
    assert not serious

    page.locator("nav a", has_text="/api/words").click()
    expect(page.locator("#get-api-words")).to_be_in_viewport()


def test_what_the_api_s_own_page_says(
    visit: Visit, real: str, towns_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(towns_home))
    page = visit(f"{real}docs")
    said = page.locator("#get-api-search").inner_text()
    for text in (
        "from 1, default 50",
        "Hits of one answer.",
        "hits[].score",
        "object of number",
        "Problems: 4",
    ):
        assert text in said
    examples = "\n".join(page.locator("section pre").all_inner_texts()).splitlines()
    assert len(examples) == page.locator("nav a").count() + 1  # a photo is searched by words, or by a picture
    answers = {command: asked_by_curl(page, command).status for command in examples}
    assert {command for command, status in answers.items() if status not in (200, 202)} == set()
