"""From an encoded query to a page of hits, within one state of an index."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from anserini_bridge import UnknownId
from lexlip.data.nearness import distance
from lexlip.errors import DataError
from lexlip.models.word_table import translated
from lexlip.queries.query_language import ENGLISH, Query, forms
from lexlip.retrieval.answer import NO_ENDS, Answer, Ends, Hit
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.given_words import Phrase, exactly, phrases_in
from lexlip.retrieval.photo import Photo
from lexlip.retrieval.photo_table import OldPhotoTable
from lexlip.retrieval.seal import sealed_tables
from lexlip.search.cursors import Cursor, begin, digest
from lexlip.search.named_photos import NAMED_POWER, named_shares
from lexlip.search.unmet import why_unmet
from lexlip.words.plain_text import folded, readable, whole, words_in
from lexlip.words.vocabulary import is_content_word

if TYPE_CHECKING:
    from lexlip.retrieval.first_stage import FirstStage
    from lexlip.search.by_date import ByDate
    from lexlip.search.rerank import Reranker

Sort = Literal["match", "date", "place"]
"""The order of hits: best first, or newest first among those above the cut."""

Narrowed = tuple[tuple[str, tuple[Phrase, ...]], ...]
"""Fields, with phrases that a photo must have been given in each."""

REORDERED = 100  # hits that are put into another order if there is no cut; of names alone all


class How(TypedDict, total=False):
    """What every search takes besides the query and k.

    Attributes:
        min_score: the lowest score of a hit.
        cursor: `Answer.cursor` of the page before; the query and everything else must be the same.
        group: show near-duplicates as one hit.
        suggest: number of words to suggest.
        content_only: look at what photos show alone, not at the words that people gave them.
    """

    filters: Filters | None
    min_score: float | None
    cursor: str | None
    sort: Sort
    group: bool
    suggest: int
    content_only: bool


class Conditions(NamedTuple):
    """What photos must meet: filters, and words that they were given, do not hold, and were not given."""

    filters: Filters | None
    narrowed: Narrowed
    without: tuple[str, ...]
    not_given: tuple[str, ...]


class Asked(NamedTuple):
    """A query that is encoded.

    Attributes:
        text: as the answer shows it.
        key: what tells it from other queries.
        encoded: as the first stage takes it.
        query: the sentence with its marks, if there is one.
        unknown, unread, meant, foreign: see `Answer`.
        phrases: what of the sentence is looked for in the words that people gave photos.
        path: the photo whose path the sentence is.
        not_given: words that people must not have given them: those of "-" marks, and as they were typed. A
            negation leaves no captions out, as its own says it too: "a rocket without cars".
        narrowed: what they must have been given.
        folders: the folders that they must all be in.
        near: the place near which they must have been taken.
        other_languages, install, shown_in: see `Answer`.
        itself: the photo that is asked about, which is left out of the hits.
        ms: milliseconds that encoding it took.
    """

    text: str
    key: str
    encoded: Any
    query: Query | None = None
    unknown: Sequence[str] = ()
    unread: str = ""
    meant: Mapping[str, list[str]] = MappingProxyType({})
    foreign: bool = False
    phrases: tuple[Phrase, ...] = ()
    path: str | None = None
    not_given: tuple[str, ...] = ()
    narrowed: Narrowed = ()
    folders: tuple[str, ...] = ()
    near: str | None = None
    other_languages: tuple[str, ...] = ()
    install: str = ""
    shown_in: str = ""
    itself: str | None = None
    ms: float = 0.0

    @property
    def names_only(self) -> bool:
        """Whether nothing is asked about what photos show, so that all with the given words are hits."""
        return self.query is not None and bool(self.query.narrowed) and not self.query.plain

    @property
    def without(self) -> tuple[str, ...]:
        """The words that photos must not hold."""
        return self.query.without if self.query else ()

    def conditions(self, filters: Filters | None) -> Conditions:
        """Return what photos must meet, filters too."""
        return Conditions(filters, self.narrowed, self.without, self.not_given)


class NoSuchPhoto(DataError, UnknownId):
    """A photo that an index does not hold."""


def check_id(id: str) -> None:
    """Raise NoSuchPhoto for what is no text, or has half a character, which no index holds and Java takes."""
    if not isinstance(id, str) or whole(id) != id:
        raise NoSuchPhoto(
            f"no index holds a photo with the id {id!r}: give the id of a hit, as --json shows it"
        )


class IndexState:
    """One state of an index, with its tables of photos.

    Raises:
        Moved: a writer has changed the index since the stage saw it.
    """

    def __init__(self, stage: FirstStage) -> None:
        with ExitStack() as opened:
            self.stage = opened.enter_context(stage.hold())
            self.photos, *self._more = (opened.enter_context(table) for table in self.stage.tables())
            self._opened = opened.pop_all()
        self.allow = lru_cache(maxsize=8)(self._allow)  # the filters of one page after another
        self.meeting = lru_cache(maxsize=8)(self._meeting)
        self.given = lru_cache(maxsize=8)(self._given)
        self.by_date = lru_cache(maxsize=8)(self._by_date)
        self.located = lru_cache(maxsize=4)(self.photos.located)  # a map is moved about
        self._ordering = threading.Lock()  # a page asks for its months and its photos at once

    def close(self) -> None:
        """Close the stage and the tables."""
        self._opened.close()

    @property
    def name(self) -> str:
        """What cursors call it."""
        return digest(self.stage.state)

    def _allow(self, asked: Conditions) -> Any:
        """Return the photos that meet conditions, as the stage's search takes them."""
        meeting = self.meeting(asked.filters, asked.narrowed)
        return self.stage.allow(meeting, asked.without, self.given(asked.not_given))

    def gave(self, words: Sequence[str]) -> set[str]:
        """Return which of some words people gave to a photo."""
        wanted = {word: each[0] for word in words if self.stage.adds_names and (each := exactly([word]))}
        counts = self.photos.given_counts(list(wanted.values()))[1] if wanted else []
        return {word for word, count in zip(wanted, counts, strict=True) if count}

    def _given(self, words: tuple[str, ...]) -> frozenset[str]:
        """Return the ids of the photos that people gave at least one of some words."""
        wanted = exactly(words) if self.stage.adds_names else []
        found = self.photos.given(wanted, [1.0] * len(wanted), sys.maxsize) if wanted else ()
        return frozenset(id for id, _ in found)

    def _meeting(self, filters: Filters | None, narrowed: Narrowed) -> list[str] | None:
        """Return the ids of the photos that meet filters, and that people gave some words; None: all."""
        if not filters and not narrowed:
            return None
        each = [self.photos.select(filters)] if filters else []
        each += [self.photos.having(name, wanted) for name, wanted in narrowed]
        return sorted(set(each[0]).intersection(*each[1:]))

    def ids(self, asked: Conditions, of: Sequence[str] | None = None) -> list[str]:
        """Return the ids of the photos, or `of` some, that meet conditions."""
        held = self.stage.holding(asked.without) if asked.without else frozenset()
        gone = held | self.given(asked.not_given)
        meeting = self.meeting(asked.filters, asked.narrowed)
        if of is None and meeting is None:
            of = sorted(self.photos.select(Filters()))
        met = set(of or ()) if meeting is None else set(meeting)
        return [id for id in (meeting or () if of is None else of) if id in met and id not in gone]

    def _by_date(self, filters: Filters | None) -> ByDate:
        """Return the photos that meet filters by date, newest first."""
        if filters:
            return self.by_date(None).only(self.photos.select(filters))
        with self._ordering:
            return self._all_by_date

    @cached_property
    def _all_by_date(self) -> ByDate:
        from lexlip.search.by_date import by_date

        return by_date(self.photos.dates())

    def named(
        self, asked: Asked, filters: Filters | None, best: Sequence[FoundPhoto], ends: Ends
    ) -> list[FoundPhoto]:
        """Return the photos that people gave words of a sentence, with what these add to their scores.

        A photo with all phrases gets as much as the best score by content, and at least the score from which
        on photos fit well; one with a part of them less. The photo whose path was typed comes first.

        Args:
            asked: the sentence.
            filters: that they meet.
            best: the best photo by content, if there is one.
            ends: where hits end by content.
        """
        shares = named_shares(self.photos, asked.phrases, self._names(asked), self._accented(asked))
        if not shares:
            return []
        ids = self.ids(asked.conditions(filters), list(shares))
        if not ids:
            return []
        (held,), (scores,) = self.stage.search([asked.encoded], len(ids), self.stage.allow(ids))
        content = dict(zip(held, map(float, scores), strict=True))
        highest = [photo.score for photo in best] + [end for end in ends if end is not None]
        whole = max([0.0, *highest]) or 1.0
        adds = {id: whole * (2 if id == asked.path else shares[id] ** NAMED_POWER) for id in ids}
        named = [FoundPhoto(id, content.get(id, 0.0) + added, named=added) for id, added in adds.items()]
        return sorted(named, key=lambda photo: (photo.id != asked.path, -photo.score))

    def _names(self, asked: Asked) -> list[str]:
        """Return the words of phrases that may be names: the model knows neither them nor their other number.

        Nor are they slips of words that it knows: the phrases have what was meant instead.
        """
        language, unread = asked.query.language if asked.query else "", set(map(folded, asked.unknown))
        if asked.query is not None and language not in ("", ENGLISH):
            counts = self.photos.given_counts(asked.phrases)[1]
            given = {
                word for one, count in zip(asked.phrases, counts, strict=True) if count for word in one.words
            }
            sentence = " ".join(word for word in words_in(asked.query.sentence) if folded(word) in given)
            unread.update(map(folded, self.stage.names(replace(asked.query, sentence=sentence))))
        words = {
            word
            for phrase in asked.phrases
            if language in ("", ENGLISH) or phrase.typed or not unread.isdisjoint(phrase.words)
            for word in phrase.words
        }
        own = {
            word: {form for form in forms(word) if form == word or is_content_word(form)} for word in words
        }
        unknown = set(self.stage.unknown(" ".join(set().union(*own.values())))) if own else set()
        return [word for word, both in own.items() if both <= unknown]

    def _accented(self, asked: Asked) -> dict[str, str]:
        """Return words of a foreign sentence that are others without accents, by these: "Bär" by bar."""
        if asked.query is None or asked.query.language in ("", ENGLISH):
            return {}
        typed = {folded(word): word.casefold() for word in words_in(asked.query.sentence)}
        said = self.stage.terms(asked.encoded)
        others = {plain: word for plain, word in typed.items() if plain != word and plain not in said}
        unknown = set(self.stage.unknown(" ".join(others))) if others else set()
        return {plain: word for plain, word in others.items() if plain not in unknown}

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        """Return photos; of two indexes the first may lack some."""
        found = self.photos.get(ids)
        for table in self._more:
            if None in found:
                found = [one or other for one, other in zip(found, table.get(ids), strict=True)]
        return found

    def read(self, id: str) -> bytes:
        """Return the bytes of a photo as they are now; see `PhotoTable.read`."""
        has = (table for table in (self.photos, *self._more) if table.get([id]) != [None])
        return next(has, self.photos).read(id)

    def id_of(self, name: str) -> str:
        """Return the id that is a name in Unicode's NFC; the name itself if there is none."""
        if name.isascii() or self.get([name]) != [None]:
            return name
        same = self.photos.same_name(name)
        return same[0] if len(same) == 1 else name

    def photo(self, id: str) -> Photo:
        """Return what the index knows of a photo.

        Raises:
            NoSuchPhoto, DataError: it does not hold it; or it holds captions, and is too old to tell.
        """
        (photo,) = self.get([id])
        if isinstance(self.photos, OldPhotoTable):  # which has a place for any id
            if self.stage.metadata.kind == "bm25":
                raise DataError(f"the index {self.stage.index} is too old to show its photos: index again")
            try:
                self.stage.like(id)
            except UnknownId:
                photo = None
        if photo is None:
            raise self.no_such_photo(id)
        return photo

    @cached_property
    def sealed(self) -> dict[str, str]:
        """The tables that this user has sealed, see `sealed_tables`."""
        return sealed_tables(self.stage.metadata.extra)

    def no_such_photo(self, id: str) -> NoSuchPhoto:
        """Return the error for an id that the index does not hold."""
        return NoSuchPhoto(
            f"the index {self.stage.index} holds no photo with the id {id!r}:"
            " give the id of a hit, as --json shows it"
        )


