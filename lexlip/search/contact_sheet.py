"""Contact sheets: one HTML page with thumbnails and words, of the hits of queries or of any photos."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from lexlip.data import decode
from lexlip.data.files import read_location
from lexlip.errors import DataError
from lexlip.machine.output_files import write_output
from lexlip.retrieval.answer import Answer, Hit
from lexlip.words.plain_text import forms_together

if TYPE_CHECKING:
    from lexlip.retrieval.photo import Photo

SIDE = 240  # pixels of a thumbnail's longer side
SHEET = "the contact sheet "  # in errors
WORDS = 6  # matching words shown for a hit


@dataclass(frozen=True)
class PhotoWords:
    """A photo and its words, with weights, in the order in which they are shown.

    Attributes:
        path: see `Source.path`.
        held: those of the words that its captions contain.
    """

    id: str
    path: str
    words: dict[str, float]
    held: list[str]
    captions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Found:
    """A photo, or with `text` one of its captions; `right`: it is what a query looks for."""

    id: str
    path: str
    text: str | None = None
    right: bool = False


@dataclass(frozen=True)
class Compared:
    """A query, which is a caption or a photo, and what stands side by side below it, each with a title."""

    query: Found
    note: str
    sides: Sequence[tuple[str, Sequence[Found]]]


_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>LexLIP contact sheet</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1rem; font-weight: 500; opacity: .7; }
h2 { margin: 2.5rem 0 .25rem; overflow-wrap: anywhere; }
p { margin: .25rem 0 1rem; }
ol { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.5rem 1.25rem;
     list-style: none; padding: 0; }
figure { margin: 0; }
.photo { display: block; width: 100%; aspect-ratio: 1; object-fit: contain; border-radius: .5rem;
         background: #8882; }
.gone { display: grid; place-content: center; font-size: .85rem; opacity: .7; }
figcaption { font-size: .85rem; overflow-wrap: anywhere; }
.name { display: flex; gap: .5em; margin: .25em 0; }
.score { font-variant-numeric: tabular-nums; opacity: .7; margin-left: auto; flex: none; }
.held { text-decoration: underline; text-underline-offset: .15em; }
.word { display: inline-block; padding: 0 .45em; margin: .1em 0; border-radius: 1em;
        background: color-mix(in srgb, #2a7 calc(var(--share) * 70%), #8883); }
.forms { white-space: nowrap; }
.forms .word + .word { border-start-start-radius: 0; border-end-start-radius: 0; }
.forms .word:not(:last-child) { border-start-end-radius: 0; border-end-end-radius: 0; }
.sides { display: grid; grid-template-columns: 1fr 2fr 2fr; gap: 1.5rem; }
.sides ol { grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); gap: .75rem; }
.asking { max-width: 13rem; }
@media (max-width: 45rem) { .sides { grid-template-columns: 1fr; } }
</style>
<h1>LexLIP contact sheet</h1>
"""
_TAIL = "\n</html>\n"


def write_contact_sheet(path: str | Path, answers: Sequence[Answer], read: Callable[[str], bytes]) -> None:
    """Write one page that needs no other file; a photo that cannot be read any more leaves an empty frame.

    `read` returns the bytes of a photo, given its id.
    """
    _write(path, (_section(answer, read) for answer in answers))


def write_word_sheet(path: str | Path, photos: Sequence[PhotoWords]) -> None:
    """Write a page of photos with the words that a model sees in them, and their captions."""
    figures = (
        _figure(
            photo.id,
            photo.path,
            html.escape(photo.id),
            _forms(photo.words, photo.held)
            + "".join(f"<p>{html.escape(caption)}</p>" for caption in photo.captions),
            _thumbnail(photo.path),
        )
        for photo in photos
    )
    note = "<p>Underlined: words of the photo's captions.</p>" if any(p.captions for p in photos) else ""
    _write(path, [f"<section>{note}{_list(figures)}</section>"])


