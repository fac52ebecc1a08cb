"""The site that `make docs` builds can be read without a network."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.pages import PAGES

SITE = ROOT / "build" / "docs"

pytestmark = pytest.mark.docs


IN_DOCS = [path for path in PAGES if path.parent.name == "docs"]


@pytest.mark.parametrize("page", IN_DOCS, ids=lambda path: path.stem)
def test_a_page_is_in_the_site(page: Path) -> None:
    """Under its own name: Sphinx writes pages of its own, such as search.html."""
    heading = re.search(r"^# ([^`\n]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert heading
    shown = html.unescape((SITE / f"{page.stem}.html").read_text(encoding="utf-8"))
    assert f"<h1>{heading[1]}" in shown.replace("’", "'")


def test_nothing_is_loaded_from_elsewhere() -> None:
    loads = re.compile(
        r"""<(?:script|img|iframe)[^>]* src=["'](?:https?:)?//"""
        r"""|<link(?=[^>]* rel=["'](?:stylesheet|preload|icon))[^>]* href=["'](?:https?:)?//"""
    )
    styles = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")
    wrong = [path for path in SITE.rglob("*.html") if loads.search(path.read_text(encoding="utf-8"))]
    wrong += [path for path in SITE.rglob("*.css") if styles.search(path.read_text(encoding="utf-8"))]
    assert not wrong


def test_public_names_are_described() -> None:
    import lexlip

    page = (SITE / "api.html").read_text(encoding="utf-8")
    assert not [name for name in lexlip.__all__ if f'id="lexlip.{name}"' not in page]
