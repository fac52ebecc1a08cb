"""For everyone: axe-core finds nothing serious, the keyboard is enough, large text is not cut off."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.server.page.conftest import WIDTHS, Visit
from tests.server.page.stand_in import Collection, key_of
from tests.server.page.test_search import asked, until

SERIOUS = ("serious", "critical")
VIEWS = {
    "welcome": "",
    "hits": "?q=dog+snow+xylophone&adjust=-beach&adjust=snow%5E2&adjust=play%5E0",
    "end": "?q=sled+person",
    "none": "?q=zebra&folder=garden",
    "photo": "?q=dog+snow&photo=" + key_of("garden/00000.jpg"),
    "similar": "?like=" + key_of("garden/00000.jpg"),
}


def ready(page: Page) -> None:
    expect(page.locator("h1, .hit, .cloud").first).to_be_visible()
    if page.locator(".hit").count():
        until(page, lambda: page.locator(".hit img:not(.loaded)").count() == 0)


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_axe_finds_nothing_serious(
    visit: Visit, site: str, collection: Collection, width: int, scheme: str
) -> None:
    collection.cut = 0.3
    page = visit(site, width, scheme, reduced_motion="reduce")
    found = []
    for view, address in VIEWS.items():
        page.goto(site + address)
        ready(page)
        if view == "end":
            page.locator("[data-filter=dates]").click()
        if view == "similar":
            page.locator("[data-word=dog]").click()
        violations = Axe().run(page).response["violations"]
        found += [(view, one) for one in violations if one["impact"] in SERIOUS]
    assert not found


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_its_width(visit: Visit, site: str, collection: Collection, width: int) -> None:
    collection.cut = 0.3
    page = visit(site, width)
    for view, address in VIEWS.items():
        page.goto(site + address)
        ready(page)
        root = page.locator("dialog" if view == "photo" else "html")
        assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0, view


def test_twice_as_large(visit: Visit, site: str) -> None:
    """A zoom of 200 % halves the width in CSS pixels; text may be twice as large besides."""
    page = visit(f"{site}?q=dog+snow+play+beach", 768)
    ready(page)
    page.set_viewport_size({"width": 320, "height": 512})
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    until(page, lambda: page.locator(".hit").count() > 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.locator("[data-index='0']").bounding_box()["width"] <= 320  # type: ignore[index]


def test_by_keyboard_alone(visit: Visit, site: str) -> None:
    page = visit(site)
    ready(page)
    page.keyboard.press("Tab")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("dog snow")
    page.keyboard.press("Enter")
    expect(page.locator("[data-word=snow]")).to_be_visible()
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        named = "document.activeElement.dataset.word ?? document.activeElement.textContent"
        seen.append(page.evaluate(named))
        if page.evaluate("document.activeElement.dataset.index === '0'"):
            break
    assert {"dog", "snow", "+ word", "sled"} <= set(seen)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(40):  # the focus stays in the dialog
        page.keyboard.press("Tab")
        assert page.evaluate("!document.activeElement.matches('body > #app :not(dialog, dialog *)')")
    page.keyboard.press("Escape")
    expect(page.locator("[data-index='0']")).to_be_focused()
    assert asked(page) == {"q": ["dog snow"]}


def test_motion_is_reduced(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog", reduced_motion="reduce")
    ready(page)
    expect(page.locator(".hit img").first).to_have_css("transition-duration", "0s")


def test_what_a_screen_reader_hears(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+snow&adjust=-beach")
    ready(page)
    tree = page.locator("body").aria_snapshot()
    buttons = 'button "dog, weight 0.90"', 'button "beach, excluded"'
    for heard in ('searchbox "what to find": dog snow', *buttons, 'link "dog', "photos"):
        assert heard in tree