class FoundPhoto(NamedTuple):
    """A photo with its score, and the near-duplicates of it that have lower ones.

    `named` is what the words that people gave it add to the score.
    """

    id: str
    score: float
    named: float = 0.0
    duplicates: Sequence[str] = ()


def first_of_page(state: IndexState, asked: Asked, how: How) -> Cursor:
    """Return where the page begins; DataError: the cursor is none, or of another query."""
    filters, order, grouped = how.get("filters") or None, how.get("sort") or "match", bool(how.get("group"))
    content_only = bool(how.get("content_only"))
    conditions = digest(asked.key, filters, how.get("min_score"), order, grouped, content_only)
    return begin(Cursor(0, state.name, conditions), how.get("cursor"))


def find(state: IndexState, asked: Asked, number: int, how: How) -> tuple[list[FoundPhoto], Ends]:
    """Return the first `number` hits or more, in the order that is wanted, and where they end."""
    reordered = (how.get("sort") or "match") != "match"
    conditions = asked.conditions(how.get("filters"))
    allowed = state.allow(conditions)
    alone: list[str] = []
    if asked.names_only:
        alone = state.ids(conditions)
    most = len(alone) if asked.names_only else REORDERED

    def by_content(k: int) -> list[FoundPhoto]:
        if asked.names_only:
            return [FoundPhoto(id, 1.0, named=1.0) for id in alone[:k]]
        (ids,), (scores,) = state.stage.search([asked.encoded], k, allowed)
        return [FoundPhoto(id, float(score)) for id, score in zip(ids, scores, strict=True)]

    def search(k: int) -> list[FoundPhoto]:
        return with_named(by_content(k), named, k)

    depth = max(
        number + (asked.itself is not None),
        most if reordered else 0,
        state.stage.seen if asked.query else 0,
    )
    found = by_content(depth)
    ends = NO_ENDS
    if asked.query is not None and not asked.names_only:
        best, scores = [photo.id for photo in found], [photo.score for photo in found]
        ends = state.stage.ends(asked.query, asked.encoded, best, scores, allowed)
    named: list[FoundPhoto] = []
    if not (how.get("content_only") or asked.names_only):
        named = state.named(asked, how.get("filters"), found[:1], ends)
    found, cut = with_named(found, named, depth), ends.cut
    if reordered and cut is not None and found and found[-1].score >= cut:
        found = _deeper(search, found, depth, lambda all: all[-1].score < cut)
    if how.get("group"):
        found = _deeper(search, found, depth, lambda all: len(_grouped(state, all)) > number)
    lowest = how.get("min_score")
    found = [
        photo for photo in found if photo.id != asked.itself and (lowest is None or photo.score >= lowest)
    ]
    if reordered:
        found = [photo for photo in found if photo.score >= cut] if cut is not None else found[:most]
    if how.get("group"):
        found = _grouped(state, found)
    if reordered:
        found = _in_order(state, found, how)
    return found, ends


