"""The map of where photos were taken: with the mouse, the wheel and the keyboard."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection
from tests.server.page.test_search import asked, expect_hits, ids, until

LYON, MUNICH, SYDNEY = (45.76, 4.84), (48.14, 11.58), (-33.87, 151.21)


@pytest.fixture
def collection(collection: Collection) -> Collection:
    """Sixty photos of three towns, ten of them in the same spot, and forty of which nobody knows."""
    for number, photo in enumerate(collection.photos[:60]):
        north, east = (LYON, MUNICH, SYDNEY)[number % 3]
        photo.place = (north + number % 10 / 100, east) if number % 3 else LYON
    return collection


def places(page: Page) -> Locator:
    return page.locator("[data-filter=places]")


def spots(page: Page, *numbers: int) -> Locator:
    """The circles on the map, once they have these numbers."""
    found = page.locator(".spot")
    until(page, lambda: sorted(found.all_inner_texts()) == sorted(map(str, numbers)))
    return found


def shown(page: Page) -> list[float]:
    """The part of the map in degrees: west, minus north, width and height."""
    return [float(one) for one in (page.locator(".map svg").get_attribute("viewBox") or "").split()]


def map_calls(collection: Collection) -> int:
    return sum("/api/map" in call for call in collection.asked)


def test_circles_lead_nearer_and_narrow(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    expect(places(page)).to_have_text("places")
    assert not map_calls(collection)
    assert not [call for call in collection.asked if "land.svg" in call or "map.js" in call]
    places(page).click()
    spots(page, 40, 20).filter(has_text="40").click()  # Lyon and Munich
    spots(page, 20, 20).first.click()
    expect(page.locator(".map")).to_have_count(0)
    near, within = asked(page)["near"][0], asked(page)["within"][0]
    expect_hits(page, found := ids(collection, q="dog", near=near, within=within))
    towns = {collection.by_id[id].place[0] // 1 for id in found}  # type: ignore[index]
    assert towns in ({45.0}, {48.0})
    expect(places(page)).to_have_text(f"near {near.replace(',', ', ')}")
    page.get_by_label("sort").select_option("nearest first")
    expect_hits(page, ids(collection, q="dog", near=near, within=within, sort="place"))
    places(page).click()
    spots(page, 40, 20)  # all places can still be chosen
    expect(page.locator(".map ellipse")).to_have_count(1)
    page.get_by_role("button", name="all places").click()
    expect_hits(page, ids(collection, q="dog"))
    assert asked(page) == {"q": ["dog"]}


def test_photos_without_a_question_are_narrowed(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(site)
    places(page).click()
    spots(page, 40, 20).filter(has_text="20").click()
    until(page, lambda: asked(page).keys() == {"near", "within"})
    expect(page.locator(".found")).to_have_text("20 photos")
    page.goto(f"{site}?folder=garden&q=near:48.1,11.6")
    places(page).click()
    in_garden = [photo.place for photo in collection.photos if photo.id.startswith("garden/") and photo.place]
    spot = spots(page, len(in_garden))  # one town: every third photo
    spot.click()
    until(page, lambda: asked(page).keys() == {"near", "within", "folder"})  # in place of what was typed
    expect(page.locator(".found")).to_have_text("20 photos")


def test_by_keyboard_alone(visit: Visit, site: str) -> None:
    page = visit(site)
    places(page).press("Enter")
    board = page.locator(".map")
    expect(board).to_be_focused()
    spots(page, 40, 20)

    before = shown(page)
    page.keyboard.press("+")
    until(page, lambda: shown(page)[2] < before[2])
    nearer = shown(page)
    page.keyboard.press("ArrowLeft")
    until(page, lambda: shown(page)[0] < nearer[0])
    page.keyboard.press("ArrowUp")
    until(page, lambda: shown(page)[1] < nearer[1])
    page.keyboard.press("-")
    page.keyboard.press("0")
    until(page, lambda: shown(page)[2] == pytest.approx(360))
    spots(page, 40, 20)
    page.keyboard.press("Tab")
    expect(page.locator(".spot").first).to_be_focused()
    expect(page.locator(".spot").first).to_have_accessible_name(
        re.compile(r"40 photos at 4\d\.\d° N, .* E: nearer")
    )
    page.keyboard.press("Enter")
    expect(board).to_be_focused()  # the circle is gone
    spots(page, 20, 20)
    page.keyboard.press("Escape")
    expect(board).to_have_count(0)
    expect(places(page)).to_be_focused()


def test_the_wheel_and_the_hand(visit: Visit, site: str) -> None:
    page = visit(site)
    places(page).click()
    spots(page, 40, 20)
    box = page.locator(".map").bounding_box()
    assert box

    def under(right: float, down: float) -> tuple[float, float]:
        """The degrees at a place of the map, given as shares of its size."""
        west, north, width, height = shown(page)
        return west + right * width, north + down * height

    def point(right: float, down: float) -> None:
        page.mouse.move(box["x"] + right * box["width"], box["y"] + down * box["height"], steps=3)

    before, wide = under(0.4, 0.4), shown(page)[2]
    point(0.4, 0.4)
    page.mouse.wheel(0, -240)
    until(page, lambda: shown(page)[2] < 0.6 * wide)
    assert under(0.4, 0.4) == pytest.approx(before, abs=1)  # it stays under the pointer
    assert page.evaluate("scrollY") == 0
    held = under(0.2, 0.8)
    point(0.2, 0.8)
    page.mouse.down()
    point(0.3, 0.7)
    page.mouse.up()
    until(page, lambda: under(0.3, 0.7) == pytest.approx(held, abs=4))
    assert asked(page) == {}


def test_two_fingers_lead_nearer(visit: Visit, site: str) -> None:
    page = visit(site)
    places(page).click()
    spots(page, 40, 20)
    box = page.locator(".map").bounding_box()
    assert box
    fingers = page.context.new_cdp_session(page)

    def touch(kind: str, *at: tuple[float, float]) -> None:
        points = [
            {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"], "id": number}
            for number, (x, y) in enumerate(at)
        ]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    west, north, width, height = shown(page)
    wanted = west + 0.3 * width, north + 0.8 * height  # under the middle of the fingers
    touch("touchStart", (0.25, 0.8))
    touch("touchStart", (0.25, 0.8), (0.35, 0.8))
    for part in (0.02, 0.04, 0.05):
        touch("touchMove", (0.25 - part, 0.8), (0.35 + part, 0.8))
    touch("touchEnd")
    until(page, lambda: shown(page)[2] == pytest.approx(width / 2, rel=0.05))
    west, north, width, height = shown(page)
    assert (west + 0.3 * width, north + 0.8 * height) == pytest.approx(wanted, abs=2)
    touch("touchStart", (0.25, 0.8))
    touch("touchMove", (0.15, 0.8))
    touch("touchEnd")
    until(page, lambda: shown(page)[0] == pytest.approx(west + 0.1 * width, abs=1))  # one finger moves


def test_without_places_there_is_no_map(visit: Visit, site: str, collection: Collection) -> None:
    for photo in collection.photos:
        photo.place = None
    page = visit(f"{site}?q=dog")
    expect(page.locator(".filters .captions")).to_be_visible()
    expect(places(page)).to_have_count(0)
    assert not map_calls(collection)


def test_a_problem_is_said(visit: Visit, site: str) -> None:
    page = visit(site)
    page.route("**/api/map?*", lambda route: route.fulfill(status=400, json={"detail": "it is not so"}))
    places(page).click()
    expect(page.locator(".of-map [role=status]")).to_have_text("it is not so")


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
)
def test_axe_finds_nothing(visit: Visit, site: str, collection: Collection, width: int, scheme: Any) -> None:
    page = visit(f"{site}?q=dog&near=45.76,4.84&within=10km", width, scheme, reduced_motion="reduce")
    places(page).click()
    expect(page.locator(".spot").first).to_be_visible()
    until(page, lambda: page.locator(".hit img:not(.loaded)").count() == 0)
    assert not [one for one in Axe().run(page).response["violations"] if one["impact"] != "moderate"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    panel = page.locator(".of-map").bounding_box()
    assert panel
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= width
    assert any("/vendor/land.svg" in call for call in collection.asked)


TOWNS = {
    "Paris": (48.85, 2.35),
    "München": (48.14, 11.58),
    "Lyon": (45.76, 4.84),
    "Villeurbanne": (45.77, 4.88),  # has no room beside Lyon
    "Genève": (46.2, 6.15),
    "<b>Zürich</b>": (47.38, 8.54),
    "مدينة": (47.0, 3.2),
    **{f"Town {number}": (44 + number % 40 / 8, 2 + number // 40 / 2) for number in range(800)},
}


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
)
def test_the_largest_towns_are_named(
    visit: Visit, site: str, collection: Collection, width: int, scheme: Any
) -> None:
    collection.towns_known = TOWNS
    page = visit(site, width, scheme, reduced_motion="reduce")
    places(page).click()
    spots(page, 40, 20).filter(has_text="40").click()  # Lyon and Munich
    spots(page, 20, 20)
    names = page.locator(".town bdi")
    expect(names.filter(has_text="Lyon")).to_be_visible()
    board, found = page.locator(".map").bounding_box(), names.all_inner_texts()
    assert board
    assert {"München", "Lyon", "<b>Zürich</b>"} <= set(found)
    assert width < 1280 or {"Genève", "مدينة"} <= set(found)
    assert "Villeurbanne" not in found
    assert len(found) <= board["width"] * board["height"] / 9000 + 1
    boxes = [one.bounding_box() for one in (*names.all(), *page.locator(".spot, .zooms").all())]
    for place, one in enumerate(boxes):
        assert one
        assert board["x"] <= one["x"]
        assert one["x"] + one["width"] <= board["x"] + board["width"] + 1
        for other in boxes[:place]:
            assert other
            assert (
                one["x"] >= other["x"] + other["width"]
                or other["x"] >= one["x"] + one["width"]
                or one["y"] >= other["y"] + other["height"]
                or other["y"] >= one["y"] + one["height"]
            )
    assert not [one for one in Axe().run(page).response["violations"] if one["impact"] != "moderate"]
    page.keyboard.press("0")
    until(page, lambda: shown(page)[2] == pytest.approx(360))
    spots(page, 40, 20)


def test_a_map_without_towns(visit: Visit, site: str) -> None:
    page = visit(site)
    page.route("**/api/towns?*", lambda route: route.fulfill(status=500, json={"detail": "it is not so"}))
    places(page).click()
    spots(page, 40, 20)
    expect(page.locator(".town")).to_have_count(0)
    expect(page.locator(".of-map [role=status]")).to_have_count(0)
