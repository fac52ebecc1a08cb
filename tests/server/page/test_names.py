"""File names and dates under the photos, for those who want them."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection, Photo, StandIn
from tests.server.page.test_accessibility import SERIOUS

PHOTOS = [
    Photo("a/camera.jpg", {"dog": 1.0}, taken="2019-07-03T12:00:00"),
    Photo("a/<b>copied with a long name that does not fit.jpg", {"dog": 0.9}, written="2019-07-02T12:00:00"),
    Photo("nothing.jpg", {"dog": 0.8}),
]


def toggle(page: Page) -> None:
    page.get_by_role("button", name="names").click()


@pytest.mark.parametrize("width", [390, 1280])
def test_names_stand_under_the_photos_and_stay(visit: Visit, stand_in: StandIn, width: int) -> None:
    page = visit(stand_in.show(Collection(PHOTOS)), width, "dark")
    names = page.locator(".hit .name")
    expect(page.locator(".hit")).to_have_count(3)
    expect(names).to_have_count(0)
    toggle(page)
    long = "<b>copied with a long name that does not fit.jpg"
    said = ["camera.jpg 2019-07-03", f"{long} 2019-07-02 (file)", "nothing.jpg "]
    expect(names).to_have_text(said)
    for tile in page.locator(".hit").all():
        picture, name, whole = (
            each.bounding_box() for each in (tile.locator("a"), tile.locator(".name"), tile)
        )
        assert picture
        assert name
        assert whole
        assert name["y"] >= picture["y"] + picture["height"] - 1
        assert name["y"] + name["height"] <= whole["y"] + whole["height"] + 1
    violations = Axe().run(page).response["violations"]
    assert not [one for one in violations if one["impact"] in SERIOUS]
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    page.reload()
    expect(page.get_by_role("button", name="names")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{page.url}?q=dog")
    expect(names).to_have_text(said)
    expect(page.locator(".found")).not_to_contain_text("dated")
    page.goto(f"{page.url}&after=2019")
    expect(names).to_have_text(said[:2])
    expect(page.locator(".found")).to_contain_text("; 1 dated by the file")
    toggle(page)
    expect(names).to_have_count(0)
    page.reload()
    expect(page.locator(".hit")).to_have_count(2)
    expect(names).to_have_count(0)


def test_a_browser_that_may_remember_nothing(visit: Visit, stand_in: StandIn) -> None:
    page = visit("about:blank")
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw Error('no'); } })")
    page.goto(stand_in.show(Collection(PHOTOS)))
    expect(page.locator(".hit")).to_have_count(3)
    toggle(page)
    expect(page.locator(".hit .name")).to_have_count(3)
    toggle(page)
    expect(page.locator(".hit .name")).to_have_count(0)