def _in_order(state: IndexState, found: list[FoundPhoto], how: How) -> list[FoundPhoto]:
    """Return hits newest first, or nearest to a place."""
    ids, filters = [photo.id for photo in found], how.get("filters") or Filters()
    if how.get("sort") == "date":
        known = [one for one in state.photos.dates_of(ids) if one and (filters.file_dates or not one.by_file)]
        dates = {one.id: one.date or "" for one in known}
        return sorted(found, key=lambda photo: dates.get(photo.id, ""), reverse=True)
    circle, places = filters.circle, state.photos.places(ids)
    assert circle is not None
    return sorted(found, key=lambda photo: distance(*places[photo.id], circle.latitude, circle.longitude))


def with_named(found: Sequence[FoundPhoto], named: Sequence[FoundPhoto], k: int) -> list[FoundPhoto]:
    """Return the k best of the k best photos by content, and of those that people named."""
    if not named:
        return list(found)
    ids = {photo.id for photo in named}
    others = [photo for photo in found if photo.id not in ids]
    return sorted([*named, *others], key=lambda photo: -photo.score)[:k]


def _deeper(
    search: Callable[[int], list[FoundPhoto]],
    found: list[FoundPhoto],
    depth: int,
    enough: Callable[[list[FoundPhoto]], bool],
) -> list[FoundPhoto]:
    """Search deeper until there is enough, or no more; return what was found."""
    while len(found) >= depth and not enough(found):
        depth *= 4
        found = search(depth)
    return found


