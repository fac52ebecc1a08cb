"""Waiting, nothing found, the server gone or busy, the index updating, and names that attack."""

from __future__ import annotations

from contextlib import ExitStack
from urllib.parse import quote

from playwright.sync_api import expect

from tests.server.page.conftest import Visit
from tests.server.page.stand_in import Collection, Photo, StandIn, key_of, standing_in
from tests.server.page.test_search import asked, expect_hits, ids, search_for, until

HOSTILE = [
    "<img src=x onerror=alert(1)>.jpg",
    "a/\"onmouseover='alert(1)'/\".jpg",
    "‮gpj.live‬\u200e.jpg",
    "two\nlines\ttab\\back.jpg",
    "</script><script>alert(1)</script>.jpg",
    "${alert(1)}{{alert(1)}}`.jpg",
    "javascript:alert(1).jpg",
    "%3Cb%3E&lt;b&gt;#?.jpg",
]


FIRST_SEEN = """() => {
    window.firstSeen = new Promise((seen) => {
        new MutationObserver((changes, observer) => {
            const bar = document.querySelector(".waiting");
            if (bar === null) return;
            observer.disconnect();
            seen(getComputedStyle(bar).visibility);
        }).observe(document.body, { childList: true, subtree: true });
    });
}"""
"""Notes in the page whether the bar is visible when it appears: from outside, one may look too late."""


