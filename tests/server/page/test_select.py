"""Photos that are selected, and what is done with them: with the mouse, the keyboard and the finger."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection, StandIn, drawn_photos, key_of
from tests.server.page.test_accessibility import SERIOUS
from tests.server.page.test_search import asked, ids, search_for, until


def photo(page: Page, index: int) -> Locator:
    return page.locator(f"[data-index='{index}']")


def tick(page: Page, index: int) -> Locator:
    return photo(page, index).locator("xpath=following-sibling::button[1]")


def bar(page: Page) -> Locator:
    return page.get_by_role("region", name="selected photos")


def says(page: Page, text: str | re.Pattern[str]) -> None:
    expect(bar(page).get_by_role("status")).to_have_text(text)


def chosen(page: Page) -> list[int]:
    """The photos that are selected, of those in the document."""
    nodes = "nodes => nodes.map(node => Number(node.dataset.index))"
    found: list[int] = page.locator(".chosen [data-index]").evaluate_all(nodes)
    return found


def test_with_the_mouse(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog")
    expect(tick(page, 2)).to_have_css("opacity", "0")
    photo(page, 2).hover()
    expect(tick(page, 2)).to_have_css("opacity", "1")
    tick(page, 2).click()
    says(page, "1 photo selected")
    photo(page, 6).click(modifiers=["Shift"])
    says(page, "5 photos selected")
    photo(page, 0).click(modifiers=["Shift"])  # another range from the same photo
    assert chosen(page) == [0, 1, 2]
    tick(page, 1).click()
    says(page, "2 photos selected")
    assert asked(page) == {"q": ["dog"]}
    photo(page, 5).click()  # still opens
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    says(page, "2 photos selected")
    page.keyboard.press("Escape")
    expect(bar(page)).to_have_count(0)
    assert chosen(page) == []


def test_by_keyboard(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog")
    photo(page, 0).focus()
    page.keyboard.press("Space")
    assert page.evaluate("scrollY") == 0
    says(page, "1 photo selected")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    expect(photo(page, 3)).to_be_focused()
    assert chosen(page) == [0, 1, 2, 3]
    page.keyboard.press("Shift+ArrowLeft")
    assert chosen(page) == [0, 1, 2]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert chosen(page) == [0, 1, 2, 4]
    for _ in range(12):
        page.keyboard.press("Shift+ArrowDown")
        box, over = page.locator(":focus").bounding_box(), bar(page).bounding_box()
        assert box
        assert over
        assert box["y"] + box["height"] <= over["y"]  # the bar hides no photo that has the focus
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent || document.activeElement.ariaLabel"))
        if seen[-1] == "×":
            break
    assert {
        "all that fit",
        "download",
        "contact sheet",
        "copy paths",
        "save list",
        "★ star",
        "add to album",
    } < set(seen)
    page.keyboard.press("Enter")
    expect(bar(page)).to_have_count(0)
    expect(page.locator(".hit a:focus")).to_have_count(1)


def test_with_the_finger(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog", 360, has_touch=True, is_mobile=True)
    expect(tick(page, 0)).to_be_hidden()
    touch = page.context.new_cdp_session(page)

    def hold(index: int, milliseconds: int, moved: int = 0) -> None:
        box = photo(page, index).bounding_box()
        assert box
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
        if moved:
            to = {**at, "y": at["y"] - moved}
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [to]})
        page.wait_for_timeout(milliseconds)
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    hold(1, 700, moved=40)
    assert chosen(page) == []
    page.evaluate("scrollTo(0, 0)")
    hold(1, 700)
    says(page, "1 photo selected")
    photo(page, 2).tap()
    photo(page, 0).tap()
    says(page, "3 photos selected")
    photo(page, 1).tap()
    assert chosen(page) == [0, 2]
    photo(page, 0).tap()
    photo(page, 2).tap()
    expect(bar(page)).to_have_count(0)
    photo(page, 2).tap()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_what_has_left_the_screen_stays_selected(visit: Visit, stand_in: StandIn) -> None:
    page = visit(f"{stand_in.show(Collection(drawn_photos(400)))}?q=dog")
    tick(page, 0).click()
    page.evaluate("scrollTo(0, 6000)")
    expect(photo(page, 3)).to_have_count(0)
    until(page, lambda: page.locator(".hit").count() > 5)
    index = page.evaluate("Number([...document.querySelectorAll('[data-index]')].at(-1).dataset.index)")
    photo(page, index).click(modifiers=["Shift"])
    says(page, f"{index + 1} photos selected")
    page.evaluate("scrollTo(0, 0)")
    until(page, lambda: 3 in chosen(page))
    page.get_by_role("searchbox").fill("snow")  # and over another search
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("snow"))
    says(page, f"{index + 1} photos selected")


@pytest.mark.parametrize("knows_well", [False, True])
def test_all_that_fit(visit: Visit, stand_in: StandIn, knows_well: bool) -> None:
    collection = Collection(drawn_photos(400))
    scores = [hit["score"] for hit in collection.search({"q": "dog snow", "k": 1000})["hits"]]
    collection.cut, collection.well = scores[150], scores[100] if knows_well else None
    end = collection.well if collection.well is not None else collection.cut
    fit = sum(score >= end for score in scores)
    page = visit(f"{stand_in.show(collection)}?q=dog+snow")
    tick(page, 0).click()
    bar(page).get_by_role("button", name="all that fit").click()
    says(page, f"{fit} photos selected")
    assert fit > 90


def test_all_of_a_library(visit: Visit, stand_in: StandIn) -> None:
    page = visit(stand_in.show(Collection(drawn_photos(130))))
    tick(page, 0).click()
    bar(page).get_by_role("button", name="all", exact=True).click()
    says(page, "130 photos selected")
    page.goto(stand_in.show(Collection(drawn_photos(5200))))
    tick(page, 0).click()
    bar(page).get_by_role("button", name="all", exact=True).click()
    says(page, "the first 5,000 photos are selected")


def test_files_are_downloaded_as_a_zip(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    for index in (0, 3):
        tick(page, index).click()
    with page.expect_download() as download:
        bar(page).get_by_role("button", name="download").click()
    assert download.value.suggested_filename == "photos.zip"
    wanted = [ids(collection, q="dog")[index] for index in (0, 3)]
    with ZipFile(BytesIO(Path(download.value.path()).read_bytes())) as archive:
        assert archive.namelist() == [id.rpartition("/")[2] for id in wanted]
        assert [archive.read(name) for name in archive.namelist()] == [
            collection.by_id[id].picture(64) for id in wanted
        ]
    says(page, "the download begins")
    assert asked(page) == {"q": ["dog"]}
    assert page.url.startswith(site)


def test_a_contact_sheet_needs_nothing_else(
    visit: Visit, site: str, collection: Collection, tmp_path: Path
) -> None:
    page = visit(f"{site}?q=dog+snow&adjust=-beach")
    for index in (0, 3):
        tick(page, index).click()
    with page.expect_download() as download:
        bar(page).get_by_role("button", name="contact sheet").click()
    assert download.value.suggested_filename == "photos.html"
    assert page.url.startswith(site)  # which is still there
    download.value.save_as(tmp_path / "photos.html")
    wanted = [ids(collection, q="dog snow -beach")[index] for index in (0, 3)]

    sheet = page.context.new_page()
    loaded: list[str] = []
    sheet.on("request", lambda request: loaded.append(request.url))
    sheet.goto((tmp_path / "photos.html").as_uri())
    expect(sheet.locator("h2")).to_have_text("dog snow -beach")
    expect(sheet.locator(".name")).to_have_text([id.rpartition("/")[2] for id in wanted])
    taken = [collection.by_id[id].taken for id in wanted]
    expect(sheet.locator("figcaption p")).to_have_text(
        [when[:16].replace("T", " ") for when in taken if when]
    )
    widths = sheet.locator("img").evaluate_all("images => images.map(({ naturalWidth }) => naturalWidth)")
    assert widths == [64, 64]
    assert loaded == [(tmp_path / "photos.html").as_uri()]

    search_for(page, "beach")  # of several searches none is named
    expect(page).to_have_title(re.compile("beach"))
    tick(page, 1).click()
    with page.expect_download() as download:
        bar(page).get_by_role("button", name="contact sheet").click()
    assert "<h2>" not in Path(download.value.path()).read_text()


def test_a_download_that_is_refused_says_so(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    tick(page, 0).click()
    page.evaluate("document.querySelector('.selected form').action = 'api/nothing'")
    bar(page).get_by_role("button", name="download").click()
    says(page, "the server does not send these photos: select fewer, or try again")
    expect(photo(page, 0)).to_be_visible()


def test_paths_are_copied_and_saved(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    wanted = [f"/photos/{id}" for id in ids(collection, q="dog")[:3]]
    tick(page, 0).click()
    photo(page, 2).click(modifiers=["Shift"])
    bar(page).get_by_role("button", name="copy paths").click()
    says(page, "paths copied")
    assert page.evaluate("navigator.clipboard.readText()").split("\n") == wanted
    with page.expect_download() as download:
        bar(page).get_by_role("button", name="save list").click()
    assert download.value.suggested_filename == "photos.txt"
    assert Path(download.value.path()).read_text() == "\n".join([*wanted, ""])


def test_albums(visit: Visit, site: str, collection: Collection) -> None:
    """Photos are added, the album is shown, and one is taken out."""
    page = visit(f"{site}?q=dog")
    found = ids(collection, q="dog")
    choice = page.get_by_role("combobox", name="album")
    expect(page.locator(".filters .captions")).to_be_visible()
    expect(choice).to_have_count(0)
    for index in (1, 4):
        tick(page, index).click()
    bar(page).get_by_role("button", name="add to album").click()
    name = page.get_by_role("textbox", name="name of a new album")
    name.fill("a/b")
    name.press("Enter")
    expect(name).to_be_focused()  # the browser says what is wrong
    name.fill("a:b")
    name.press("Enter")
    says(page, "'a:b' is no name for an album")
    bar(page).get_by_role("button", name="add to album").click()
    name.fill("am Meer & mehr?")
    name.press("Enter")
    says(page, "added to “am Meer & mehr?”")
    assert collection.albums_of == {"am Meer & mehr?": [found[1], found[4]]}
    page.keyboard.press("Escape")
    choice.select_option("am Meer & mehr?")
    until(page, lambda: asked(page).get("album") == ["am Meer & mehr?"])
    expect(page.locator(".hit")).to_have_count(2)
    tick(page, 0).click()
    bar(page).get_by_role("button", name="take out of album").click()
    expect(page.locator(".hit")).to_have_count(1)
    assert collection.albums_of == {"am Meer & mehr?": [found[4]]}


def test_stars(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    found = ids(collection, q="dog")
    tick(page, 0).click()
    bar(page).get_by_role("button", name="star").click()
    says(page, "added to “starred”")
    assert collection.albums_of == {"starred": [found[0]]}
    photo(page, 0).click()
    star = page.get_by_role("dialog").get_by_role("button", name="star")
    expect(star).to_have_attribute("aria-pressed", "true")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "false")
    assert collection.albums_of == {}
    page.keyboard.press("ArrowRight")
    expect(page.locator(".path")).to_have_text(f"/photos/{found[1]}")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    assert collection.albums_of == {"starred": [found[1]]}
    expect(page.get_by_role("dialog").locator("dd", has_text="starred")).to_be_visible()


def test_albums_of_others_are_shown_only(visit: Visit, site: str, collection: Collection) -> None:
    collection.writable, collection.albums_of = False, {"theirs": ids(collection, q="dog")[:2]}
    page = visit(f"{site}?q=dog&album=theirs")
    expect(page.locator(".hit")).to_have_count(2)
    expect(page.get_by_role("combobox", name="album")).to_have_value("theirs")
    tick(page, 0).click()
    expect(bar(page).get_by_role("button", name="download")).to_be_visible()
    for name in ("star", "add to album", "take out of album"):
        expect(bar(page).get_by_role("button", name=name)).to_have_count(0)
    page.goto(f"{site}?q=dog&photo={key_of(collection.albums_of['theirs'][0])}")
    expect(page.get_by_role("dialog").get_by_role("button", name="copy path")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="star")).to_have_count(0)


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_axe_finds_nothing_serious(visit: Visit, site: str, width: int, scheme: Any) -> None:
    page = visit(f"{site}?q=dog", width, scheme, reduced_motion="reduce")
    photo(page, 0).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowRight")
    bar(page).get_by_role("button", name="add to album").click()
    until(page, lambda: page.locator(".hit img:not(.loaded)").count() == 0)
    found = [one for one in Axe().run(page).response["violations"] if one["impact"] in SERIOUS]
    assert not found
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    panel = page.locator(".selected .panel").bounding_box()
    assert panel
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= width
    assert panel["y"] >= 0