def _grouped(state: IndexState, found: list[FoundPhoto]) -> list[FoundPhoto]:
    """Put near-duplicates behind the best of them."""
    by_id = {photo.id: photo for photo in found}
    groups = state.photos.group(list(by_id))
    return [by_id[first]._replace(duplicates=others) for first, *others in groups]


def page_of(
    state: IndexState,
    asked: Asked,
    found: Sequence[FoundPhoto],
    k: int,
    how: How,
    ms: float,
    ends: Ends = NO_ENDS,
    rerank: Reranker | None = None,
) -> Answer:
    """Return a page of k hits.

    Args:
        state, asked, how: where, what and how was searched.
        found, ends: all hits up to this page, and one more if there is one; and where they end.
        ms: milliseconds that finding them took.
        rerank: reorders them first.
    """
    cursor = first_of_page(state, asked, how)
    first, end = cursor.first, cursor.first + k
    page = found if rerank else found[first:end]
    started = time.perf_counter()
    terms, hits = state.stage.terms(asked.encoded), _hits(state, asked, page, 1 if rerank else first + 1)
    times = {"encode": asked.ms, "search": ms + 1000 * (time.perf_counter() - started)}
    if rerank is not None:
        started = time.perf_counter()
        hits = rerank(asked.query.plain if asked.query else "", hits)[first:end]
        times["rerank"] = 1000 * (time.perf_counter() - started)
    wanted, ids, filters = how.get("suggest", 0), [photo.id for photo in page], how.get("filters")
    suggestions = state.stage.suggestions(asked.encoded, ids, wanted, asked.without) if wanted else []
    shown = {*terms, *asked.without, *suggestions, *(word for hit in hits for word in hit.words)}
    return Answer(
        query=asked.text,
        terms=terms,
        hits=hits,
        ms=times,
        unknown=list(asked.unknown),
        unread=asked.unread,
        without=list(asked.without),
        cursor=str(cursor._replace(first=end)) if len(found) > end else None,
        cut=ends.cut,
        well=ends.well,
        suggestions=suggestions,
        negations=dict(asked.query.negations) if asked.query else {},
        meant=dict(asked.meant),
        foreign=asked.foreign,
        language=asked.query.language if asked.query else "",
        other_languages=list(asked.other_languages),
        install=asked.install,
        shown_in=asked.shown_in,
        translations=translated(sorted(shown), asked.shown_in),
        unmet="" if found else _without_names(state, asked) or why_unmet(state.photos, filters),
    )


