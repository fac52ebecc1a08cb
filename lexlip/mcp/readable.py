"""Answers as short texts for an agent to read; names of files stand in quotes, as strangers chose them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lexlip.retrieval.answer import NOT_ENGLISH, Answer, Hit

SHOWN = 6  # words of a hit
OF_QUERY = 10  # words of a query
OF_PHOTO = 32  # words of a photo, or of a sentence that is explained


def text_of_answer(answer: Answer) -> str:
    """Return the hits, a line each with the words that matched, and how to go on."""
    lines = []
    if answer.terms:
        lines.append(f"query words: {_words(answer.terms, OF_QUERY, 2)}")
    if answer.unknown:
        lines.append(f"not in the vocabulary: {', '.join(map(quoted, answer.unknown))}")
    if answer.foreign:
        lines.append(NOT_ENGLISH)
    for word, near in answer.meant.items():
        lines.append(f"did you mean {' or '.join(near)} by {quoted(word)}?")
    for phrase, words in answer.negations.items():
        lines.append(f"{quoted(phrase)} leaves out {', '.join(words)}; in quotation marks it is text")
    if answer.unmet:
        lines.append(quoted(answer.unmet))
    elif not answer.hits:
        lines.append("no photo fits: try other words, or fewer conditions")
    lines += [_line(hit) for hit in answer.hits]
    if answer.cut is not None and any(hit.score < answer.cut for hit in answer.hits):
        lines.append(f"photos with a score below {answer.cut:.3f} are unlikely to fit")
    if answer.well is not None and 0 < answer.above_well < answer.above:
        lines.append(f"photos with a score below {answer.well:.3f} fit in part only")
    if answer.unread:
        lines.append(f"too long for the model, which did not read the end: {quoted(answer.unread)}")
    if answer.suggestions:
        lines.append(f"words to add or exclude: {', '.join(answer.suggestions)}")
    if answer.cursor:
        lines.append(f"there are more: the same call with cursor {quoted(answer.cursor)}")
    return "\n".join(lines)


def text_of_reasons(reasons: Mapping[str, Any]) -> str:
    """Return what `PhotoTools.explain` returned as a table, or as a list of words."""
    lines = []
    if "path" in reasons:
        lines.append(f"photo {quoted(reasons['id'])}, {quoted(reasons['path'])}")
    if "rows" in reasons:
        lines.append("word: weight in the query * weight in the photo = what it adds to the score")
        for row in reasons["rows"]:
            factors = f"{row['query']:.3f} * {row['photo']:.3f}"
            lines.append(f"{row['word']}: {factors} = {row['product']:.6f}")
        lines.append(f"score: {reasons['score']:.6f}")
    else:
        lines.append(f"words: {_words(reasons['words'], OF_PHOTO, 3)}")
    if reasons.get("unknown"):
        lines.append(f"not in the vocabulary: {', '.join(map(quoted, reasons['unknown']))}")
    return "\n".join(lines)


def text_of_photo(known: Mapping[str, Any]) -> str:
    """Return the facts about a photo."""
    lines = [f"photo {quoted(known['id'])}, {quoted(known['path'])}"]
    if known["width"]:
        lines.append(f"size: {known['width']} x {known['height']} pixels")
    for name in ("taken", "camera"):
        if known[name]:
            lines.append(f"{name}: {quoted(known[name])}")
    for name in ("captions", "keywords"):
        if known[name]:
            lines.append(f"{name}: {', '.join(map(quoted, known[name]))}")
    if known["words"]:
        lines.append(f"words: {_words(known['words'], OF_PHOTO, 3)}")
    return "\n".join(lines)


def text_of_status(status: Mapping[str, Any]) -> str:
    """Return what an index holds."""
    lines = [
        f"{status['documents']} photos in {quoted(status['index'])}, made {status['made']} with"
        f" {quoted(status['model'])}"
    ]
    if not status["words"]:
        lines.append("it knows no words: sentences only, without words to add or exclude")
    dated = f"{status['dated']} photos have a date"
    lines.append(f"{dated}, from {status['first']} to {status['last']}" if status["dated"] else dated)
    lines.append(f"{status['captioned']} photos have captions or keywords")
    folders = [f"{quoted(one['folder'])} ({one['photos']})" for one in status["folders"]]
    if folders:
        more = status["folders_in_all"] - len(folders)
        lines.append(f"folders: {', '.join(folders)}" + (f" and {more} more" if more else ""))
    return "\n".join(lines)


def quoted(name: str) -> str:
    """Return a name in quotes, on one line."""
    text = json.dumps(name, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def _line(hit: Hit) -> str:
    taken = f", taken {hit.taken}" if hit.taken else ""
    words = f"\n   {_words(hit.words, SHOWN, 3)}" if hit.words else ""
    return f"{hit.rank}. {hit.score:.3f} id {quoted(hit.id)}{taken}, file {quoted(hit.path)}{words}"


def _words(weights: Mapping[str, float], most: int, digits: int) -> str:
    shown = [f"{word} {weight:.{digits}f}" for word, weight in list(weights.items())[:most]]
    more = f" … {len(weights) - most} more" if len(weights) > most else ""
    return " ".join(shown) + more if shown else "none"
