"""Chromium, driven by Playwright, on pages of a stand-in or of the real server."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.server.page.stand_in import Collection, StandIn, drawn_photos, standing_in

CHROMIUM = ("chromium-headless-shell", "chromium")
"""Both show the page alike; the former draws no windows around it, and takes half of the time."""
HEIGHTS = {360: 740, 390: 844, 768: 1024, 1280: 900, 1440: 900}
"""Of phones, a tablet and desktops, by width, in CSS pixels."""
WIDTHS = [360, pytest.param(768, marks=pytest.mark.slow), 1440]
"""For what must fit into each."""

PATIENCE = 120_000  # milliseconds until the page is as it should be: other processes may need the processors
expect.set_options(timeout=PATIENCE)

Visit = Callable[..., Page]


@pytest.fixture(scope="package")  # a session's would keep its event loop running in tests elsewhere
def browser() -> Iterator[Browser]:
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        pytest.fail(f"the page is tested in Chromium: apt-get install {CHROMIUM[0]}", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Open an address in a browser of its own; what the page complains of fails the test."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        expected = ("Failed to load resource", "Framing")  # the latter of a download that is refused
        if message.type == "error" and not message.text.startswith(expected):
            complaints.append(message.text)

    def visit(address: str, width: int = 1440, scheme: Any = "light", **options: Any) -> Page:
        size: Any = {"width": width, "height": HEIGHTS[width]}
        context = browser.new_context(viewport=size, color_scheme=scheme, **options)
        stack.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    with ExitStack() as stack:
        yield visit
    assert not complaints


@pytest.fixture
def collection() -> Collection:
    """A hundred photos, not served yet."""
    return Collection(drawn_photos(100))


@pytest.fixture(scope="package")
def stand_in() -> Iterator[StandIn]:
    with standing_in() as stand_in:
        yield stand_in


@pytest.fixture
def site(stand_in: StandIn, collection: Collection) -> str:
    """The page's address, with a hundred photos behind it."""
    return stand_in.show(collection)
