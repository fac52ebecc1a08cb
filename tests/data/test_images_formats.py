import re
from pathlib import Path

from PIL import Image

from lexlip.data.images import ENDINGS, SUFFIXES

PAGE = Path(__file__).parents[2] / "lexlip" / "server" / "page" / "photo.js"


def test_every_ending_that_pillow_knows_of_a_format_is_taken() -> None:
    registered = Image.registered_extensions()
    known = {ending for ending, name in registered.items() if name in (*ENDINGS, "MPO")}
    assert len(known) > 30
    assert known <= set(SUFFIXES)
    for name, endings in ENDINGS.items():
        assert {registered.get(ending, name) for ending in endings} <= {name, "MPO"}


def test_no_format_starts_a_program_or_shows_a_page() -> None:
    assert not {"EPS", "PDF", "WMF"} & set(ENDINGS)


def test_the_page_knows_what_browsers_show() -> None:
    (pattern,) = re.findall(r"SHOWN_BY_BROWSERS = /(.*)/i;", PAGE.read_text(encoding="utf-8"))
    shown = {ending for ending in SUFFIXES if re.search(pattern, f"a{ending}")}
    of_browsers = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF")
    assert shown == {ending for name in of_browsers for ending in ENDINGS[name]}
