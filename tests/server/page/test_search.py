"""Asking: sentences, pictures, similar photos, filters, and the address that holds it all."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page, Route, expect

from lexlip.queries.query_language import FIELDS, parse_query
from lexlip.server.application import PAGE
from tests.server.page.conftest import WIDTHS, Visit
from tests.server.page.stand_in import Collection, key_of

DROP = """([kind, data, event]) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const file = new File([bytes], "picture.png", { type: kind });
    const transfer = new DataTransfer();
    transfer.items.add(file);
    const options = { bubbles: true, cancelable: true };
    document.body.dispatchEvent(event === "paste"
        ? new ClipboardEvent("paste", { ...options, clipboardData: transfer })
        : new DragEvent(event, { ...options, dataTransfer: transfer }));
}"""


def picture() -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (30, 20), "tomato").save(buffer, "PNG")
    return buffer.getvalue()


def asked(page: Page) -> dict[str, list[str]]:
    """What the address bar holds."""
    return parse_qs(urlsplit(page.url).query)


def search_for(page: Page, text: str) -> None:
    page.get_by_role("searchbox").fill(text)
    page.keyboard.press("Enter")


def ids(collection: Collection, **given: object) -> list[str]:
    return [hit["id"] for hit in collection.search({"k": 60, **given})["hits"]]


def until(page: Page, is_so: Callable[[], object]) -> None:
    """Wait for something; the page itself may not evaluate strings."""
    for _ in range(1000):
        if is_so():
            return
        page.wait_for_timeout(20)
    raise AssertionError("it did not come")


def wheel_to(page: Page, place: int) -> None:
    """Turn the wheel until the page rests beyond a place; it first ends where its hits end so far."""
    rests_at = -1

    def rests_beyond() -> bool:
        nonlocal rests_at
        before, rests_at = rests_at, page.evaluate("scrollY")
        if rests_at != before:
            return False
        if rests_at <= place:
            page.mouse.wheel(0, 400)
        return rests_at > place

    until(page, rests_beyond)


def shown(page: Page, number: int = 3) -> list[str]:
    """Ids of the first hits, read from the addresses of their pictures."""
    keys = page.locator(".hit img").evaluate_all(
        "images => images.sort((a, b) => a.parentNode.dataset.index - b.parentNode.dataset.index)"
        ".map((image) => image.getAttribute('src')?.split('/')[2] ?? '')"
    )
    return [base64.urlsafe_b64decode(key + "==").decode() for key in keys[:number]]


def expect_hits(page: Page, expected: list[str], number: int = 3) -> None:
    """Wait until these are the first hits."""
    try:
        until(page, lambda: shown(page, number) == expected[:number])
    except AssertionError:
        assert shown(page, number) == expected[:number]


def expect_chips(page: Page, expected: list[str]) -> None:
    """Wait until these are the query's words."""
    expect(page.locator("[data-word] .text")).to_have_text(expected)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sentence_finds_photos(visit: Visit, site: str, collection: Collection, width: int) -> None:
    page = visit(site, width)
    search_for(page, "dog in the snow")
    expect(page.locator("[data-word=snow]")).to_be_visible()
    expect_chips(page, ["dog", "snow"])
    assert asked(page) == {"q": ["dog in the snow"]}
    expect_hits(page, ids(collection, q="dog in the snow"))
    assert page.title() == "dog in the snow · LexLIP"
    expect(page.locator("[aria-live=polite]")).to_have_text(re.compile("^(the first 60|100) photos$"))
    expect(page.locator("[data-index='0'] img")).to_have_attribute("alt", "dog 62 %, snow 38 %")


