"""The site that `make docs` builds can be read without a network."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.docs.pages import PAGES

SITE = ROOT / "build" / "docs"

pytestmark = pytest.mark.docs


def test_every_page_is_in_the_site() -> None:
    pages = {path.stem for path in PAGES if path.parent.name == "docs"}
    assert pages <= {path.stem for path in SITE.glob("*.html")}


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
