"""The page without a question: the photos by date, and the strip of months."""

from __future__ import annotations

from itertools import pairwise

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from lexlip.server.bodies import Narrowed
from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection, Photo, StandIn, drawn_photos
from tests.server.page.test_accessibility import SERIOUS
from tests.server.page.test_search import asked, expect_hits, search_for, until, wheel_to

NARROW_AND_WIDE = [390, 1280]


def listed(collection: Collection, **given: str) -> list[Photo]:
    return collection.by_date(Narrowed(**given))


def month_of(photo: Photo) -> str:
    return (photo.taken or photo.written or "undated")[:7]


def ids(photos: list[Photo]) -> list[str]:
    return [photo.id for photo in photos]


def ready(page: Page) -> None:
    expect(page.locator(".hit").first).to_be_visible()
    until(page, lambda: page.locator(".hit img:not(.loaded)").count() == 0)


def current(page: Page) -> str:
    """The month that the strip says is on the screen."""
    return page.locator(".timeline [aria-current]").get_attribute("href") or ""


@pytest.mark.parametrize("width", NARROW_AND_WIDE)
def test_photos_come_newest_first_under_their_months(
    visit: Visit, site: str, collection: Collection, width: int
) -> None:
    page = visit(site, width)
    expected = listed(collection)
    expect_hits(page, ids(expected), 5)
    expect(page.locator(".found")).to_have_text("100 photos")
    months = list(dict.fromkeys(map(month_of, expected)))
    headings = page.locator(".heading h2")
    expect(headings.first).to_have_text("September 2021")
    seen: list[str] = []
    for _ in range(200):
        seen += [text for text in headings.all_inner_texts() if text not in seen]
        if page.locator("[data-index='99']").count():
            break
        page.evaluate("scrollBy(0, innerHeight / 2)")
        page.wait_for_timeout(20)
    seen += [text for text in headings.all_inner_texts() if text not in seen]
    assert len(seen) == len(months)
    assert seen[-1] == "Without a date"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_heading_stands_right_before_the_photos_of_its_month(
    visit: Visit, site: str, collection: Collection
) -> None:
    page = visit(site, 1280)
    ready(page)
    expected = listed(collection)
    starts = [0, *(at for at in range(1, 100) if month_of(expected[at]) != month_of(expected[at - 1]))]
    bottom = 0.0
    for place, (first, end) in enumerate(pairwise(starts[:4])):
        boxes = [page.locator(f"[data-index='{at}']").bounding_box() for at in range(first, end)]
        heading = page.locator(".heading").nth(place).bounding_box()
        assert heading
        assert bottom - 1 <= heading["y"]
        assert heading["y"] + heading["height"] - 1 <= min(box["y"] for box in boxes if box)
        bottom = max(box["y"] + box["height"] for box in boxes if box)


def test_months_that_only_files_date_say_so(visit: Visit, stand_in: StandIn) -> None:
    photos = [
        Photo("camera.jpg", {"dog": 1.0}, taken="2019-07-03T12:00:00"),
        Photo("copied.jpg", {"dog": 1.0}, written="2019-07-02T12:00:00"),
        Photo("scanned.jpg", {"dog": 1.0}, written="2011-01-02T12:00:00"),
        Photo("nothing.jpg", {"dog": 1.0}),
        Photo("known.jpg", {"dog": 1.0}, taken="2010-05-03T12:00:00"),
    ]
    page = visit(stand_in.show(Collection(photos)), 1280)
    expect(page.locator(".heading")).to_have_text(
        [
            "July 2019 1 of 2 dated by the file",
            "January 2011 dated by the file",
            "May 2010 ",
            "Without a date ",
        ]
    )
    expect_hits(page, ["camera.jpg", "copied.jpg", "scanned.jpg", "known.jpg", "nothing.jpg"], 5)


@pytest.mark.parametrize("width", NARROW_AND_WIDE)
def test_a_click_in_the_strip_goes_to_a_month_and_back(
    visit: Visit, site: str, collection: Collection, width: int
) -> None:
    page = visit(site, width)
    expected = listed(collection)
    strip = page.get_by_role("navigation", name="months")
    strip.get_by_role("link", name="2018,").click()
    newest = next(at for at, photo in enumerate(expected) if month_of(photo).startswith("2018"))
    month = month_of(expected[newest])
    until(page, lambda: asked(page) == {"month": [month]})
    expect_hits(page, ids(expected[newest:]), 9)
    assert current(page) == f"?month={month}"
    expect(page.locator(".welcome")).to_have_count(0)

    before = next(month_of(photo) for photo in expected[newest:] if month_of(photo) < month)
    strip.locator(f"a.month[href='?month={before}']").click()
    until(page, lambda: asked(page) == {"month": [before]})
    first = next(at for at, photo in enumerate(expected) if month_of(photo) == before)
    expect_hits(page, ids(expected[first:]), 9)
    page.locator(".newer a").click()
    expect_hits(page, ids(expected[newest:]), 9)
    page.go_back()
    expect_hits(page, ids(expected[first:]), 9)
    page.reload()
    expect_hits(page, ids(expected[first:]), 9)
    strip.get_by_role("link", name="Without a date").click()
    expect_hits(page, [photo.id for photo in expected if month_of(photo) == "undated"], 5)
    page.evaluate("document.querySelector('.home').click()")
    expect_hits(page, ids(expected), 5)
    expect(page.locator(".welcome")).to_be_visible()
    assert asked(page) == {}


