import pytest

from lexlip.bench.throughput import Timed, queries_per_second


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
