"""The query's words, changed by mouse and by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.server.page.conftest import WIDTHS, Visit
from tests.server.page.stand_in import Collection
from tests.server.page.test_search import asked, expect_chips, expect_hits, ids

CHOICES = {"boost": "snow^2", "weaker": "snow^0.5", "exclude": "-snow", "remove": "snow^0"}


def test_a_chip_by_mouse(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog+snow")
    chip = page.locator("[data-word=snow]")
    for choice, adjust in CHOICES.items():
        chip.click()
        page.get_by_role("menuitemradio", name=choice).click()
        expect(chip).to_have_class(f"chip {choice}")
        expect(chip).to_be_focused()
        assert asked(page) == {"q": ["dog snow"], "adjust": [adjust]}
        expect_hits(page, ids(collection, q="dog snow", adjust=[adjust]), 9)

        chip.click()
        expect(page.get_by_role("menuitemradio", name=choice)).to_have_attribute("aria-checked", "true")
        page.get_by_role("menuitemradio", name="normal").click()
        expect(chip).to_have_class("chip normal")
        assert asked(page) == {"q": ["dog snow"]}


def test_a_chip_by_keyboard(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+snow")
    chip = page.locator("[data-word=snow]")
    chip.focus()
    for key, state in [("+", "boost"), ("-", "normal"), ("-", "weaker"), ("-", "exclude"), ("+", "weaker")]:
        page.keyboard.press(key)
        expect(chip).to_have_class(f"chip {state}")
        expect(chip).to_be_focused()
    page.keyboard.press("Delete")
    expect(chip).to_have_class("chip remove")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitemradio", name="remove")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitemradio", name="boost")).to_be_focused()
    page.keyboard.press("Enter")
    expect(chip).to_have_class("chip boost")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(chip).to_be_focused()


def test_every_change_is_undone_by_back(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+snow")
    chip = page.locator("[data-word=snow]")
    chip.press("+")
    expect(chip).to_have_class("chip boost")
    chip.press("Delete")
    expect(chip).to_have_class("chip remove")
    page.go_back()
    expect(chip).to_have_class("chip boost")
    page.go_back()
    expect(chip).to_have_class("chip normal")


def test_marks_of_the_sentence_are_chips_too(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+-snow+%2Bsled+play%5E0.5")
    expect(page.locator("[data-word=snow]")).to_have_class("chip exclude")
    expect(page.locator("[data-word=sled]")).to_have_class("chip normal")
    page.locator("[data-word=snow]").press("Delete")
    expect(page.locator("[data-word=snow]")).to_have_class("chip remove")
    expect(page.get_by_role("searchbox")).to_have_value("dog +sled play^0.5")
    page.locator("[data-word=sled]").press("Delete")
    expect(page.locator("[data-word=sled]")).to_have_count(0)


def test_a_suggestion_is_added(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog")
    expected = collection.search({"q": "dog"})["suggestions"]
    assert page.locator(".suggestions button").first.inner_text() == expected[0]
    assert page.locator(".suggestions button").all_inner_texts() == expected
    page.get_by_role("button", name=expected[1]).click()
    expect(page.locator(f"[data-word={expected[1]}]")).to_be_focused()
    assert asked(page) == {"q": ["dog"], "adjust": [f"+{expected[1]}"]}
    expect_hits(page, ids(collection, q="dog", adjust=[f"+{expected[1]}"]))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_word_is_added_with_completion(visit: Visit, site: str, width: int) -> None:
    page = visit(f"{site}?q=dog", width)
    page.get_by_role("button", name="+ word").click()
    field = page.get_by_role("combobox", name="add a word")
    expect(field).to_be_focused()
    page.keyboard.type("s")
    expect(page.locator("[role=option]")).to_have_text(["snow50", "sled25"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="sled")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("[data-word=sled]")).to_be_focused()
    assert asked(page)["adjust"] == ["+sled"]

    page.get_by_role("button", name="+ word").click()
    page.keyboard.type("-pers")
    page.get_by_role("option", name="person").click()
    expect(page.locator("[data-word=person]")).to_have_class("chip exclude")
    assert asked(page)["adjust"] == ["+sled", "-person"]


def test_a_word_that_nobody_knows(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=dog+snaw")
    expect(page.locator(".unknown s")).to_have_text("snaw")
    page.get_by_role("button", name="snow?").click()
    expect(page.locator("[data-word=snow]")).to_be_focused()
    assert asked(page) == {"q": ["dog snow"]}
    expect_chips(page, ["dog", "snow"])


def test_a_negation_is_undone_by_a_click(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=snow++without+a+dog")
    chip = page.locator("[data-negation]")
    expect(chip).to_have_text("− dog ×")
    expect(page.locator("[data-word]")).to_have_count(1)
    expect_hits(page, ids(collection, q="snow -dog"))
    chip.click()
    expect(chip).to_have_count(0)
    assert asked(page) == {"q": ['snow "without a dog"']}
    expect_hits(page, ids(collection, q="snow dog"))


def test_a_sentence_that_is_not_english_is_told(visit: Visit, site: str, collection: Collection) -> None:
    page = visit(f"{site}?q=dog+snow")
    expect(page.locator(".tools")).not_to_contain_text("English")
    collection.foreign = True
    page.goto(f"{site}?q=dog")
    expect(page.locator(".tools")).to_contain_text("the model knows: say it in English.")


def test_many_words_are_folded(visit: Visit, site: str, collection: Collection) -> None:
    for photo in collection.photos[:9]:
        photo.words |= {f"word{place}": 0.3 for place in range(30)}
    page = visit(f"{site}?q=dog+" + "+".join(f"word{place}" for place in range(30)))
    expect(page.locator("[data-word]")).to_have_count(9)
    page.get_by_role("button", name="22 more").click()
    expect(page.locator("[data-word]")).to_have_count(31)


def test_an_index_without_words_has_no_chips(visit: Visit, site: str, collection: Collection) -> None:
    collection.knows_words = False
    page = visit(f"{site}?q=dog")
    expect(page.locator("[data-index='0'] img")).to_have_attribute("alt", "00000.jpg")
    expect(page.locator(".chips")).to_have_count(0)
    page.locator("[data-index='0']").click()
    expect(page.get_by_text("taken")).to_have_count(0)
    expect(page.get_by_role("link", name="similar photos")).to_be_visible()
    expect(page.locator(".cloud")).to_have_count(0)
    expect(page.get_by_role("table")).to_have_count(0)


def test_words_are_shown_in_the_language_of_the_query(visit: Visit, site: str) -> None:
    page = visit(f"{site}?q=der+dog+snow")
    chip = page.locator("[data-word=dog]")
    expect(chip).to_have_accessible_name(re.compile("^Hund, weight"))
    expect(page.locator("[data-word=snow]")).to_have_accessible_name(
        re.compile("^snow, weight")
    )  # it has none
    expect(page.locator(".hit img").first).to_have_attribute("alt", re.compile("Hund"))
    chip.press("-")
    expect(chip).to_have_class("chip weaker")
    assert asked(page) == {"q": ["der dog snow"], "adjust": ["dog^0.5"]}
    page.get_by_role("button", name="+ word").click()
    page.get_by_role("combobox", name="add a word").fill("hu")
    expect(page.get_by_role("option", name="Hund")).to_be_visible()
    page.keyboard.press("Enter")
    expect(chip).to_have_class("chip normal")
    assert asked(page) == {"q": ["der dog snow"], "adjust": ["+dog"]}
    page.locator(".hit a").first.click()
    expect(page.locator(".cloud").get_by_role("button", name="Hund, weight")).to_be_visible()
    expect(page.get_by_role("rowheader", name="Hund")).to_be_visible()
