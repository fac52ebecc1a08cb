"""A contact sheet: one HTML page with the hits of some queries as thumbnails, and the words that matched."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Sequence
from pathlib import Path

from lexlip.data import decode
from lexlip.data.locations import read_location
from lexlip.errors import DataError
from lexlip.search.searching import Answer, Hit

SIDE = 240  # pixels of a thumbnail's longer side
WORDS = 6  # matching words shown for a hit

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>LexLIP contact sheet</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }}
h2 {{ margin: 2.5rem 0 .25rem; }}
p {{ margin: .25rem 0 1rem; }}
ol {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.25rem;
     list-style: none; padding: 0; }}
figure {{ margin: 0; }}
img {{ width: 100%; aspect-ratio: 1; object-fit: cover; border-radius: .5rem; background: #8882; }}
figcaption {{ font-size: .85rem; overflow-wrap: anywhere; }}
.word {{ display: inline-block; padding: 0 .45em; margin: .1em .15em .1em 0; border-radius: 1em;
        background: color-mix(in srgb, #2a7 calc(var(--share) * 70%), #8883); }}
.score {{ font-variant-numeric: tabular-nums; opacity: .75; }}
</style>
<h1>LexLIP contact sheet</h1>
{sections}
</html>
"""


def write_contact_sheet(path: str | Path, answers: Sequence[Answer]) -> None:
    """Write one page that needs no other file; photos that are gone are shown as an empty frame.

    Raises:
        DataError: the page cannot be written.
    """
    page = _PAGE.format(sections="\n".join(_section(answer) for answer in answers))
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"cannot write the contact sheet {path}: {error.strerror}") from error


def _section(answer: Answer) -> str:
    hits = "\n".join(_figure(hit) for hit in answer.hits) or "<li>no photo shares a word with the query</li>"
    title = f"<h2>{html.escape(answer.query)}</h2>\n<p>{_words(answer.terms, 12)}</p>"
    return f"<section>{title}\n<ol>{hits}</ol></section>"


def _figure(hit: Hit) -> str:
    name = html.escape(Path(hit.id).name)
    return (
        f'<li><figure><img alt="{name}" src="{_thumbnail(hit.path)}">'
        f'<figcaption>{hit.rank}. {name} <span class="score">{hit.score:.3f}</span><br>'
        f"{_words(hit.words, WORDS)}</figcaption></figure></li>"
    )


def _words(words: dict[str, float], most: int) -> str:
    top = max(words.values(), default=1.0)
    return "".join(
        f'<span class="word" style="--share:{weight / top:.2f}" title="{weight:.4f}">'
        f"{html.escape(word)}</span>"
        for word, weight in list(words.items())[:most]
    )


def _thumbnail(location: str) -> str:
    """A photo as a data URL; an empty picture where it cannot be read any more."""
    try:
        photo = decode(read_location(location), SIDE)
    except DataError:
        return "data:,"
    photo.thumbnail((SIDE * 2, SIDE * 2))
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
