"""Fits the numbers of a calibration to observed queries (see honest_end.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import differential_evolution, linprog, minimize
from scipy.sparse import csr_matrix, eye, hstack
from scipy.special import expit

from lexlip.errors import ModelError
from lexlip.search.stages.honest_end import DEPTH, GATE, TAIL, WELL, Calibration, Signs, end_of

SENSE = ("caption", "keywords")
GATE_KEYWORDS, TAIL_KEYWORDS = 1.0, 0.3  # what keyword queries weigh beside captions
RIDGE = 1e-3
GATE_LOSS = 0.01  # right photos that are lost because the query is taken for nonsense
LOSS = 0.015  # and in all; at most 0.05 shall be lost of other photos too
FITTING = 0.487  # of the photos that are said to fit a caption well
FITTING_WORDS = 0.54  # and of those that are said to fit a single word well
WELL_SIZE = 1_000  # photos: among fewer too few fit, and what fills larger collections has few captions
PENALTY = 10.0  # what a photo that does not fit costs, beside a query with a right one
LOW = 0.02  # the quantile of the right photos' scores
TAIL_QUERIES = 400  # of each group and kind: a quantile regression is a linear program, which takes time

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    """A query to a collection, and what it found.

    Attributes:
        group: the source of the right photos, and the number of photos in the collection.
        kind: "caption", "keywords", "removed" (a caption whose photo is not there) or a kind of nonsense.
        signs: see `Signs`.
        scores: of up to a thousand hits, best first.
        right: scores of the right photos among the first 50 hits.
        fits: which of the first 50 hits have half of the query's content words in their captions.
    """

    group: tuple[str, int]
    kind: str
    signs: Signs
    scores: Floats = field(repr=False)
    right: Floats
    fits: NDArray[np.bool_] = field(repr=False)

    @property
    def sense(self) -> bool:
        return self.kind in SENSE

    @property
    def nonsense(self) -> bool:
        return self.kind not in (*SENSE, "removed")


def fit(observations: Sequence[Observation], model: str) -> Calibration:
    """Return the calibration of a model, given its identity.

    Raises:
        ModelError: the model's scores do not tell sense from nonsense.
    """
    used = [seen for seen in observations if seen.nonsense or (seen.sense and len(seen.right))]
    gate = _fit_gate(used)
    if gate["best"] <= 0:
        raise ModelError(
            "nonsense finds photos with scores as good as sentences do: the model is not trained"
        )
    gate = _shifted_gate(used, gate)
    calibration = _shifted_tail(used, Calibration(model, gate, _fit_tail(used)))
    return replace(calibration, well=_fit_well([seen for seen in used if seen.sense], calibration))


def silent(observations: Iterable[Observation], ends: Iterable[float]) -> float:
    """Return the share of queries above whose end there is no photo."""
    pairs = list(zip(observations, ends, strict=True))
    return float(np.mean([seen.signs.best < end for seen, end in pairs])) if pairs else float("nan")


def shown(observations: Iterable[Observation], ends: Iterable[float]) -> Floats:
    """Return the number of hits of each query that are not below its end."""
    pairs = zip(observations, ends, strict=True)
    return np.array([np.count_nonzero(seen.scores >= end) for seen, end in pairs])


def kept(observations: Iterable[Observation], ends: Iterable[float]) -> float:
    """Return the share of the right photos among the first 50 hits that are not below the end."""
    pairs = [seen.right >= end for seen, end in zip(observations, ends, strict=True)]
    return float(np.concatenate(pairs).mean()) if pairs else float("nan")


def by_group(observations: Iterable[Observation]) -> dict[tuple[str, int], list[Observation]]:
    """Return observations by their group, in the order of its first one."""
    groups: dict[tuple[str, int], list[Observation]] = {}
    for seen in observations:
        groups.setdefault(seen.group, []).append(seen)
    return groups


def matrix(observations: Sequence[Observation], signs: Sequence[str]) -> Floats:
    """Return the signs of observations, [n, 1 + number of signs]; the first column is 1."""
    return np.array([[1.0, *(getattr(seen.signs, sign) for sign in signs)] for seen in observations])


def _fit_gate(used: Sequence[Observation]) -> dict[str, float]:
    """Fit the logistic model that tells sense from nonsense; each group and each kind weighs the same."""
    counts = Counter((seen.group, seen.kind) for seen in used)
    kinds = len({seen.kind for seen in used if seen.nonsense})
    share = {"caption": 1.0, "keywords": GATE_KEYWORDS}
    weights = np.array([share.get(seen.kind, 1 / kinds) / counts[seen.group, seen.kind] for seen in used])
    sense = np.array([seen.sense for seen in used], dtype=float)
    return _named(GATE, logistic(matrix(used, GATE), sense, weights / weights.sum()))


def logistic(features: Floats, labels: Floats, weights: Floats, ridge: float = RIDGE) -> Floats:
    """Return the coefficients of a logistic regression.

    Args:
        features: [n, d]; the first column is 1.
        labels: [n], 0 or 1.
        weights: [n], which sum to 1.
        ridge: of the squared coefficients of standardised features.
    """
    mean = weights @ features
    deviation = np.sqrt(weights @ (features - mean) ** 2)
    mean[0], deviation[0], deviation[deviation == 0] = 0.0, 1.0, 1.0
    standard = (features - mean) / deviation

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        logits = standard @ coefficients
        error = weights * (expit(logits) - labels)
        penalty = np.r_[0.0, coefficients[1:]]
        value = weights @ (np.logaddexp(0, logits) - labels * logits) + ridge * penalty @ penalty
        return float(value), standard.T @ error + 2 * ridge * penalty

    found: Floats = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B").x / deviation
    found[0] -= found[1:] @ mean[1:]
    return found


def quantile_regression(features: Floats, values: Floats, weights: Floats, quantile: float) -> Floats:
    """Return the coefficients of a linear quantile (Koenker and Bassett, 1978), as a linear program.

    Args:
        features: [n, d].
        values: [n].
        weights: [n].
        quantile: the share of values below.
    """
    number, width = features.shape
    costs = np.r_[np.zeros(2 * width), weights * quantile, weights * (1 - quantile)]
    both = [csr_matrix(features), csr_matrix(-features), eye(number), -eye(number)]
    solved = linprog(costs, A_eq=hstack(both, format="csr"), b_eq=values, bounds=(0, None), method="highs")
    found: Floats = solved.x[:width] - solved.x[width : 2 * width]
    return found


def _fit_tail(used: Sequence[Observation]) -> dict[str, float]:
    """Fit a low quantile of the right photos' scores; of several right photos, one is taken."""
    rng = np.random.default_rng(0)
    parts: dict[tuple[tuple[str, int], str], list[Observation]] = {}
    for seen in used:
        if seen.sense:
            parts.setdefault((seen.group, seen.kind), []).append(seen)
    chosen, weights = [], []
    for (_, kind), part in parts.items():
        rows = rng.permutation(len(part))[:TAIL_QUERIES]
        chosen += [part[row] for row in rows]
        weights += [(TAIL_KEYWORDS if kind == "keywords" else 1.0) / len(rows)] * len(rows)
    values = np.array([rng.choice(seen.right) for seen in chosen])
    return _named(TAIL, quantile_regression(matrix(chosen, TAIL), values, np.array(weights), LOW))


