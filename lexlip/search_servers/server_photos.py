"""The table of the photos of an index on a server; see `lexlip.retrieval.photo_table`."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexlip.data.files import Place
from lexlip.errors import UnreadableImage
from lexlip.queries.query_language import edit_distances
from lexlip.retrieval.filters import Filters, group_alike
from lexlip.retrieval.given_table import FEWEST_LETTERS, GIVEN
from lexlip.retrieval.given_words import Phrase
from lexlip.retrieval.photo import Dated, Photo, dated
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.retrieval.seal import read_as_indexed
from lexlip.search_servers.photo_documents import MODIFIED, facts_of, photo_of
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import Condition, Has, Scored, all_of, meets, was_given

UNNAMED = "no folder of photos is named: give --photos FOLDER"
_FACTS = ("id", "facts")
_MOST = 10_000  # folders, and words that a mistyped one may stand for
_LONGEST = 30  # letters of a mistyped word: a regular expression has at most 1,000 characters
_LOCATED = Has("place")


class ServerPhotos(PhotoTable):
    """The photos of an index on a server, as it answers now.

    Nothing that it answers is believed: a photo is read only below one of the `folders` that the user named,
    and only if its bytes are those that were indexed.
    """

    may_lack_places = False

    def __init__(
        self,
        index: PhotoIndex,
        folders: Sequence[str] = (),
        by_file: bool = False,
        given: Sequence[str] = GIVEN,
    ) -> None:
        self._index, self._by_file, self._given = index, by_file, given
        self._folders = [os.path.realpath(folder) for folder in folders]

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return self._index.count()

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        return [None if one is None else self._read_document(one) for one in self._index.get(ids, _FACTS)]

    def _read_document(self, document: Any) -> Photo:
        with self._index.understood():
            id, facts = facts_of(document)
            return photo_of(id, facts, self._file(facts))

    def _file(self, facts: Mapping[str, Any]) -> str:
        """Return where the file of a photo is: below a folder that the user named, or else where it was."""
        file = facts["file"]
        if facts["root"] is None:
            return str(file)
        roots = self._folders or [facts["root"]]
        places = [f"{root}/{file}" for root in roots]
        return next(filter(os.path.lexists, places), places[0])

    def dates_of(self, ids: Sequence[str]) -> list[Dated | None]:
        return [None if photo is None else photo.dated for photo in self.get(ids)]

    def places(self, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
        return {photo.id: photo.place for photo in self.get(ids) if photo and photo.place}

    def located(self, filters: Filters) -> NDArray[np.float64]:
        places = self.places(self._that([*meets(filters, self._by_file), _LOCATED]))
        return np.array(list(places.values()), dtype=np.float64).reshape(-1, 2)

    def dates(self) -> list[Dated]:
        with self._index.understood():
            found = map(facts_of, self._index.facts())
            return [dated(id, facts["taken"], facts["start"], facts["state"]) for id, facts in found]

    def select(self, filters: Filters) -> list[str]:
        return self._that(meets(filters, self._by_file))

    def _that(self, conditions: Iterable[Condition]) -> list[str]:
        return self._index.ids(all_of(conditions))

    # ---- the words that come with photos ----

    @property
    def knows_names(self) -> bool:
        return True

    def given_counts(self, wanted: Sequence[Phrase]) -> tuple[int, list[int]]:
        number, *counts = self._index.counts(
            [all_of(()), *(was_given(phrase, self._given, beside=False) for phrase in wanted)]
        )
        return number, counts

    def spelled_like(self, words: Sequence[str]) -> list[dict[str, int] | None]:
        _, counts = self.given_counts([Phrase((word,)) for word in words])
        known = [len(word) < FEWEST_LETTERS or count for word, count in zip(words, counts, strict=True)]
        return [None if has else self._spelled_like(word) for word, has in zip(words, known, strict=True)]

    def _spelled_like(self, word: str) -> dict[str, int]:
        if len(word) > _LONGEST:
            return {}
        near = "|".join(f"{word[:place]}.{{1,3}}{word[place + 2 :]}" for place in range(len(word) - 1))
        found = self._index.terms("spelled", near, _MOST)
        others = sorted(found)
        slips = np.flatnonzero(edit_distances(word, others) <= 1) if others else ()
        return {others[place]: found[others[place]] for place in slips}

    def having(self, field: str, wanted: Sequence[Phrase]) -> list[str]:
        return self._that(was_given(phrase, [field]) for phrase in wanted)

    def given(
        self, wanted: Sequence[Phrase], weights: Sequence[float], number: int
    ) -> list[tuple[str, float]]:
        parts = [
            Scored(was_given(phrase, self._given), weight)
            for phrase, weight in zip(wanted, weights, strict=True)
            if weight > 0
        ]
        return self._index.best(parts, number, None)

    def same_name(self, id: str) -> list[str]:
        forms = list(dict.fromkeys(unicodedata.normalize(form, id) for form in ("NFC", "NFD")))
        return [form for form, found in zip(forms, self._index.get(forms, ["id"]), strict=True) if found]

    def facets(self) -> dict[str, Any]:
        return dict(self._facets)

    @cached_property
    def _facets(self) -> dict[str, Any]:
        folders = self._index.terms("folders", ".*", _MOST)
        first, last = (self._index.first("taken", order) for order in ("asc", "desc"))
        with_date, captioned, located = self._index.counts([Has("taken"), Has("said"), _LOCATED])
        return {
            "folders": [{"folder": name, "photos": folders[name]} for name in sorted(folders)],
            "first": first and first[:10],
            "last": last and last[:10],
            "dated": with_date,
            "by_file_time": self._index.count(Has(MODIFIED)) if self._by_file else 0,
            "captioned": captioned,
            "located": located,
        }

    # ---- files ----

    def read(self, id: str) -> bytes:
        return self.send(id, (), {})

    def send(self, id: str, folders: Sequence[str], tables: Mapping[str, str]) -> bytes:
        (photo,) = self.get([id])
        if photo is None:
            raise UnreadableImage("not in the index", id)
        if not self._folders:
            raise UnreadableImage(UNNAMED, photo.path)
        size = None if photo.offset is None else photo.size
        place = Place(photo.file, photo.offset, size)
        return read_as_indexed(place, photo.digest, "", self._folders, sealed=False)

    def group(self, ids: Sequence[str]) -> list[list[str]]:
        photos = zip(ids, self.get(ids), strict=True)
        return group_alike([(id, p.digest, p.fingerprint) if p else (id, "", None) for id, p in photos])
