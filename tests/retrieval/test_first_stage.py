import pytest

from lexlip.queries.query_language import QueryError, parse_query
from lexlip.retrieval.first_stage import Renewed, Shared
from tests.retrieval.plain_stage import PlainStage


def test_a_stage_without_words_takes_sentences_only() -> None:
    stage = PlainStage()
    assert stage.sentence("a +dog") == "a +dog"
    assert stage.sentence(parse_query("a dog")) == "a dog"
    with pytest.raises(QueryError, match=r"\(dog\) is for an index of words, and index was made with clip@1"):
        stage.sentence(parse_query("a +dog"))
    with pytest.raises(QueryError, match="leaving out dog, cat is for an index of words"):
        stage.holding(["dog", "cat"])


def test_what_it_knows_of_words() -> None:
    stage = PlainStage()
    assert stage.holding([]) == frozenset()
    assert (stage.terms("a"), stage.matches("a", ["x", "y"]), stage.unknown("a")) == ({}, [{}, {}], [])
    assert (stage.weights("x"), stage.suggestions("a", ["x"], 3)) == ({}, [])
    assert stage.state == "2024-01-01 data-3"


class State:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_last_user_closes_it() -> None:
    shared = Shared(State())
    assert shared.take() is shared
    shared.release()
    assert not shared.value.closed
    shared.release()
    assert shared.value.closed == 1


def test_who_holds_a_state_keeps_it_open() -> None:
    first, second = State(), State()
    renewed = Renewed(first)
    with renewed.hold() as held:
        renewed.move(second)
        assert held._now.value is first
        assert renewed._now.value is second
        renewed.close()
        assert (first.closed, second.closed) == (0, 1)
    assert (first.closed, second.closed) == (1, 1)