@pytest.mark.parametrize(
    ("month", "shows"), [("2017-12", "2017-08"), ("1990-01", "undated"), ("<b>", "2021-09")]
)
def test_an_address_with_another_month(
    visit: Visit, site: str, collection: Collection, month: str, shows: str
) -> None:
    page = visit(f"{site}?month={month}")
    expected = listed(collection)
    expect_hits(page, ids(expected[[month_of(photo) for photo in expected].index(shows) :]), 5)


@pytest.mark.parametrize("width", NARROW_AND_WIDE)
def test_the_strip_follows_as_one_scrolls(visit: Visit, stand_in: StandIn, width: int) -> None:
    collection = Collection(drawn_photos(3000))
    page = visit(stand_in.show(collection), width)
    ready(page)
    page.mouse.move(200, 500)
    wheel_to(page, 6000)
    below = page.locator(".timeline").evaluate("strip => strip.getBoundingClientRect().bottom")
    assert below < 140
    seen = page.evaluate(
        "(below) => [...document.querySelectorAll('.hit')].filter((hit) =>"
        " hit.getBoundingClientRect().bottom > below).map((hit) => +hit.firstElementChild.dataset.index)",
        below,
    )
    expected = listed(collection)[min(seen)]
    until(page, lambda: current(page) == f"?month={month_of(expected)}")
    expect(page.locator(".timeline [aria-current]")).to_be_in_viewport()
    assert page.locator(".hit").count() < 120
    assert page.locator(".heading").count() < 20


def test_by_keyboard_alone(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(site, 1280)
    ready(page)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.timeline') !== null"):
            break
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    until(page, lambda: focused.endswith(asked(page).get("month", ["?"])[0]))
    month = asked(page)["month"][0]
    expected = [photo for photo in listed(collection) if month_of(photo) <= month]
    expect_hits(page, ids(expected), 3)
    assert page.evaluate("document.activeElement.getAttribute('href')") == focused
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent") == "no date"
    page.keyboard.press("Tab")  # the link to the month after it
    page.keyboard.press("Tab")
    expect(page.locator("[data-index='0']")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.locator("[data-index='2']")).to_be_focused()


def test_filters_hold(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?month=2019-06", 1280)
    page.locator("[data-filter=dates]").click()
    page.get_by_role("button", name="2016", exact=True).click()
    expected = listed(collection, after="2016", before="2016")
    expect_hits(page, ids(expected), 5)
    assert asked(page) == {"after": ["2016"], "before": ["2016"]}
    expect(page.locator(".timeline .year")).to_have_text("2016")
    expect(page.locator(".found")).to_have_text(f"{len(expected)} photos")
    search_for(page, "dog")
    expect(page.locator("[data-word=dog]")).to_be_visible()
    assert {"after", "before", "q"} <= asked(page).keys()


def test_no_photo_meets_the_filters(visit: Visit, site: str, collection: Collection) -> None:
    collection.unmet = "no photo is in the folder nosuch; folders are garden"
    page = visit(f"{site}?folder=nosuch")
    expect(page.locator(".none")).to_contain_text("No photo is in the folder nosuch; folders are garden.")
    page.get_by_role("button", name="Search all photos").click()
    expect_hits(page, ids(listed(collection)))


def test_one_row_of_words_unfolds(visit: Visit, stand_in: StandIn) -> None:
    words = [f"word{place}" for place in range(20)]
    page = visit(stand_in.show(Collection(drawn_photos(40, *words))), 390)
    tiles = page.locator(".welcome li")
    expect(tiles).to_have_count(2)
    page.get_by_role("button", name="more words").click()
    expect(tiles).to_have_count(20)
    page.get_by_role("button", name="fewer words").click()
    expect(tiles).to_have_count(2)
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(tiles).to_have_count(7)
    tops = tiles.evaluate_all("tiles => tiles.map((tile) => tile.offsetTop)")
    assert len(set(tops)) == 1


def test_the_photos_have_changed(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(site)
    ready(page)
    collection.photos.append(Photo("new.jpg", {"dog": 2.0}, taken="2025-01-01T12:00:00"))
    collection.snapshot = "2"
    collection.update = {"running": False, "done": 0, "total": 0, "message": ""}
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("button", name="Search again").click()
    expect_hits(page, ["new.jpg"], 1)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
@pytest.mark.parametrize("address", ["", "?month=2018-05", "?folder=nosuch"])
def test_axe_finds_nothing_serious(visit: Visit, site: str, width: int, scheme: str, address: str) -> None:
    page = visit(site + address, width, scheme, reduced_motion="reduce")
    expect(page.locator(".hit, .none").first).to_be_visible()
    if page.locator(".hit").count():
        ready(page)
    violations = Axe().run(page).response["violations"]
    assert not [one for one in violations if one["impact"] in SERIOUS]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