def test_a_quick_answer_shows_no_bar(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    expect(page.locator(".hit").first).to_be_visible()
    collection.delay = 1.0
    page.evaluate(FIRST_SEEN)
    search_for(page, "snow")
    assert page.evaluate("() => window.firstSeen") == "hidden"
    expect_hits(page, ids(collection, q="dog"))  # the answer of before stays
    expect(page.locator(".waiting")).to_have_css("visibility", "visible")
    expect_hits(page, ids(collection, q="snow"))
    expect(page.locator(".waiting")).to_have_count(0)


def test_a_new_question_overtakes_a_slow_one(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    expect(page.locator(".hit").first).to_be_visible()
    collection.delay = 1.0
    search_for(page, "snow")
    until(page, lambda: any("q=snow" in call for call in collection.asked))
    collection.delay = 0.0
    search_for(page, "beach")
    expect_hits(page, ids(collection, q="beach"))
    page.wait_for_timeout(1200)
    expect_hits(page, ids(collection, q="beach"))


def test_no_hits(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=zebra&folder=garden")
    expect(page.get_by_role("heading", name="No photo fits")).to_be_visible()
    expect(page.locator(".none")).to_contain_text("No photo has the word “zebra”")
    expect(page.locator("[aria-live=polite]")).to_have_text("no photo fits")
    page.get_by_role("button", name="Search all photos").click()
    expect(page.get_by_role("button", name="Search all photos")).to_have_count(0)
    assert asked(page) == {"q": ["zebra"]}
    search_for(page, "dog -dog")
    page.get_by_role("button", name="Let them in").click()
    expect(page.locator(".hit").first).to_be_visible()


def test_no_hits_as_filters_or_a_negation_leave_none(visit: Visit, site: str, collection: Collection) -> None:
    collection.unmet = "no photo is in the folder <b>nosuch</b>; folders are garden"
    page = visit(f"{site}?q=no+dog&folder=nosuch")
    expect(page.locator(".none")).to_contain_text(
        "No photo is in the folder <b>nosuch</b>; folders are garden. Search all photos"
    )
    expect(page.locator(".none")).to_contain_text("“no dog” leaves out photos that show “dog”.")
    page.get_by_role("button", name="Search all photos").click()
    page.get_by_role("button", name="Read it as text", exact=True).click()
    expect(page.locator(".hit").first).to_be_visible()
    assert asked(page) == {"q": ['"no dog"']}


def test_the_server_is_stopped_and_started_again(visit: Visit, collection: Collection) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(standing_in()).show(collection)
        page = visit(f"{address}?q=dog")
        expect(page.locator(".hit").first).to_be_visible()
        stack.close()
        search_for(page, "snow")
        expect(page.locator(".wrong")).to_contain_text("The server does not answer.")
        expect_hits(page, ids(collection, q="dog"))
        port = int(address.rstrip("/").rpartition(":")[2])
        stack.enter_context(standing_in(port)).show(collection)
        expect_hits(page, ids(collection, q="snow"))
        expect(page.locator(".wrong")).to_have_count(0)


def test_a_busy_server_is_asked_again(visit: Visit, site: str, collection: Collection) -> None:
    collection.busy = 1
    page = visit(f"{site}?q=dog")
    expect_hits(page, ids(collection, q="dog"))


def test_what_is_wrong_with_a_question_is_said(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    expect(page.locator(".hit").first).to_be_visible()
    collection.limit = 1
    search_for(page, "snow")
    expect(page.locator(".wrong")).to_have_text("k is too large")
    expect(page.locator(".hit")).to_have_count(0)  # those of "dog" are not those of "snow"
    collection.limit = 1000
    search_for(page, "play")
    expect(page.locator(".wrong")).to_have_count(0)
    expect_hits(page, ids(collection, q="play"))


def test_a_filter_that_is_refused_can_be_left(visit: Visit, site: str, collection: Collection) -> None:
    """Such as an album that is gone: the next question has the filter again."""
    collection.limit = 1
    page = visit(f"{site}?q=snow&album=gone")
    expect(page.locator(".wrong")).to_have_text("k is too large Search all photos")
    collection.limit = 1000
    page.get_by_role("button", name="Search all photos").click()
    expect_hits(page, ids(collection, q="snow"))
    assert asked(page) == {"q": ["snow"]}
    expect(page.locator(".wrong")).to_have_count(0)


def test_an_address_that_somebody_made_leads_to_no_other_call(visit: Visit, site: str) -> None:
    page = visit(f"{site}?photo=../status%3Fk=1")
    expect(page.locator("dialog.photo .note")).not_to_have_text("")
    page.keyboard.press("Escape")
    expect(page.locator(".hit").first).to_be_visible()


def test_a_very_long_word_fits_into_the_page(visit: Visit, site: str) -> None:
    for query in ("w" * 900, f"dog {'w' * 900}"):  # nothing fits, and a chip
        page = visit(f"{site}?q={query}", 360)
        expect(page.locator(".unknown, .none").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_the_index_is_updated(visit: Visit, site: str, collection: Collection) -> None:
    collection.update = {"running": True, "done": 20, "total": 1254, "message": ""}
    page = visit(f"{site}?q=dog")
    expect(page.locator(".lines")).to_have_text("The index is being updated: 1,234 photos to come.")
    newest = Photo("new.jpg", {"dog": 2.0})
    collection.photos.append(newest)
    for cached in ("postings", "by_id"):
        collection.__dict__.pop(cached, None)
    collection.update, collection.snapshot = {"running": False, "done": 0, "total": 0, "message": ""}, "2"
    page.get_by_role("button", name="Search again").click()
    expect_hits(page, ["new.jpg"], 1)
    expect(page.locator(".lines p")).to_have_count(0)


def test_no_script_in_a_name_runs(visit: Visit, stand_in: StandIn) -> None:
    photos = [
        Photo(name, {"dog": 0.9 - place / 100, name.split(".")[0]: 0.5}, camera=name, captions=[name])
        for place, name in enumerate(HOSTILE)
    ]
    address = stand_in.show(Collection(photos))
    page = visit(f"{address}?q={quote(HOSTILE[0])}&folder={quote(HOSTILE[1])}&caption={quote(HOSTILE[4])}")
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    expect(page.locator(".filters, .none").first).to_be_visible()
    page.goto(f"{address}?q=dog")
    expect(page.locator(".hit")).to_have_count(len(HOSTILE))
    for photo in photos:
        page.goto(f"{address}?q=dog&photo={key_of(photo.id)}")
        path, words = page.locator(".path bdi"), page.locator(".cloud button")
        expect(words).to_have_count(2)
        assert path.evaluate("node => node.textContent") == f"/photos/{photo.id}"
        assert {word.evaluate("node => node.textContent") for word in words.all()} == set(photo.words)
    assert page.locator("img[src=x], b b").count() == 0
    assert not said
