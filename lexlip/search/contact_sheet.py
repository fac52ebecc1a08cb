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
h1 {{ font-size: 1rem; font-weight: 500; opacity: .7; }}
h2 {{ margin: 2.5rem 0 .25rem; overflow-wrap: anywhere; }}
p {{ margin: .25rem 0 1rem; }}
ol {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.5rem 1.25rem;
     list-style: none; padding: 0; }}
figure {{ margin: 0; }}
.photo {{ display: block; width: 100%; aspect-ratio: 1; object-fit: contain; border-radius: .5rem;
         background: #8882; }}
.gone {{ display: grid; place-content: center; font-size: .85rem; opacity: .7; }}
figcaption {{ font-size: .85rem; overflow-wrap: anywhere; }}
.name {{ display: flex; gap: .5em; margin: .25em 0; }}
.score {{ font-variant-numeric: tabular-nums; opacity: .7; margin-left: auto; flex: none; }}
.word {{ display: inline-block; padding: 0 .45em; margin: .1em 0; border-radius: 1em;
        background: color-mix(in srgb, #2a7 calc(var(--share) * 70%), #8883); }}
</style>
<h1>LexLIP contact sheet</h1>
{sections}
</html>
"""


def write_contact_sheet(path: str | Path, answers: Sequence[Answer]) -> None:
    """Write one page that needs no other file; a photo that is gone leaves an empty frame.

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
    title = f"<h2>{html.escape(answer.query)}</h2>\n<p>{_words(answer.terms, 12)}</p>"
    if not answer.hits:
        return f"<section>{title}\n<p>No photo shares a word with the query.</p></section>"
    hits = "\n".join(_figure(hit) for hit in answer.hits)
    return f"<section>{title}\n<ol>{hits}</ol></section>"


def _figure(hit: Hit) -> str:
    name, path = html.escape(hit.id), html.escape(hit.path)
    thumbnail = _thumbnail(hit.path)
    photo = (
        f'<img class="photo" alt="{name}" title="{path}" src="{thumbnail}">'
        if thumbnail
        else f'<div class="photo gone" title="{path}">cannot be read any more</div>'
    )
    return (
        f"<li><figure>{photo}<figcaption>"
        f'<div class="name">{hit.rank}. {name} <span class="score">{hit.score:.3f}</span></div>'
        f"{_words(hit.words, WORDS)}</figcaption></figure></li>"
    )


def _words(words: dict[str, float], most: int) -> str:
    top = max(words.values(), default=1.0)
    return " ".join(
        f'<span class="word" style="--share:{weight / top:.2f}" title="{weight:.4f}">'
        f"{html.escape(word)}</span>"
        for word, weight in list(words.items())[:most]
    )


def _thumbnail(location: str) -> str | None:
    """A photo as a data URL; None where it cannot be read any more."""
    try:
        photo = decode(read_location(location), SIDE)
    except DataError:
        return None
    photo.thumbnail((SIDE * 2, SIDE * 2))
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