def test_one_can_type_before_the_page_and_its_data_have_come(visit: Visit, site: str) -> None:
    page = visit("about:blank")
    held: dict[str, Route] = {}
    for some in ("app.js", "/api/"):
        page.route(re.compile(some), lambda route: held.update({route.request.url: route}), times=4)
    page.goto(site, wait_until="commit")
    field = page.get_by_role("searchbox")
    expect(field).to_be_focused()
    page.keyboard.type("dog sn")
    until(page, lambda: held)
    assert [url for url in held if "/api/" in url] == []
    held.pop(f"{site}app.js").continue_()
    expect(page.get_by_role("heading", level=1)).to_have_text("Photos, found by what is on them")
    until(page, lambda: len(held) == 4)  # the status, the facets, the telling words, the months
    expect(field).to_be_focused()
    page.keyboard.type("ow")
    expect(field).to_have_value("dog snow")
    for route in held.values():
        route.continue_()
    page.keyboard.press("Enter")
    expect(page.locator("[data-word=snow]")).to_be_visible()
    assert asked(page) == {"q": ["dog snow"]}


def test_enter_in_an_emptied_field_is_the_start(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog&folder=garden&sort=date")
    field = page.get_by_role("searchbox")
    expect(field).to_be_focused()
    expect(field).to_have_value("dog")
    expect(page.locator(".hit").first).to_be_visible()
    field.fill(" ")
    page.keyboard.press("Enter")
    expect(page.locator(".welcome")).to_be_visible()
    assert asked(page) == {"sort": ["date"]}
    page.keyboard.press("Enter")  # there was nothing to empty
    page.go_back()
    expect(page.locator(".hit").first).to_be_visible()
    expect(field).to_have_value("dog")


def test_photos_keep_their_shape(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    expect(page.locator(".hit").first).to_be_visible()
    boxes = page.locator(".hit").evaluate_all(
        "hits => hits.map((hit) => [hit.firstElementChild.dataset.index, hit.offsetWidth / hit.offsetHeight])"
    )
    hits = collection.search({"q": "dog", "k": 60})["hits"]
    assert len(boxes) > 20
    for index, ratio in boxes:
        hit = hits[int(index)]
        expected = hit["width"] / hit["height"] if hit["height"] else 4 / 3
        assert ratio == pytest.approx(expected, rel=0.02)


def test_the_first_visit_shows_telling_words(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(site)
    expect(page.get_by_role("heading", level=1)).to_have_text("100 photos, found by what is on them")
    telling = [word["word"] for word in collection.telling(24)["words"]]
    expect(page.locator(".welcome li bdi")).to_have_text(telling)
    page.get_by_role("link", name="sled").click()
    expect(page.locator("[data-word=sled]")).to_be_visible()
    assert asked(page) == {"q": ["sled"]}


def test_a_shared_address_opened_anew_shows_the_same(visit: Visit, site: str, collection: Collection) -> None:
    address = "?q=dog+snow&folder=garden&after=2015&adjust=-sled&adjust=play%5E2&sort=date"
    page = visit(site + address)
    page_of: dict[str, object] = {"q": "dog snow", "folder": "garden", "after": "2015", "sort": "date"}
    expect_hits(page, ids(collection, adjust=["-sled", "play^2"], **page_of))
    expect(page.get_by_role("searchbox")).to_have_value("dog snow")
    expect(page.locator("[data-filter=dates]")).to_have_text("since 2015")
    expect(page.locator("[data-filter=folder]")).to_have_text("folder: garden")
    expect(page.get_by_label("sort")).to_have_value("date")
    expect(page.locator("[data-word=sled]")).to_have_class("chip exclude")


def test_back_and_forward(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog")
    expect(page.locator(".hit").first).to_be_visible()
    page.get_by_role("button", name="sled").click()
    expect(page.locator("[data-word=sled]")).to_be_visible()
    search_for(page, "beach")
    expect(page.locator("[data-word=beach]")).to_be_visible()
    page.go_back()
    expect(page.locator("[data-word=sled]")).to_be_visible()
    assert asked(page) == {"q": ["dog"], "adjust": ["+sled"]}
    page.go_back()
    expect(page.locator("[data-word=sled]")).to_have_count(0)
    expect_chips(page, ["dog"])
    page.go_forward()
    page.go_forward()
    expect(page.locator("[data-word=beach]")).to_be_visible()
    expect(page.get_by_role("searchbox")).to_have_value("beach")


def test_back_returns_to_the_place_in_the_list(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog", 360)
    expect(page.locator(".hit").first).to_be_visible()
    wheel_to(page, 1400)
    place = page.evaluate("scrollY")
    page.evaluate("document.querySelector('.home').click()")
    expect(page.locator(".welcome")).to_be_visible()
    page.go_back()
    expect(page.locator(".hit").first).to_be_attached()
    until(page, lambda: abs(page.evaluate("scrollY") - place) < 2)


@pytest.mark.parametrize("way", ["chosen", "drop", "paste"])
def test_a_picture_from_outside(
    visit: Visit, site: str, collection: Collection, tmp_path: Path, way: str
) -> None:
    page = visit(site)
    expect(page.locator(".welcome")).to_be_visible()
    if way == "chosen":
        (tmp_path / "picture.png").write_bytes(picture())
        page.get_by_label("search with a picture", exact=True).set_input_files(tmp_path / "picture.png")
    else:
        data = base64.b64encode(picture()).decode()
        if way == "drop":
            page.evaluate(DROP, ["image/png", data, "dragenter"])
            expect(page.locator(".drop")).to_be_visible()
        page.evaluate(DROP, ["image/png", data, way])
    expect(page.locator(".given img")).to_have_js_property("naturalWidth", 30)
    words = list(collection.postings)
    expect_chips(page, [words[30 % len(words)], words[20 % len(words)]])
    expect(page.locator(".drop")).to_have_count(0)
    found = shown(page)
    assert any(call.startswith("POST") for call in collection.asked)

    again = visit(page.url)  # in another tab, which does not have the picture
    expect_hits(again, found)
    expect_chips(again, page.locator("[data-word] .text").all_inner_texts())


def test_a_picture_may_have_no_type_and_be_gone_later(
    visit: Visit, site: str, collection: Collection, tmp_path: Path
) -> None:
    """Most browsers know no type of HEIC; and all read a file once it is sent, which may be again."""
    page = visit(site)
    expect(page.locator(".welcome")).to_be_visible()
    file = tmp_path / "picture.unknown"
    file.write_bytes(picture())
    page.get_by_label("search with a picture", exact=True).set_input_files(file)
    expect(page.locator(".given img")).to_have_js_property("naturalWidth", 30)
    file.unlink()
    page.get_by_label("sort").select_option("date")
    until(page, lambda: sum(call.startswith("POST") for call in collection.asked) == 2)
    expect(page.locator(".waiting")).to_have_count(0)
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator(".wrong")).to_have_count(0)
    assert asked(page)["sort"] == ["date"]


def test_what_is_dropped_but_no_picture_is_said(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog")
    expect(page.locator(".hit").first).to_be_visible()
    page.evaluate(DROP, ["text/plain", "aGVsbG8=", "drop"])
    expect(page.get_by_role("status").first).to_contain_text("this is not a picture")
    assert asked(page) == {"q": ["dog"]}


def test_similar_photos_and_their_words(visit: Visit, site: str, collection: Collection) -> None:
    key = key_of(collection.photos[6].id)
    page = visit(f"{site}?q=dog&photo={key}")
    page.get_by_role("link", name="similar photos").click()
    expect(page.locator(".given")).to_contain_text("similar to this photo")
    assert asked(page) == {"like": [key]}
    expect_hits(page, ids(collection, like=key))
    page.locator("[data-word=dog]").press("Delete")
    expect(page.locator("[data-word=dog]")).to_have_class("chip remove")
    terms = {word: weight for word, weight in collection.photos[6].words.items() if word != "dog"}
    expect_hits(page, ids(collection, terms=terms))
    page.reload()
    expect_hits(page, ids(collection, terms=terms))
    page.get_by_role("button", name="search without it").click()
    expect(page.locator(".welcome")).to_be_visible()


def test_filters(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog", 768)
    page.locator("[data-filter=folder]").click()
    page.get_by_role("treeitem", name="holidays, 66 photos").press("ArrowRight")
    page.get_by_role("treeitem", name="2014, 33 photos").locator(".row").click()
    expect(page.locator("[data-filter=folder]")).to_have_text("folder: holidays/2014")
    page.locator("[data-filter=dates]").click()
    page.get_by_role("button", name="2016", exact=True).click()
    expect(page.locator("[data-filter=dates]")).to_have_text("2016")
    assert asked(page) == {"q": ["dog"], "folder": ["holidays/2014"], "after": ["2016"], "before": ["2016"]}
    expect_hits(page, ids(collection, q="dog", folder="holidays/2014", after="2016", before="2016"), 2)

    page.locator("[data-filter=dates]").click()
    page.get_by_label("from").fill("2014-02")
    page.get_by_label("to", exact=True).fill("")
    page.keyboard.press("Enter")
    expect(page.locator("[data-filter=dates]")).to_have_text("since 2014-02")
    page.get_by_label("sort").select_option("by date")
    expect(page.get_by_label("sort")).to_have_value("date")
    expect_hits(page, ids(collection, q="dog", folder="holidays/2014", after="2014-02", sort="date"))

    page.get_by_label("words of captions").fill("caption 4")
    page.keyboard.press("Enter")
    expect(page.locator(".hit")).to_have_count(1)


def test_the_nearest_first(visit: Visit, site: str, collection: Collection) -> None:
    for number, photo in enumerate(collection.photos[:40]):
        photo.place = (45 + number * 7 % 40 / 100, 5)
    page = visit(f"{site}?q=dog&sort=place")
    expect_hits(page, ids(collection, q="dog"))  # there is no place to be near to
    expect(page.get_by_label("sort").locator("option")).to_have_text(["by match", "by date"])
    search_for(page, "dog near:45.2,5")
    page.get_by_label("sort").select_option("nearest first")
    expect_hits(page, found := ids(collection, q="dog near:45.2,5", sort="place"), 10)
    assert found != ids(collection, q="dog near:45.2,5")
    page.go_back()
    expect_hits(page, ids(collection, q="dog near:45.2,5"))
    page.go_forward()
    expect(page.get_by_label("sort")).to_have_value("place")
    search_for(page, "snow")  # near nothing
    expect_hits(page, ids(collection, q="snow"))
    assert asked(page) == {"q": ["snow"]}
    page.goto(f"{site}?q=snow&near=45.3,5&within=4km&sort=place")
    expect_hits(page, ids(collection, q="snow", near="45.3,5", within="4km", sort="place"))


def test_the_page_is_small(visit: Visit, site: str) -> None:
    """All files that it loads, without thumbnails; a server that compresses sends a third of it."""
    page = visit(f"{site}?q=dog&photo={key_of('garden/00000.jpg')}")
    expect(page.locator(".cloud button").first).to_be_visible()
    sizes = page.evaluate(
        "performance.getEntriesByType('resource').filter(({ name }) => !name.includes('/api/'))"
        ".map(({ decodedBodySize }) => decodedBodySize)"
    )
    assert len(sizes) > 10
    assert sum(sizes) < 156_000
    kinds = (".js", ".css", ".html", ".svg")
    asked_for = ("docs", "map", "land", "towns")  # only when they are wanted
    files = [file for file in PAGE.rglob("*") if file.suffix in kinds and file.stem not in asked_for]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 59_000


@pytest.mark.parametrize("width", WIDTHS)
def test_what_may_be_written(visit: Visit, site: str, collection: Collection, width: int) -> None:
    page = visit(site, width)
    page.get_by_role("button", name="what may be written").press("Enter")  # the keyboard is enough
    panel = page.get_by_role("dialog", name="what may be written")
    examples = panel.locator("code").all_inner_texts()
    for example in examples:
        query = parse_query(f"dogs {example}")  # as the server reads it
        assert query.text != query.sentence or '"' in example
    assert {example.partition(":")[0] for example in examples if ":" in example} == {*FIELDS, "near"}
    assert not [one for one in Axe().run(page).response["violations"] if one["impact"] != "moderate"]
    box = panel.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.get_by_role("searchbox").fill("snow")
    page.get_by_role("button", name="what may be written").click()
    panel.get_by_role("button", name="-person").click()
    expect(page.get_by_role("searchbox")).to_have_value("snow -person")
    expect(page.get_by_role("searchbox")).to_be_focused()
    collection.knows_words = False
    page.reload()
    page.get_by_role("button", name="what may be written").click()
    expect(panel.locator("code").first).to_have_text("name:anna")