def _hits(state: IndexState, asked: Asked, found: Sequence[FoundPhoto], first: int) -> list[Hit]:
    """Return hits, counted from `first` on, with what matched and where the photos are."""
    ids = [photo.id for photo in found]
    hits = []
    wanted = [*asked.phrases, *(phrase for _, each in asked.narrowed for phrase in each)]
    rows = zip(found, state.stage.matches(asked.encoded, ids), state.get(ids), strict=True)
    for rank, (one, words, photo) in enumerate(rows, first):
        known = photo or Photo(one.id, one.id, one.id)
        given = phrases_in(known.given, wanted) if one.named else []
        words = {phrase: one.named / len(given) for phrase in given} | words
        about = known.width, known.height, known.taken, list(one.duplicates), known.version
        dated = known.dated
        when_and_where = dated.date, dated.by, *(known.place or (None, None))
        hits.append(Hit(rank, one.id, known.path, one.score, words, None, *about, *when_and_where))
    return hits


def _without_names(state: IndexState, asked: Asked) -> str:
    """Return which words of `Asked.narrowed` no photo was given; "" if there are none."""
    for name, wanted in asked.narrowed:
        if name == "text" and "text" not in state.stage.metadata.extra:
            return "nobody has read the text in these photos: run `lexlip index` again with --text"
        if not state.photos.having(name, wanted):
            words = " ".join(word for phrase in wanted for word in phrase.words)
            return f"no photo has '{readable(words)}' in its {name}"
    return ""
