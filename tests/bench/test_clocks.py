import numpy as np
import pytest

from lexlip.bench import clocks as module
from lexlip.bench.clocks import Timed, percentiles, queries_per_second, time_queries
from tests.conftest import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Answers:
    """Each answer takes a second; remembers the queries."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queries: list[str] = []

    def __call__(self, query: str) -> tuple[float, float]:
        self.queries.append(query)
        self.clock.now += 1
        return float(len(query)), self.clock.now


def test_every_query_is_timed_once_after_warming_up(clock: Clock) -> None:
    answer = Answers(clock)
    seconds = time_queries(answer, ["a", "bb", "ccc"], warm_up=5)
    assert answer.queries == ["a", "bb", "ccc", "a", "bb", "a", "bb", "ccc"]
    np.testing.assert_array_equal(seconds, [[1, 6], [2, 7], [3, 8]])
    assert seconds.dtype == np.float64


def test_one_query_warms_up_at_least(clock: Clock) -> None:
    answer = Answers(clock)
    time_queries(answer, ["a", "bb"], warm_up=0)
    assert answer.queries == ["a", "a", "bb"]


def test_by_default_it_warms_up_as_long_as_the_module_says(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answers(clock)
    monkeypatch.setattr(module, "WARM_UP", 3)
    time_queries(answer, ["a"])
    assert answer.queries == ["a"] * 4


def test_percentiles_are_numpy_s() -> None:
    seconds = np.random.default_rng(0).exponential(size=1000)
    assert percentiles(seconds, (50, 99.9)) == pytest.approx(
        {"p50": np.percentile(seconds, 50), "p99.9": np.percentile(seconds, 99.9)}
    )


def test_percentiles_in_milliseconds() -> None:
    found = percentiles(np.arange(1001) / 1000, (50, 95, 99, 99.9), 1000)
    assert found == pytest.approx({"p50": 500, "p95": 950, "p99": 990, "p99.9": 999})


class Engine:
    """Answers so many queries a second on a clock of its own; writes down what it was asked."""

    def __init__(self, name: str, rate: float, log: list[tuple[str, int]]) -> None:
        self.name, self.rate, self.log = name, rate, log

    def seconds(self, number: int) -> float:
        self.log.append((self.name, number))
        return number / self.rate


def test_rates_in_turns() -> None:
    log: list[tuple[str, int]] = []
    fast, slow = Engine("fast", 1000, log), Engine("slow", 10, log)
    rates = queries_per_second([Timed(fast.seconds, 5000), Timed(slow.seconds, 5000)], rounds=3, duration=2)
    assert rates == pytest.approx([1000, 10])
    assert log[-8:] == [("fast", 2000), ("slow", 20)] * 4  # one more that does not count


def test_no_more_queries_than_there_are() -> None:
    log: list[tuple[str, int]] = []
    rates = queries_per_second([Timed(Engine("fast", 1e6, log).seconds, 30)], rounds=1)
    assert rates == pytest.approx([1e6])
    assert max(number for _, number in log) == 30


def test_queries_that_are_answered_together_stay_together() -> None:
    log: list[tuple[str, int]] = []
    queries_per_second([Timed(Engine("slow", 1, log).seconds, 5000, least=256)], rounds=1)
    assert {number for _, number in log} == {256}
    log.clear()
    queries_per_second([Timed(Engine("slow", 1, log).seconds, 100, least=256)], rounds=1)
    assert {number for _, number in log} == {100}


def test_the_median_of_the_rounds_that_count() -> None:
    times = iter([1.0, 99.0, 2.0, 1.0, 4.0])  # the first decides the number, the second does not count
    assert queries_per_second([Timed(lambda _: next(times), 1)], rounds=3) == [0.5]
