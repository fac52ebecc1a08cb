"""How slow a search over many shards is: the tail of the slowest of them, with and without hedged requests.

    python tools/studies/scatter_tail.py docs/scale/one-shard-ms.txt --shards 64

A query goes to all shards and waits for the slowest. A hedged request asks a replica too if a shard has not
answered after some time (a percentile of its latency), and takes the first answer. Shards are taken to be
independent and alike, and so is a replica: that is what pauses of a machine are like. A query with many
postings is slow on all shards at once, and hedging does not help it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Milliseconds = NDArray[np.float64]


def simulate(
    one_shard: Milliseconds, shards: int, hedge_after: float | None, searches: int, rng: np.random.Generator
) -> tuple[Milliseconds, float]:
    """Return the latencies of searches over independent shards, and the share of requests sent twice.

    Args:
        one_shard: latencies measured on one shard, [n].
        shards: how many a search waits for.
        hedge_after: milliseconds after which a replica is asked too; None: never.
        searches: how many are simulated.
        rng: what draws.
    """
    slowest = np.zeros(searches)
    twice = 0
    for _ in range(shards):
        answered = rng.choice(one_shard, searches)
        if hedge_after is not None:
            late = answered > hedge_after
            twice += int(late.sum())
            again = hedge_after + rng.choice(one_shard, searches)
            answered = np.where(late, np.minimum(answered, again), answered)
        slowest = np.maximum(slowest, answered)
    return slowest, twice / (shards * searches)


def expected(one_shard: Milliseconds, shards: int, hedge_after: float | None, percent: float) -> float:
    """Return a percentile of the slowest of n independent shards in closed form.

    The slowest is faster than t with the probability F(t)^n, so its p99 is the 0.99^(1/n) quantile of one
    shard. With hedged requests after h, F becomes 1 - (1 - F(t)) (1 - F(t - h)) for t >= h.
    """
    values = np.unique(one_shard)
    ordered = np.sort(one_shard)
    if hedge_after is not None:
        values = np.unique(np.concatenate([values, values + hedge_after]))

    def share(times: Milliseconds) -> Milliseconds:
        return np.searchsorted(ordered, times, side="right") / len(ordered)

    reached = share(values)
    if hedge_after is not None:
        hedged = 1 - (1 - reached) * (1 - share(values - hedge_after))
        reached = np.where(values >= hedge_after, hedged, reached)
    place = int(np.searchsorted(reached, (percent / 100) ** (1 / shards) - 1e-12))
    return float(values[min(place, len(values) - 1)])


def table(
    one_shard: Milliseconds, shards: int, hedges: Sequence[float], searches: int, seed: int
) -> list[dict[str, float | None]]:
    """Return a row for no hedging, and for hedging after each percentile of one shard's latency."""
    rows: list[dict[str, float | None]] = []
    for percentile in (None, *hedges):
        after = None if percentile is None else float(np.percentile(one_shard, percentile))
        rng = np.random.default_rng(seed)
        latencies, twice = simulate(one_shard, shards, after, searches, rng)
        rows.append(
            {
                "hedged_after_percentile": percentile,
                "hedged_after_ms": after,
                "p50_ms": float(np.percentile(latencies, 50)),
                "p99_ms": float(np.percentile(latencies, 99)),
                "p99_expected_ms": expected(one_shard, shards, after, 99),
                "sent_twice": twice,
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("latencies", type=Path, help="milliseconds of one shard, a line each")
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--hedge", type=float, nargs="*", default=[90, 95, 99], help="percentiles")
    parser.add_argument("--searches", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    one_shard = np.loadtxt(given.latencies, ndmin=1)
    rows = table(one_shard, given.shards, given.hedge, given.searches, given.seed)
    if given.json:
        print(json.dumps(rows))
        return
    print("one shard:", ", ".join(f"p{p:g} {np.percentile(one_shard, p):.2f} ms" for p in (50, 90, 99, 99.9)))
    for row in rows:
        after = row["hedged_after_percentile"]
        how = "no hedging     " if after is None else f"hedged at p{after:<4g}"
        print(
            f"{how}  p50 {row['p50_ms']:6.2f}  p99 {row['p99_ms']:6.2f} ms"
            f" (closed form {row['p99_expected_ms']:.2f}), {row['sent_twice']:.1%} sent twice"
        )


if __name__ == "__main__":
    main()
