"""The simulated tail against closed forms: order statistics of known distributions."""

import json
from pathlib import Path

import numpy as np
import pytest

from tools.studies.scatter_tail import expected, main, simulate, table


def exponential() -> np.ndarray:
    """Its quantiles, evenly: a sample would lack some of the tail."""
    return -np.log(1 - (np.arange(200_000) + 0.5) / 200_000)


def test_the_slowest_of_exponential_shards() -> None:
    """P(max < t) = (1 - exp(-t))^n; the mean of the maximum is the n-th harmonic number."""
    one_shard = exponential()
    slowest, twice = simulate(one_shard, 64, None, 50_000, np.random.default_rng(2))
    assert twice == 0
    assert slowest.mean() == pytest.approx(sum(1 / n for n in range(1, 65)), rel=0.01)
    p99 = -np.log(1 - 0.99 ** (1 / 64))
    assert np.percentile(slowest, 99) == pytest.approx(p99, rel=0.03)
    assert expected(one_shard, 64, None, 99) == pytest.approx(p99, rel=0.03)


def test_a_hedged_request_halves_the_exponent() -> None:
    """After h two exponential clocks run: P(X > t) = exp(-h) exp(-2 (t - h))."""
    one_shard = exponential()
    after = 2.0
    slowest, twice = simulate(one_shard, 64, after, 50_000, np.random.default_rng(4))
    assert twice == pytest.approx(np.exp(-after), rel=0.02)
    p99 = after + (-np.log(1 - 0.99 ** (1 / 64)) - after) / 2
    assert np.percentile(slowest, 99) == pytest.approx(p99, rel=0.03)
    assert expected(one_shard, 64, after, 99) == pytest.approx(p99, rel=0.03)


def test_a_distribution_of_two_values() -> None:
    """One request in 100 takes 10 ms instead of 1: of 64 shards one is nearly always slow, 1 - 0.99^64."""
    one_shard = np.array([1.0] * 99 + [10.0])
    slowest, _ = simulate(one_shard, 64, None, 100_000, np.random.default_rng(5))
    assert (slowest == 10).mean() == pytest.approx(1 - 0.99**64, abs=0.005)
    assert expected(one_shard, 64, None, 50) == 1.0  # 0.99^64 = 0.526
    assert expected(one_shard, 64, None, 60) == 10.0
    hedged, twice = simulate(one_shard, 64, 1.0, 100_000, np.random.default_rng(5))
    assert twice == pytest.approx(0.01, rel=0.02)
    assert (hedged == 10).mean() == pytest.approx(1 - (1 - 1e-4) ** 64, abs=0.001)  # 10 < 1 + 10
    assert expected(one_shard, 64, 1.0, 99) == 2.0


def test_the_program_is_repeatable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ms.txt"
    np.savetxt(file, np.random.default_rng(6).lognormal(size=2000))
    main([str(file), "--searches", "5000", "--json"])
    assert json.loads(capsys.readouterr().out) == table(np.loadtxt(file), 64, [90, 95, 99], 5000, 0)
