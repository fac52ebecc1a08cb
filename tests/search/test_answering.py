"""What `find` and `page_of` do beyond the tests of `PhotoSearch`, with a stage that has a cut."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lexlip.queries.query_language import parse_query
from lexlip.retrieval.answer import Ends
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.first_stage import Results, Scores
from lexlip.retrieval.photo import Dated
from lexlip.search.answering import REORDERED, Asked, IndexState, Sort, find
from tests.retrieval.plain_stage import PlainStage

NUMBER = 1000


class Stage(PlainStage):
    """Photos "0", "1" … with falling scores 1000, 999 …; the cut lies at a score."""

    state = "one"
    seen = 50

    def __init__(self, end: float | None) -> None:
        self.end = end
        self.depths: list[int] = []

    def tables(self) -> list[Any]:
        return [Table()]

    def search(self, queries: Sequence[Any], k: int, allowed: None = None) -> Results:
        self.depths.append(k)
        number = min(k, NUMBER)
        return [[str(rank) for rank in range(number)]], [NUMBER - np.arange(float(number))]

    def ends(self, query: Any, encoded: Any, ids: Any, scores: Scores, allowed: Any = None) -> Ends:
        assert len(scores) >= self.seen
        return Ends(self.end, self.end)


class Table:
    """Photos whose dates are their numbers backwards; two neighbours are near-duplicates."""

    def __enter__(self) -> "Table":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def dates_of(self, ids: Sequence[str]) -> list[Dated]:
        return [Dated(id, f"{int(id):04d}", False) for id in ids]

    def group(self, ids: Sequence[str]) -> list[list[str]]:
        groups: dict[int, list[str]] = {}
        for id in ids:
            groups.setdefault(int(id) // 2, []).append(id)
        return list(groups.values())

    def located(self, filters: Filters) -> NDArray[np.float64]:
        return np.empty((0, 3))


@pytest.fixture
def state_of() -> Any:
    return lambda end: IndexState(Stage(end))


SENTENCE = Asked("dogs", "dogs", "dogs", parse_query("dogs"))


def test_the_cut_looks_at_more_hits_than_are_wanted(state_of: Any) -> None:
    state = state_of(990.0)
    found, ends = find(state, SENTENCE, 11, {})
    assert ends == (990, 990)
    assert len(found) == 50
    assert state.stage.depths == [50]
    picture = Asked("picture", "picture", "picture")
    assert find(state_of(990.0), picture, 11, {})[1] == (None, None)


@pytest.mark.parametrize("end", [995.0, 600.0, 0.0, 2000.0])
def test_by_date_all_hits_above_the_cut_are_sorted(state_of: Any, end: float) -> None:
    found, _ = find(state_of(end), SENTENCE, 5, {"sort": "date"})
    above = [number for number in range(NUMBER) if NUMBER - number >= end]
    assert [photo.id for photo in found] == [str(number) for number in reversed(above)]


def test_by_date_without_a_cut_the_first_hits_are_sorted(state_of: Any) -> None:
    for number in (5, 500):
        found, _ = find(state_of(None), SENTENCE, number, {"sort": "date"})
        assert [photo.id for photo in found] == [str(rank) for rank in reversed(range(REORDERED))]


@pytest.mark.parametrize("sort", ["date", "place"])
def test_of_names_alone_all_are_sorted(state_of: Any, monkeypatch: pytest.MonkeyPatch, sort: Sort) -> None:
    """Photos "0", "1" … lie ever nearer to the equator, and are ever newer."""
    ids = [str(number) for number in range(NUMBER)]
    places = {id: (50 - int(id) / 100, 0.0) for id in ids}
    monkeypatch.setattr(Stage, "allow", lambda self, ids, without=(), but=(): ids)
    monkeypatch.setattr(Stage, "holding", lambda self, words: {"998"}, raising=False)
    monkeypatch.setattr(Table, "select", lambda self, filters: ids, raising=False)
    monkeypatch.setattr(Table, "having", lambda self, name, wanted: ids, raising=False)
    monkeypatch.setattr(Table, "places", lambda self, ids: places, raising=False)
    monkeypatch.setattr(Table, "given", lambda self, wanted, weights, number: [("997", 1.0)], raising=False)
    query = parse_query("name:img -cat")
    asked = Asked("name:img", "name:img", None, query, narrowed=(("name", ()),), not_given=("cat",))
    found, _ = find(state_of(None), asked, 5, {"sort": sort, "filters": Filters(near="0,0")})
    assert [photo.id for photo in found] == [id for id in reversed(ids) if id not in ("997", "998")]


def test_groups_go_as_deep_as_is_needed(state_of: Any) -> None:
    for number in (5, 60, 500, 2000):
        found, _ = find(state_of(None), SENTENCE, number, {"group": True})
        assert len(found) >= min(number, NUMBER // 2)
        assert [(photo.id, list(photo.duplicates)) for photo in found[:number]] == [
            (str(2 * row), [str(2 * row + 1)]) for row in range(min(number, NUMBER // 2))
        ][: len(found)]


def test_what_filters_allow_is_looked_up_once_in_a_state(
    state_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected: list[Filters] = []
    monkeypatch.setattr(Table, "select", lambda self, filters: selected.append(filters) or [], raising=False)
    monkeypatch.setattr(Stage, "allow", lambda self, ids, without=(), but=(): ids)
    for state in (state_of(None), state_of(None)):
        for year in ("2014", "2015", "2014"):
            find(state, SENTENCE, 3, {"filters": Filters(after=year)})
        find(state, SENTENCE, 3, {"filters": Filters()})
    assert selected == 2 * [Filters(after="2014"), Filters(after="2015")]