def _fit_well(used: Sequence[Observation], calibration: Calibration) -> dict[str, float]:
    """Fit from which share of the best score on photos fit well.

    FITTING of what is there fits captions, and most captions have their photo there; of what fits single
    words well, FITTING_WORDS fits. All shares are means over sources. The first target has steps, so it is
    searched for by differential evolution (Storn and Price, 1997).
    """
    parts: dict[tuple[str, str], list[Observation]] = {}
    for seen in used:
        source, size = seen.group
        if size == WELL_SIZE and seen.signs.short == (seen.kind == "keywords"):
            parts.setdefault((seen.kind, source), []).append(seen)
    hits = {key: Hits.of(part, calibration) for key, part in parts.items()}
    captions, words = ([hits[key] for key in hits if key[0] == kind] for kind in SENSE)

    def loss(weights: Floats) -> float:
        fitting, right = np.mean([(some.fitting(weights), some.right(weights)) for some in captions], axis=0)
        return float(PENALTY * max(0.0, FITTING - fitting) - right)

    def enough(share: float) -> bool:
        weights = np.array([share, *[0.0] * len(WELL)])
        return float(np.mean([some.fitting(weights) for some in words])) >= FITTING_WORDS

    bounds = [(0.3, 3.0), *[(-1.5, 1.0)] * len(WELL)]
    found = differential_evolution(loss, bounds, seed=0, maxiter=150, polish=False).x
    short = next((share for share in np.linspace(0.3, 1, 71) if enough(share)), 1.0)
    return {**_named(WELL, found), "short": _rounded(short)}


