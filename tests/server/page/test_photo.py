"""One photo, large."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.server.page.conftest import WIDTHS, Visit
from tests.server.page.stand_in import Collection, key_of
from tests.server.page.test_search import asked, ids, until


def brightness(page: Page, side: int = 7) -> list[list[float]]:
    """How little the heat map darkens the middle of each of its side × side places."""
    found: list[list[float]] = page.evaluate(
        """(side) => {
            const canvas = document.querySelector(".heat canvas");
            const context = canvas.getContext("2d");
            const at = (place) => place * 32 + 16;
            return [...Array(side).keys()].map((row) => [...Array(side).keys()].map(
                (column) => 255 - context.getImageData(at(column), at(row), 1, 1).data[3]));
        }""",
        side,
    )
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_a_photo_is_opened_and_left(visit: Visit, site: str, collection: Collection, width: int) -> None:
    page = visit(f"{site}?q=dog+snow", width)
    page.locator("[data-index='2']").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    key = asked(page)["photo"][0]
    photo = collection.photo(key)
    expect(dialog.locator(".cloud button")).to_have_count(len(photo["words"]))
    expect(dialog.locator(".path")).to_have_text(photo["path"])
    about = dialog.get_by_role("heading").first
    expect(about).to_contain_text(photo["id"].rpartition("/")[2])
    expect(about).to_contain_text(f"{photo['width']} × {photo['height']} pixels")
    assert about.bounding_box()["y"] < dialog.locator(".cloud").bounding_box()["y"]
    if photo["taken"]:
        expect(about).to_contain_text(photo["taken"][:4])
    if photo["camera"]:
        expect(dialog.get_by_text(photo["camera"])).to_be_visible()
    expect(dialog.get_by_role("link", name="open original")).to_have_attribute(
        "href", f"api/photos/{key}/original"
    )
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("[data-index='2']")).to_be_focused()
    assert asked(page) == {"q": ["dog snow"]}
    page.go_forward()
    expect(dialog).to_be_visible()
    page.go_back()
    expect(dialog).to_have_count(0)


def test_arrow_keys_go_to_the_next_hit(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+snow")
    page.locator("[data-index='0']").click()
    expect(page.locator(".previous")).to_be_disabled()
    keys = [asked(page)["photo"]]
    for _ in range(62):  # beyond the first page of hits
        page.keyboard.press("ArrowRight")
        until(page, lambda: asked(page)["photo"] != keys[-1])
        keys.append(asked(page)["photo"])
    page.keyboard.press("ArrowLeft")
    until(page, lambda: asked(page)["photo"] == keys[-2])
    page.get_by_role("button", name="close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("[data-index='61']")).to_be_focused()
    expect(page.locator("[data-index='61']")).to_be_in_viewport()
    page.go_back()
    assert page.url == "about:blank"  # the photos on the way are no entries of the history


def test_a_key_waits_for_hits_that_are_on_their_way(visit: Visit, site: str, collection: Collection) -> None:
    hits = [key_of(id) for id in ids(collection, q="dog snow", k=61)]
    page = visit("about:blank")
    held: list[Route] = []
    page.route(re.compile(r"/api/search\?.*cursor=."), lambda route: held.append(route))
    page.goto(f"{site}?q=dog+snow&photo={hits[57]}")
    expect(page.locator(".next")).to_be_enabled()  # the first hits are there
    for key in hits[58:60]:
        page.keyboard.press("ArrowRight")
        until(page, lambda key=key: asked(page)["photo"] == [key])
    page.keyboard.press("ArrowRight")
    until(page, lambda: held)
    held[0].continue_()
    until(page, lambda: asked(page)["photo"] == [hits[60]])


def test_the_score_s_table(visit: Visit, site: str, collection: Collection) -> None:
    key = key_of(collection.photos[0].id)
    page = visit(f"{site}?q=dog+snow&adjust=snow%5E2&photo={key}")
    expect(page.get_by_role("table")).to_be_visible()
    rows = [row.split("\t") for row in page.locator("tbody tr").all_inner_texts()]
    expected = collection.explain(key, "dog snow", ["snow^2"])
    assert [[cell.strip() for cell in row] for row in rows] == [
        [row["word"], f"{row['query']:.2f}", f"{row['photo']:.2f}", f"{row['product']:.3f}"]
        for row in expected["rows"]
    ]
    expect(page.locator("tfoot td")).to_have_text(f"{expected['score']:.3f}")


def test_the_cloud_s_words_do_not_overlap(visit: Visit, site: str, collection: Collection) -> None:
    collection.photos[0].words |= {f"{'w' * (place % 9 + 2)}{place}": 0.9 - place / 40 for place in range(32)}
    key = key_of(collection.photos[0].id)
    page = visit(f"{site}?q=dog&photo={key}", 360)
    expect(page.locator(".cloud button")).to_have_count(38)
    boxes = page.locator(".cloud button").evaluate_all(
        "words => words.map((word) => [word.offsetLeft, word.offsetTop, word.offsetWidth, word.offsetHeight])"
    )
    width = page.locator(".cloud").evaluate("cloud => cloud.clientWidth")
    for place, (left, top, wide, high) in enumerate(boxes):
        assert left >= -1
        assert left + wide <= width + 1
        for x, y, w, h in boxes[:place]:
            assert left + wide <= x + 1 or x + w <= left + 1 or top + high <= y + 1 or y + h <= top + 1
    sizes = page.locator(".cloud button").evaluate_all(
        "words => words.map((word) => parseFloat(word.style.fontSize))"
    )
    assert sizes == sorted(sizes, reverse=True)
    assert page.locator(".cloud .asked").all_inner_texts() == ["dog"]


def test_a_word_shows_where_it_is(visit: Visit, site: str, collection: Collection) -> None:
    key = key_of(collection.photos[0].id)
    page = visit(f"{site}?q=dog&photo={key}")
    page.locator(".cloud button", has_text="snow").hover()
    expect(page.locator(".heat")).to_have_class("heat on")
    found, given = brightness(page), collection.places(key)["words"]["snow"]
    flat = [value for row in found for value in row]
    assert max(range(49), key=flat.__getitem__) == max(range(49), key=given.__getitem__)
    assert min(flat) < 80 < 200 < max(flat)

    page.mouse.move(5, 5)
    expect(page.locator(".heat")).to_have_class("heat")
    page.locator(".cloud button", has_text="dog").focus()  # the keyboard's way
    expect(page.locator(".mark")).to_have_text("dog")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="copy path").focus()
    expect(page.locator(".mark")).to_have_text("dog")  # it stays until it is pressed again
    assert sum("/places" in call for call in collection.asked) == 1


def test_the_picture_names_the_words_at_a_place(visit: Visit, site: str, collection: Collection) -> None:
    key = key_of(collection.photos[0].id)
    page = visit(f"{site}?q=dog&photo={key}")
    expect(page.locator(".cloud button").first).to_be_visible()
    assert not any(
        "/places" in call for call in collection.asked
    )  # the image model sleeps until it is needed
    box = page.locator("figure").bounding_box()
    assert box
    weights, places = collection.photos[0].words, collection.places(key)["words"]
    row, column = 4, 6
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    until(page, lambda: any("/places" in call for call in collection.asked))
    at = (box["x"] + box["width"] * (column + 0.5) / 7, box["y"] + box["height"] * (row + 0.5) / 7)
    strength = {word: weights[word] * places[word][row * 7 + column] for word in weights}
    expected = sorted((word for word in strength if strength[word] > 0), key=lambda word: -strength[word])[:3]
    assert expected

    def named() -> bool:
        page.mouse.move(*at)
        return page.locator(".names span").all_inner_texts() == expected

    until(page, named)
    assert set(page.locator(".cloud .named").all_inner_texts()) == set(expected)


def test_the_path_is_copied(visit: Visit, site: str, collection: Collection) -> None:
    key = key_of(collection.photos[0].id)
    page = visit(f"{site}?q=dog&photo={key}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="copy path").click()
    expect(page.locator(".note")).to_have_text("path copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"/photos/{collection.photos[0].id}"


def test_a_photo_that_is_gone(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog&photo={key_of('gone.jpg')}")
    expect(page.locator(".note")).to_have_text("there is nothing here")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert asked(page) == {"q": ["dog"]}


def test_photos_near_a_photo(visit: Visit, site: str, collection: Collection) -> None:
    collection.photos[0].place = (45.75, 4.85)
    page = visit(f"{site}?q=dog&photo={key_of(collection.photos[0].id)}")
    expect(page.get_by_text("Lyon, France · 45.75, 4.85")).to_be_visible()
    page.get_by_role("link", name="near here").click()
    until(page, lambda: asked(page) == {"q": ["near:45.75,4.85"]})
    page.goto(f"{site}?q=dog&photo={key_of(collection.photos[1].id)}")
    expect(page.locator(".path")).to_be_visible()
    expect(page.get_by_role("link", name="near here")).to_have_count(0)


@pytest.mark.parametrize("width", WIDTHS)
def test_where_text_stands_is_marked(visit: Visit, site: str, collection: Collection, width: int) -> None:
    photo = collection.photos[0]
    photo.words["text:exit"] = 1.0
    photo.text = ["Éxit 12", "Push to open"]
    photo.text_places = [[100, 200, 300, 200, 300, 260, 100, 260], [500, 700, 900, 690, 900, 760, 500, 770]]
    page = visit(f"{site}?q=text:exit", width)
    page.locator("[data-index='0']").click()
    marked = page.locator(".writing polygon")
    expect(marked).to_have_count(1)  # the line by which it was found
    figure, box = page.locator("figure").bounding_box(), marked.bounding_box()
    for side, size, at, length in (("x", "width", 0.1, 0.2), ("y", "height", 0.2, 0.06)):
        assert box[side] == pytest.approx(figure[side] + at * figure[size], abs=9)  # its line is thick
        assert box[size] == pytest.approx(length * figure[size], abs=18)
    page.get_by_role("button", name="Push to open").focus()  # as pointing at it does
    expect(marked).to_have_attribute("points", "500 700 900 690 900 760 500 770")
    page.get_by_role("button", name="copy path").focus()
    expect(marked).to_have_attribute("points", "100 200 300 200 300 260 100 260")
