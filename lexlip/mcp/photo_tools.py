"""What an agent can ask of an index: searches, similar photos, reasons, a look at a photo, its status.

The answers are also texts for it to read; names of files stand in quotes there, as strangers chose them.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, Unpack

from PIL import Image

from lexlip.data import decode
from lexlip.data.files import reading
from lexlip.errors import DataError
from lexlip.queries.query_language import Query, parse_query
from lexlip.registry import WITH_WORDS
from lexlip.retrieval.answer import Answer, Hit
from lexlip.search.answering import How
from lexlip.search.photo_search import PhotoSearch

SUGGESTED = 8  # words of an answer
STATES = 2  # of the index before the newest, whose cursors still work
FOLDERS = 100  # that the status names
QUALITY = 85  # of a picture as JPEG
SHOWN = 6  # words of a hit
OF_QUERY = 10  # words of a query
OF_PHOTO = 32  # words of a photo, or of a sentence that is explained


class PhotoTools:
    """The tools; several threads may use them. Each call is answered from the newest state of the index.

    For the arguments and errors see `PhotoSearch`, for `folders` its method `sending`.
    """

    def __init__(self, index: str | Path, folders: Sequence[str] = (), **options: Any) -> None:
        self._folders = folders
        self._search = PhotoSearch(index, keep_states=STATES, **options)
        self._refreshing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index."""
        self._search.close()

    def search(
        self,
        query: str,
        add: Sequence[str] = (),
        exclude: Sequence[str] = (),
        k: int = 10,
        language: str = "",
        **how: Unpack[How],
    ) -> Answer:
        """Return the k photos that fit a sentence and words (without + and -) best; see `PhotoSearch.text`.

        Raises:
            DataError: the query is empty, a mark or the cursor is wrong, or the index does not know words.
        """
        asked = _query(query, add, exclude, language)
        how.setdefault("suggest", SUGGESTED)
        return self._fresh().text(asked, k, **how)

    def similar(self, id: str, k: int = 10, **how: Unpack[How]) -> Answer:
        """Return the photos that are most similar to one of the index; see `PhotoSearch.similar`."""
        how.setdefault("suggest", SUGGESTED)
        return self._fresh().similar(id, k, **how)

    def explain(
        self, query: str = "", id: str = "", add: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return why: the arithmetic of a hit's score, the words of a photo, or those of a query.

        Returns:
            Of a photo "id", "path" and "words", its weighted words. With a query also "score" and "rows" (see
            `ScoreTable`). Of a query alone "words", as it is searched with, and "unknown".

        Raises:
            DataError: neither is given, there is no such photo, or the index does not know words.
        """
        from lexlip.explain.score_table import check_words, score_table

        search = self._fresh()
        check_words(search.stage.index)
        asks = bool(query.strip() or add)
        if not asks and not id:
            raise DataError("give a query, the id of a photo, or both")
        if not asks:
            photo = search.photo(id)
            return {"id": id, "path": photo.path, "words": search.photo_words(id)}
        asked = _query(query, add, exclude)
        if not id:
            with search.now() as (stage, _):
                asked = stage.read(asked)
                words, unknown = stage.terms(stage.encode(asked)), stage.unknown(asked)
            return {"query": asked.text, "words": words, "unknown": unknown}
        table = asdict(score_table(search, asked, id))
        return {"query": asked.text, **{name: table[name] for name in table if name != "digits"}}

    def photo(self, id: str, size: int) -> tuple[dict[str, Any], bytes]:
        """Return what is known about a photo, and its picture as a JPEG of `size` pixels at most.

        Raises:
            DataError: the index holds no such photo, or it cannot be read.
        """
        search = self._fresh()
        photo, words = search.photo(id), search.photo_words(id)
        with reading(photo.path), search.sending(id, self._folders) as (photo, read):
            picture = decode(read(), size)
        picture.thumbnail((size, size), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=QUALITY)
        return {**photo.to_dict(), "words": words}, buffer.getvalue()

    def status(self) -> dict[str, Any]:
        """Return what the index holds.

        Returns:
            "index", "documents", "kind", "model"; "made", when; "words", whether it knows words; and what
            `PhotoTable.facets` has: in "folders" the uppermost, with the number of all as "folders_in_all".
            In "albums" are the names of these.
        """
        search = self._fresh()
        with search.now() as (stage, photos):
            metadata, facets = stage.metadata, photos.facets()
        folders = facets["folders"]
        uppermost = sorted(folders, key=lambda one: one["folder"].count("/"))[:FOLDERS]
        return {
            "index": str(self._search.stage.index),
            "documents": metadata.documents,
            "kind": metadata.kind,
            "model": metadata.encoder,
            "made": metadata.created,
            "words": metadata.kind in WITH_WORDS,
            **facets,
            "folders": sorted(uppermost, key=lambda one: one["folder"]),
            "folders_in_all": len(folders),
            "albums": search.albums.names(),
        }

    def _fresh(self) -> PhotoSearch:
        """Return the search, in the newest state of the index."""
        with self._refreshing:
            self._search.refresh()
        return self._search


def _query(query: str, add: Sequence[str], exclude: Sequence[str], language: str = "") -> Query:
    marks = [*(f"+{word}" for word in add), *(f"-{word}" for word in exclude)]
    asked = parse_query(query, marks, language=language)
    if not (asked.plain or asked.narrowed):
        empty = "the query only leaves words out" if asked.without else "the query is empty"
        raise DataError(f"{empty}: give a sentence, or words to add")
    return asked


# ---- the answers as texts ----


def text_of_answer(answer: Answer) -> str:
    """Return the hits, a line each with the words that matched, and how to go on."""
    lines = []
    if answer.terms:
        lines.append(f"query words: {_words(answer.terms, OF_QUERY, 2)}")
    if answer.not_understood:
        lines.append(f"not in the vocabulary: {', '.join(map(quoted, answer.not_understood))}")
    if answer.not_english:
        lines.append(answer.not_english)
    if answer.other_languages:
        codes = " or ".join(answer.other_languages)
        lines.append(f"{quoted(answer.query)} is said in another language, too: language {codes}")
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
    if known["dated"] == "file":
        lines.append(f"its file is of {known['date']}")
    if known["latitude"] is not None:
        lines.append(f"place: {known['latitude']:.5f}, {known['longitude']:.5f}")
    for name in ("captions", "keywords", "text"):
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
    if status["albums"]:
        lines.append(f"albums: {', '.join(map(quoted, status['albums']))}")
    return "\n".join(lines)


def quoted(name: str) -> str:
    """Return a name in quotes, on one line."""
    text = json.dumps(name, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def _line(hit: Hit) -> str:
    when = {"camera": f", taken {hit.date}", "file": f", its file is of {hit.date}", "unknown": ""}[hit.dated]
    where = "" if hit.latitude is None else f", at {hit.latitude:.5f}, {hit.longitude:.5f}"
    words = f"\n   {_words(hit.words, SHOWN, 3)}" if hit.words else ""
    return f"{hit.rank}. {hit.score:.3f} id {quoted(hit.id)}{when}{where}, file {quoted(hit.path)}{words}"


def _words(weights: Mapping[str, float], most: int, digits: int) -> str:
    shown = [f"{word} {weight:.{digits}f}" for word, weight in list(weights.items())[:most]]
    more = f" … {len(weights) - most} more" if len(weights) > most else ""
    return " ".join(shown) + more if shown else "none"
