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


DOCS = ROOT / "docs"
IN_DOCS = [path.relative_to(DOCS) for path in PAGES if path.is_relative_to(DOCS)]


@pytest.mark.parametrize("page", IN_DOCS, ids=str)
def test_a_page_is_in_the_site(page: Path) -> None:
    """Under its own name: Sphinx writes pages of its own, such as search.html."""
    heading = re.search(r"^# ([^`\n]*)", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert heading
    shown = html.unescape((SITE / page.with_suffix(".html")).read_text(encoding="utf-8"))
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


OF_LEXLIP = ("from_pretrained", "push_to_hub", "save", "encode_image", "encode_text")
"""Methods that it inherits."""

FURTHER = (
    "lexlip.indexing.report.Indexed",
    "lexlip.indexing.report.Updated",
    "lexlip.measure.mteb_model.MtebModel",
    "lexlip.models.sparse_encoder.LexicalModule",
)
"""What public functions return, and what other tools take."""


def test_public_names_are_described() -> None:
    import anserini_bridge
    import lexlip

    page = (SITE / "api.html").read_text(encoding="utf-8")
    names = [f"lexlip.{name}" for name in lexlip.__all__]
    names += [f"anserini_bridge.{name}" for name in anserini_bridge.__all__]
    names += [f"lexlip.LexLIP.{name}" for name in OF_LEXLIP]
    assert not [name for name in (*names, *FURTHER) if f'id="{name}"' not in page]
