"""An answer as `lexlip search` prints it: hits with their words, and how the query was understood."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lexlip.queries.query_language import forms, parse_query
from lexlip.registry import WITH_WORDS
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lexlip.retrieval.answer import Answer

_SHOWN = 100  # characters of a text that was not read
_ADVICE = 'begin it with a word to look for, as in "photo -dog"'


def show(answer: Answer, kind: str = "impact", filtered: bool = False) -> None:
    """Print the ranked hits and, unless the index is dense, the words that matched.

    `filtered` says whether photos had to meet further conditions.
    """
    reranking = answer.ms.get("rerank")
    _show_notes(answer)
    if kind in WITH_WORDS:
        terms = answer.as_shown(answer.terms)
        heaviest = " ".join(f"{word}:{weight:.2f}" for word, weight in list(terms.items())[:10])
        more = f" … {len(terms) - 10} more" if len(terms) > 10 else ""
        click.echo(f"query words: {heaviest + more or 'none'}")
    if not answer.hits:
        click.echo(_why_nothing(answer, kind, filtered))
    lines = dict(_lines(answer))
    for place, hit in enumerate(answer.hits):
        if place in lines:
            click.echo(f"---  {lines[place]}")
        again = ""
        if reranking is not None:
            again = "      -" if hit.probability is None else f"  {hit.probability:.3f}"
        same = f"  (and {len(hit.duplicates)} like it)" if hit.duplicates else ""
        click.echo(f"{hit.rank:3d}  {hit.score:.3f}{again}  {readable(hit.path)}{same}")
        if hit.words:
            click.echo(
                " " * 12 + " ".join(f"{w}:{x:.3f}" for w, x in list(answer.as_shown(hit.words).items())[:6])
            )
    reranked = f", rerank {reranking:.0f} ms" if reranking is not None else ""
    click.echo(
        f"encode {answer.ms['encode']:.0f} ms, search {answer.ms['search']:.1f} ms{reranked}", err=True
    )


def show_paths(answer: Answer, null: bool) -> None:
    """Print the paths alone: as they are for other commands, but a terminal could obey them."""
    _show_notes(answer)
    seen = sys.stdout.isatty() and not null
    for hit in answer.hits:
        click.echo(readable(hit.path) if seen else hit.path, nl=not null, color=True)
        if null:
            click.echo("\0", nl=False)


def _why_nothing(answer: Answer, kind: str, filtered: bool) -> str:
    if answer.unmet:
        return answer.unmet
    if answer.without and not parse_query(answer.query).plain:
        return f"the query only leaves words out: {_ADVICE}"
    photo = "photo that fits the filters" if filtered else "photo"
    shares = "fits" if kind == "dense" else "shares a word with"
    fewer = ", or fewer filters" * filtered + ", or leave out fewer words" * bool(answer.without)
    return f"no {photo} {shares} the query; try other words{fewer}"


def _show_notes(answer: Answer) -> None:
    for note in _notes(answer):
        click.echo(f"note: {readable(note)}", err=True)


def _notes(answer: Answer) -> Iterator[str]:
    """Yield how the query was understood."""
    if answer.not_english:
        yield answer.not_english
    if answer.other_languages:
        codes = " or ".join(answer.other_languages)
        yield f"'{answer.query}' is said in another language, too: --language {codes}"
    if unknown := answer.not_understood:
        rest = "; hits fit the other words, or what the model guesses" if answer.terms else ""
        yield f"not in the vocabulary: {', '.join(unknown)}{rest}"
    for word in unknown:
        if near := answer.meant.get(word):
            yield f"did you mean {' or '.join(near)} by {word}?"
    for phrase, words in answer.negations.items():
        shown = dict.fromkeys(
            answer.shown(word)
            for word in words
            if word in answer.translations or answer.translations.keys().isdisjoint(forms(word))
        )
        left_out = " ".join(f"-{word}" for word in shown)
        yield f"'{phrase}' is read as {left_out}; in double quotes it is text"
    if answer.unread:
        begin = answer.unread[:_SHOWN] + " …" * (len(answer.unread) > _SHOWN)
        yield f"too long for the model, which did not read the end: {begin}"


def _lines(answer: Answer) -> Iterator[tuple[int, str]]:
    """Yield the lines between hits that fit well, in part, and less, each with its place among the hits."""
    scores = [hit.score for hit in answer.hits]
    beyond = [place for place, score in enumerate(scores) if answer.cut is not None and score < answer.cut]
    if 0 < answer.above_well < answer.above and scores == sorted(scores, reverse=True):
        yield answer.above_well, "from here on, photos fit in part"
    if beyond:
        words = ", ".join(f"'{word}'" for word in dict.fromkeys(map(answer.shown, answer.below())))
        none = answer.hits[0].rank == 1 and not answer.above
        who = "no photo seems to fit; these share" if none else "from here on, photos share"
        yield beyond[0], f"{who} only {words} and the like"
