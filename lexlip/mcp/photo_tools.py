"""What an agent can ask of an index: searches, similar photos, reasons, a look at a photo, its status."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, Unpack

from PIL import Image

from lexlip.data import decode
from lexlip.data.files import reading
from lexlip.errors import DataError
from lexlip.queries.query_language import Query, parse_query
from lexlip.registry import WITH_WORDS
from lexlip.retrieval.answer import Answer
from lexlip.search.answering import How
from lexlip.search.photo_search import PhotoSearch

SUGGESTED = 8  # words of an answer
STATES = 2  # of the index before the newest, whose cursors still work
FOLDERS = 100  # that the status names
QUALITY = 85  # of a picture as JPEG


class PhotoTools:
    """The tools; several threads may use them.

    Each call is answered from the newest state of the index.

    Args:
        index, options: see `PhotoSearch`, also for errors.
        folders: see `PhotoSearch.sending`.
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
        **how: Unpack[How],
    ) -> Answer:
        """Return the photos that fit a sentence and words best; see `PhotoSearch.text`.

        Args:
            query: see `lexlip.queries.query_language`.
            add, exclude: words, without + and -.
            k: photos of a page.
            how: see `How`.

        Raises:
            DataError: the query is empty, a mark or the cursor is wrong, or the index does not know words.
        """
        asked = _query(query, add, exclude)
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

        Args:
            query, add, exclude: see `search`.
            id: of a photo; without it the query's own words are explained.

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
        """
        with self._fresh().now() as (stage, photos):
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
        }

    def _fresh(self) -> PhotoSearch:
        """Return the search, in the newest state of the index."""
        with self._refreshing:
            self._search.refresh()
        return self._search


def _query(query: str, add: Sequence[str], exclude: Sequence[str]) -> Query:
    asked = parse_query(query, [*(f"+{word}" for word in add), *(f"-{word}" for word in exclude)])
    if not asked.plain:
        empty = "the query only leaves words out" if asked.without else "the query is empty"
        raise DataError(f"{empty}: give a sentence, or words to add")
    return asked