def sheet_parts(
    query: str, photos: Iterable[tuple[Photo, bytes]], missing: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the parts of a page of photos with their names and dates, each when its photo comes.

    Args:
        query: what found them; "" is nothing.
        photos: each with a small copy of it as WebP.
        missing: what is said of photos that are not there, read behind the last photo.
    """
    yield _HEAD + "<section>" + (f"<h2>{html.escape(query)}</h2>\n" if query else "") + "<ol>"
    for photo, small in photos:
        day, _, time = (photo.taken or "").partition("T")
        date = f"<p>{html.escape(f'{day} {time[:5]}')}</p>" if day else ""
        name = html.escape(PurePath(photo.path).name)
        yield f"<li>{_figure(photo.id, photo.path, name, date, _inside('webp', small))}</li>\n"
    yield "</ol>" + "".join(f"<p>{html.escape(one)}</p>\n" for one in missing) + "</section>" + _TAIL


def write_comparison_sheet(path: str | Path, queries: Sequence[Compared]) -> None:
    """Write a page of queries, each with what two runs found for it side by side."""
    _write(path, map(_compared, queries))


def _compared(query: Compared) -> str:
    asking = query.query
    title = f"<h2>{html.escape(asking.id if asking.text is None else asking.text)}</h2>"
    if asking.text is None:
        title += (
            f'<div class="asking">{_figure(asking.id, asking.path, "", "", _thumbnail(asking.path))}</div>'
        )
    sides = "\n".join(
        f"<div><h3>{html.escape(name)}</h3>{_list(map(_found, found)) if found else '<p>nothing</p>'}</div>"
        for name, found in query.sides
    )
    return f'<section>{title}<p>{html.escape(query.note)}</p>\n<div class="sides">{sides}</div></section>'


def _found(found: Found) -> str:
    name = html.escape(found.id) + ' <span title="right">✓</span>' * found.right
    if found.text is None:
        return _figure(found.id, found.path, name, "", _thumbnail(found.path))
    text = html.escape(found.text)
    return f'<figure>{text}<figcaption><div class="name">{name}</div></figcaption></figure>'


def _write(path: str | Path, sections: Iterable[str]) -> None:
    page = _HEAD + "\n".join(sections) + _TAIL
    write_output(path, page.encode(), SHEET)


def _section(answer: Answer, read: Callable[[str], bytes]) -> str:
    title = f"<h2>{html.escape(answer.query)}</h2>\n<p>{_words(answer.as_shown(answer.terms), 12)}</p>"
    if not answer.hits:
        return f"<section>{title}\n<p>No photo shares a word with the query.</p></section>"
    return f"<section>{title}\n{_list(_hit(hit, answer, read) for hit in answer.hits)}</section>"


def _hit(hit: Hit, answer: Answer, read: Callable[[str], bytes]) -> str:
    name = f'{hit.rank}. {html.escape(hit.id)} <span class="score">{_scores(hit)}</span>'
    return _figure(
        hit.id, hit.path, name, _words(answer.as_shown(hit.words), WORDS), _thumbnail(hit.id, read)
    )


def _scores(hit: Hit) -> str:
    return f"{hit.score:.3f}" + ("" if hit.probability is None else f" · {hit.probability:.3f}")


def _list(figures: Iterable[str]) -> str:
    return "<ol>" + "\n".join(f"<li>{figure}</li>" for figure in figures) + "</ol>"


def _figure(id: str, path: str, name: str, caption: str, thumbnail: str | None) -> str:
    """Return a photo as HTML; name and caption are HTML, the thumbnail is a data URL."""
    title = html.escape(path)
    photo = (
        f'<img class="photo" alt="{html.escape(id)}" title="{title}" src="{thumbnail}">'
        if thumbnail
        else f'<div class="photo gone" title="{title}">cannot be read any more</div>'
    )
    return f'<figure>{photo}<figcaption><div class="name">{name}</div>{caption}</figcaption></figure>'


def _words(words: dict[str, float], most: int) -> str:
    top = max(words.values(), default=1.0)
    return " ".join(_word(word, weight, top) for word, weight in list(words.items())[:most])


def _forms(words: dict[str, float], held: Collection[str]) -> str:
    """Return words as HTML, the forms of one in one chip."""
    top = max(words.values(), default=1.0)
    chips = (
        [_word(form, words[form], top, form in held) for form in forms] for forms in forms_together(words)
    )
    return " ".join(f'<span class="forms">{"".join(chip)}</span>' for chip in chips)


def _word(word: str, weight: float, top: float, held: bool = False) -> str:
    return (
        f'<span class="word{" held" if held else ""}" style="--share:{weight / top:.2f}"'
        f' title="{weight:.4f}">{html.escape(word)}</span>'
    )


def _thumbnail(name: str, read: Callable[[str], bytes] = read_location) -> str | None:
    """Return a photo as a data URL, given what reads it by its name; None if it cannot be read any more."""
    try:
        photo = decode(read(name), SIDE)
    except DataError:
        return None
    photo.thumbnail((SIDE * 2, SIDE * 2))
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=80)
    return _inside("jpeg", buffer.getvalue())


def _inside(kind: str, picture: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
