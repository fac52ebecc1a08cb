"""The hits as one scrolls: 28,000 of them, and where the honest end lies."""

from __future__ import annotations

import pytest
from playwright.sync_api import CDPSession, expect

from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection, StandIn, drawn_photos
from tests.server.page.test_search import expect_hits, ids, until, wheel_to


def heap(session: CDPSession) -> float:
    """Bytes of live JavaScript objects."""
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"])


@pytest.mark.parametrize(
    ("width", "many"), [(360, 5_000), pytest.param(1440, 28_000, marks=pytest.mark.slow)]
)
def test_many_hits_to_the_end(visit: Visit, stand_in: StandIn, width: int, many: int) -> None:
    collection = Collection(drawn_photos(many))
    page = visit(f"{stand_in.show(collection)}?q=dog+snow", width)
    expect(page.locator(".hit").first).to_be_visible()
    session = page.context.new_cdp_session(page)
    before, nodes = heap(session), 0
    loaded = "document.querySelector('.grid').offsetHeight"
    last = f"Number([...document.querySelectorAll('[data-index]')].at(-1)?.dataset.index) === {many - 1}"
    for _ in range(400):
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_timeout(20)
        nodes = max(nodes, page.evaluate("document.querySelectorAll('*').length"))
        if page.evaluate(last):
            break
    assert page.evaluate(last)
    page.wait_for_timeout(200)
    assert page.evaluate(loaded) > 100_000
    assert nodes < 3000
    assert heap(session) - before < 12e6
    expect(page.locator("[aria-live=polite]")).to_have_text(f"{many:,} photos")
    thumbnails = sum("thumbnail" in call for call in collection.asked)
    assert thumbnails < many / 3  # what flies by is not fetched

    # ... and back: the first rows are there again
    page.evaluate("scrollTo(0, 0)")
    expect_hits(page, ids(collection, q="dog snow"))
    page.evaluate("scrollTo(0, 50000)")
    until(page, lambda: page.locator(".hit img.loaded").count() > 4)


def test_pictures_come_as_one_scrolls(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog", 360)
    until(page, lambda: page.locator(".hit img.loaded").count() > 4)
    assert sum("thumbnail" in call for call in collection.asked) < 60
    assert page.locator(".hit").count() < 60


def test_arrow_keys_go_from_hit_to_hit(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog", 768)
    page.locator("[data-index='0']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-index='1']")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-index='0']")).to_be_focused()
    for _ in range(14):
        page.keyboard.press("ArrowDown")
    until(page, lambda: page.evaluate("Number(document.activeElement.dataset.index)") > 30)
    assert page.evaluate("scrollY") > 500
    for _ in range(14):
        page.keyboard.press("ArrowUp")
    until(page, lambda: page.evaluate("Number(document.activeElement.dataset.index)") < 4)


def test_the_focus_stays_while_one_scrolls_away(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog", 360)
    page.locator("[data-index='0']").focus()
    page.mouse.move(180, 500)
    wheel_to(page, 2500)
    expect(page.locator("[data-index='0']")).to_be_focused()
    assert page.locator("[data-index='12']").count() == 0


def test_matched_words_are_shown_on_focus(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+snow")
    page.locator("[data-index='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-index='0'] .why")).to_have_css("opacity", "1")
    assert page.locator("[data-index='0'] .why").inner_text().split() == "dog 62 % snow 38 %".split()


@pytest.mark.parametrize("knows_well", [False, True])
def test_the_honest_end_and_what_fits_well(
    visit: Visit, site: str, collection: Collection, knows_well: bool
) -> None:
    """Photos with both words come first; those with one of them are beyond the cut."""
    scores = [hit["score"] for hit in collection.search({"q": "dog snow", "k": 1000})["hits"]]
    collection.cut = 0.92
    fit = sum(score >= collection.cut for score in scores)
    said, ends = f"{fit} photos fit", [(fit, "show less of “dog” and “snow”")]
    if knows_well:
        collection.well = scores[2]
        well = sum(score >= collection.well for score in scores)
        assert 1 < well < fit
        said, ends = f"{well} photos fit well, {fit - well} in part", [(well, "fit in part"), *ends]
    assert 5 < fit < 60
    page = visit(f"{site}?q=dog+snow")
    expect(page.locator("[aria-live=polite]")).to_have_text(said)
    for place, (first, text) in enumerate(ends):
        line = page.locator(".line").nth(place)
        line.scroll_into_view_if_needed()
        expect(line).to_have_text(f"from here on, photos {text}")
        around = [page.locator(f"[data-index='{index}']") for index in (first - 1, first)]
        places = [each.bounding_box() for each in (around[0], line, around[1])]
        tops = [place["y"] for place in places if place]
        assert len(tops) == 3
        assert tops == sorted(tops)
        dim = ["below" in (each.locator("..").get_attribute("class") or "") for each in around]
        assert dim == [False, first == fit]


def test_all_that_is_loaded_fits_well(visit: Visit, site: str, collection: Collection) -> None:
    collection.well = collection.cut = 0.0
    number = len(collection.search({"q": "dog snow", "k": 1000})["hits"])
    page = visit(f"{site}?q=dog+snow")
    shown = f"{number} photos fit well" if number <= 60 else "more than 60 photos fit well"
    expect(page.locator("[aria-live=polite]")).to_have_text(shown)


def test_the_honest_end_names_what_is_shared(visit: Visit, site: str, collection: Collection) -> None:
    for photo in collection.photos[10:]:
        photo.words = {"two": 0.4}
    for photo in collection.photos[:10]:
        photo.words = {"dog": 0.9, "two": 0.5}
    collection.cut = 0.4
    page = visit(f"{site}?q=dog+two&adjust=%2Btwo%5E0.5")
    expect(page.locator(".line")).to_have_text("from here on, photos share only “two” with your query")


def test_nothing_fits_well(visit: Visit, site: str, collection: Collection) -> None:
    collection.cut = 5.0
    page = visit(f"{site}?q=sled")
    expect(page.locator(".line")).to_contain_text("Nothing fits “sled” well.")
    expect(page.locator("[aria-live=polite]")).to_have_text("nothing fits well; showing what comes nearest")
    expect(page.locator(".hit.below").first).to_be_visible()