@dataclass(frozen=True)
class Hits:
    """The first 50 hits of n queries.

    Attributes:
        signs: of the queries, [n, 1 + number of signs].
        shares: scores as shares of the best, [n, 50].
        fits: see `Observation`, [n, 50].
        rights: which are right, [n, 50].
    """

    signs: Floats
    shares: Floats
    fits: NDArray[np.bool_]
    rights: NDArray[np.bool_]

    @classmethod
    def of(cls, observations: Sequence[Observation], calibration: Calibration) -> Hits:
        """Return the hits of the queries whose end shows some."""
        some = [seen for seen in observations if end_of(seen.signs, calibration) <= seen.signs.best]
        shares, fits = np.zeros((len(some), DEPTH)), np.zeros((len(some), DEPTH), bool)
        rights = fits.copy()
        for row, seen in enumerate(some):
            scores = seen.scores[:DEPTH]
            shares[row, : len(scores)] = scores / seen.signs.best
            fits[row, : len(scores)] = seen.fits[: len(scores)]
            rights[row, : len(scores)] = np.isin(scores, seen.right)
        return cls(matrix(some, WELL), shares, fits, rights)

    def well(self, weights: Floats) -> NDArray[np.bool_]:
        """Return which hits fit well; the best one does."""
        return self.shares >= np.clip(self.signs @ weights, 0, 1)[:, None]

    def fitting(self, weights: Floats) -> float:
        """Return the share of what fits well that fits indeed, the mean of all queries."""
        well = self.well(weights)
        return float(np.mean((well & self.fits).sum(axis=1) / well.sum(axis=1)))

    def right(self, weights: Floats) -> float:
        """Return the share of queries with a right photo among what fits well."""
        return float(np.mean((self.well(weights) & self.rights).any(axis=1)))


def _shifted_gate(used: Sequence[Observation], gate: Mapping[str, float]) -> dict[str, float]:
    """Move the gate to where it loses GATE_LOSS of the right photos, the mean of all groups."""
    weights = np.array(list(gate.values()))
    groups = by_group(seen for seen in used if seen.kind == "caption").values()
    logits = [matrix(group, GATE) @ weights for group in groups]
    lost = highest(lambda t: float(np.mean([(group < t).mean() for group in logits])) <= GATE_LOSS, 20.0)
    return {**gate, "constant": _rounded(gate["constant"] - lost)}


def _shifted_tail(used: Sequence[Observation], calibration: Calibration) -> Calibration:
    """Move the tail to where LOSS of the right photos is lost, the mean of all groups."""
    groups = by_group(seen for seen in used if seen.kind == "caption").values()

    def moved(shift: float) -> Calibration:
        constant = _rounded(calibration.tail["constant"] + shift)
        return replace(calibration, tail={**calibration.tail, "constant": constant})

    def enough(shift: float) -> bool:
        there = moved(shift)
        return mean_kept(groups, lambda seen: end_of(seen.signs, there)) >= 1 - LOSS

    return moved(highest(enough, 1.0))


def mean_kept(groups: Iterable[Sequence[Observation]], end: Callable[[Observation], float]) -> float:
    """Return the share of right photos that are kept, the mean of groups of captions."""
    return float(np.mean([kept(group, map(end, group)) for group in groups]))


def highest(holds: Callable[[float], bool], most: float) -> float:
    """Return the highest number from -most to most for which a condition holds that breaks once."""
    low, high = -most, most
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _named(signs: Sequence[str], coefficients: Floats) -> dict[str, float]:
    return dict(zip(("constant", *signs), map(_rounded, coefficients), strict=True))


def _rounded(number: float) -> float:
    return round(float(number), 4)
