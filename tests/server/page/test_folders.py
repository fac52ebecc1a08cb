"""The filter on folders: a tree."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection, Photo, StandIn
from tests.server.page.test_accessibility import SERIOUS
from tests.server.page.test_search import asked, until


def library() -> Collection:
    """Five hundred folders: years, their months, and days in the months; beside others."""
    folders = [
        *(
            f"trips/{year}/{month:02}/{day:02}"
            for year in range(2010, 2014)
            for month in (1, 6)
            for day in range(60)
        ),
        *("Übersicht & <b>more", "garden/plants", "garden/pond", "scans"),
    ]
    return Collection(
        [Photo(f"{folder}/a.jpg", {"dog": 1.0}, taken="2014-01-01T12:00:00") for folder in folders]
    )


def names(page: Page) -> list[str]:
    """Of the folders that are to be seen."""
    return page.locator(".tree bdi").all_inner_texts()


def focused(page: Page) -> str:
    found: str = page.evaluate("document.activeElement.dataset.folder ?? document.activeElement.className")
    return found


def opened(
    visit: Visit, stand_in: StandIn, address: str = "", width: int = 1280, scheme: str = "light"
) -> Page:
    page = visit(f"{stand_in.show(library())}{address}", width, scheme)
    page.locator("[data-filter=folder]").click()
    expect(page.get_by_role("tree")).to_be_visible()
    return page


def test_folders_are_opened_one_by_one_and_chosen(visit: Visit, stand_in: StandIn) -> None:
    page = opened(visit, stand_in)
    top = ["all folders", "garden", "scans", "trips", "Übersicht & <b>more"]
    assert names(page) == top
    page.locator("[data-folder=trips] .twist").click()
    years = ["2010", "2011", "2012", "2013"]
    assert names(page) == [*top[:4], *years, top[4]]
    page.locator("[data-folder='trips/2012'] .twist").click()
    assert names(page) == [*top[:4], *years[:3], "01", "06", years[3], top[4]]
    page.locator("[data-folder='trips/2012/06'] > .row").click()
    expect(page.get_by_role("tree")).to_have_count(0)
    until(page, lambda: asked(page) == {"folder": ["trips/2012/06"]})
    expect(page.locator("[data-filter=folder]")).to_have_text("folder: trips/2012/06")
    expect(page.locator(".found")).to_have_text("60 photos")
    page.locator("[data-filter=folder]").click()
    page.get_by_role("treeitem", name="all folders").locator(".row").click()
    until(page, lambda: asked(page) == {})


def test_the_chosen_one_is_open(visit: Visit, stand_in: StandIn) -> None:
    page = opened(visit, stand_in, "?q=dog&folder=trips/2011/06/30")
    chosen = page.locator("[aria-selected=true]")
    expect(chosen).to_have_attribute("data-folder", "trips/2011/06/30")
    expect(chosen).to_be_in_viewport()
    assert focused(page) == "trips/2011/06/30"
    assert len(names(page)) == 5 + 4 + 2 + 60


def test_by_keyboard_alone(visit: Visit, stand_in: StandIn) -> None:
    page = opened(visit, stand_in)
    walked = []
    for key in "ArrowDown ArrowRight ArrowRight ArrowDown ArrowLeft ArrowLeft ArrowDown End Home t".split():
        page.keyboard.press(key)
        walked.append(focused(page))
    assert walked == [
        *("garden", "garden", "garden/plants", "garden/pond", "garden", "garden", "scans"),
        *("Übersicht & <b>more", "", "trips"),
    ]
    assert page.locator("[data-folder='garden/pond']").count() == 0
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(800)  # what was typed before is forgotten
    page.keyboard.type("2013")
    assert focused(page) == "trips/2013"
    page.keyboard.press("Enter")
    until(page, lambda: asked(page) == {"folder": ["trips/2013"]})
    expect(page.locator("[data-filter=folder]")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tree")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("tree")).to_have_count(0)
    expect(page.locator("[data-filter=folder]")).to_be_focused()


def test_a_folder_that_is_closed_over_the_focus_takes_it(visit: Visit, stand_in: StandIn) -> None:
    page = opened(visit, stand_in, "?folder=trips/2011/06")
    page.locator("[data-folder=trips] > .row > .twist").click()
    until(page, lambda: focused(page) == "trips")


def test_the_only_uppermost_folder_is_open(visit: Visit, stand_in: StandIn) -> None:
    collection = Collection([Photo(f"all/{name}/a.jpg", {"dog": 1.0}) for name in "ab"])
    page = visit(stand_in.show(collection))
    page.locator("[data-filter=folder]").click()
    assert names(page) == ["all folders", "all", "a", "b"]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_axe_finds_nothing_serious(visit: Visit, stand_in: StandIn, width: int, scheme: str) -> None:
    page = opened(visit, stand_in, "?folder=trips/2011/06/30", width, scheme)
    violations = Axe().run(page).response["violations"]
    assert not [one for one in violations if one["impact"] in SERIOUS]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator(".panel").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
