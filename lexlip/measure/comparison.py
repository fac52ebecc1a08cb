"""Two runs over the same queries: which is better, and whether chance alone would make them differ so."""

from __future__ import annotations

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import ir_measures
import numpy as np
from ir_measures.providers import FallbackProvider
from numpy.typing import NDArray
from scipy.stats import permutation_test, ttest_rel

from lexlip.errors import ConfigError, DataError

Test = Literal["t-test", "randomization"]
Run = Mapping[str, Mapping[str, float]]
Qrels = Mapping[str, Mapping[str, int]]

TESTS: dict[Test, str] = {
    "t-test": "two-sided paired t-test",
    "randomization": "two-sided paired randomization test, 9,999 draws",
}
MEASURES = ("Success@1", "Success@5", "Success@10", "RR", "nDCG@10")
"""What is compared unless others are asked for, by their names in ir_measures."""

_KNOWN = re.compile(r"(?:AP|nDCG|M?RR)(?:@[1-9]\d{0,5})?|(?:P|R|Success)@[1-9]\d{0,5}")
_EVALUATORS = FallbackProvider([ir_measures.pytrec_eval, ir_measures.msmarco])
_LEVEL = 0.95  # of confidence


@dataclass(frozen=True)
class Difference:
    """Two runs by one measure; what cannot be computed, as from a single query, is None.

    Attributes:
        first, second: means over the queries.
        difference, low, high: of the second less the first: the mean, and its 95% confidence interval by the
            t distribution.
        p: of the test.
        won, lost, tied: queries at which the second is better, worse, and as good.
    """

    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    won: int
    lost: int
    tied: int


@dataclass(frozen=True)
class Query:
    """What a measure says of one query in both runs, and the rank of the first relevant document, if any."""

    id: str
    first: float
    second: float
    first_rank: int | None
    second_rank: int | None


@dataclass(frozen=True)
class Comparison:
    """What `compare` finds.

    Attributes:
        queries: how many the qrels have.
        missing: of these, how many the first and the second run lack; they count as finding nothing.
        differences: by measure.
        most_different: the queries that differ most by the last measure.
    """

    queries: int
    missing: tuple[int, int]
    test: str
    differences: dict[str, Difference]
    most_different: list[Query]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    first: Run,
    second: Run,
    qrels: Qrels,
    measures: Sequence[str] = MEASURES,
    test: Test = "t-test",
    most: int = 10,
) -> Comparison:
    """Compare runs at all queries of the qrels, as `trec_eval -c`; `most` of the queries are returned.

    Raises:
        ConfigError: a measure is not known here.
        DataError: no query of the qrels is in both runs.
    """
    parsed = [_measure(name) for name in measures]
    if not any(query in first and query in second for query in qrels):
        raise DataError(
            "no query of the qrels is in both runs: give two runs over the same queries, with their qrels"
        )
    queries = list(qrels)
    ranked = [{query: hits(run, query) for query in queries if query in run} for run in (first, second)]
    values = [_values(parsed, found, qrels, queries) for found in ranked]
    pairs = {str(measure): (values[0][str(measure)], values[1][str(measure)]) for measure in parsed}
    last = pairs[str(parsed[-1])]
    order = np.argsort(-np.abs(last[1] - last[0]), kind="stable")[:most]
    return Comparison(
        queries=len(queries),
        missing=(len(qrels.keys() - first.keys()), len(qrels.keys() - second.keys())),
        test=TESTS[test],
        differences={name: _difference(*pair, test) for name, pair in pairs.items()},
        most_different=[
            Query(
                id=queries[row],
                first=float(last[0][row]),
                second=float(last[1][row]),
                first_rank=_first_rank(ranked[0], qrels, queries[row]),
                second_rank=_first_rank(ranked[1], qrels, queries[row]),
            )
            for row in order
            if last[0][row] != last[1][row]
        ],
    )


def hits(run: Run, query: str) -> list[str]:
    """Return the documents of a query as trec_eval orders them: by score, equal scores from Z to A."""
    found = run.get(query, {})
    return sorted(found, key=lambda document: (found[document], document), reverse=True)


def _measure(name: str) -> ir_measures.Measure:
    if not _KNOWN.fullmatch(name):
        raise ConfigError(
            f"there is no measure {name!r} here: give one as R@5, Success@5, P@5, RR, nDCG@10, AP"
        )
    kind, _, cutoff = name.partition("@")
    measure = getattr(ir_measures, kind)
    return measure @ int(cutoff) if cutoff else measure


def _values(
    measures: Sequence[ir_measures.Measure],
    ranked: Mapping[str, Sequence[str]],
    qrels: Qrels,
    queries: Sequence[str],
) -> dict[str, NDArray[np.float64]]:
    """Return by measure its value at each query; evaluators do not all break ties alike, so none are left."""
    run = {query: {id: -float(rank) for rank, id in enumerate(ids)} for query, ids in ranked.items()}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for metric in _EVALUATORS.iter_calc(measures, qrels, run):
        found[str(metric.measure)][metric.query_id] = metric.value
    return {name: np.array([of[query] for query in queries]) for name, of in found.items()}


def _difference(first: NDArray[np.float64], second: NDArray[np.float64], test: Test) -> Difference:
    differences = second - first
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of differences that are all the same
        paired = ttest_rel(second, first)
        interval = paired.confidence_interval(_LEVEL)
    p = float(paired.pvalue) if test == "t-test" else _by_randomization(differences)
    return Difference(
        first=float(first.mean()),
        second=float(second.mean()),
        difference=float(differences.mean()),
        low=_known(interval.low),
        high=_known(interval.high),
        p=_known(p),
        won=int((differences > 0).sum()),
        lost=int((differences < 0).sum()),
        tied=int((differences == 0).sum()),
    )


def _by_randomization(differences: NDArray[np.float64]) -> float:
    """Return how often random signs make a mean that is as far from 0; few queries have all signs tried."""
    changed = differences[differences != 0]  # signs change no zeros
    if not len(changed):
        return 1.0
    drawn = permutation_test(
        (changed,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        batch=max(1, 10**6 // len(changed)),
        random_state=np.random.default_rng(0),
    )
    return float(drawn.pvalue)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _first_rank(ranked: Mapping[str, Sequence[str]], qrels: Qrels, query: str) -> int | None:
    ranks = (rank for rank, id in enumerate(ranked.get(query, ()), 1) if qrels[query].get(id, 0) > 0)
    return next(ranks, None)
