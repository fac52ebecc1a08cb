from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize

from lexlip.errors import ModelError
from lexlip.search.stages.honest_end import DEPTH, Calibration, Signs, end_of, well_of
from tools.studies.honest_end_fit import (
    FITTING,
    FITTING_WORDS,
    GATE_LOSS,
    LOSS,
    WELL_SIZE,
    Observation,
    by_group,
    fit,
    highest,
    kept,
    logistic,
    mean_kept,
    quantile_regression,
    shown,
    silent,
)


def test_logistic_regression_is_the_minimum_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(400), rng.normal(3, 2, 400), rng.normal(-1, 0.1, 400)])
    labels = (features @ [0.5, 1, 4] + rng.logistic(size=400) > 0).astype(float)
    weights = rng.uniform(1, 2, 400)
    weights /= weights.sum()

    def loss(coefficients: np.ndarray) -> float:
        logits = features @ coefficients
        return float(weights @ (np.logaddexp(0, logits) - labels * logits))

    plain = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"maxiter": 5000, "xatol": 1e-6}).x
    np.testing.assert_allclose(logistic(features, labels, weights, ridge=0), plain, rtol=0.02)


def test_a_quantile_has_its_share_below() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 2000)
    values = 1 + 2 * x + rng.uniform(-1, 1, 2000) * (1 + x)
    features = np.column_stack([np.ones(2000), x])
    found = quantile_regression(features, values, np.ones(2000), 0.1)
    assert np.mean(values < features @ found) == pytest.approx(0.1, abs=0.005)
    np.testing.assert_allclose(found, [1 - 0.8, 2 - 0.8], atol=0.15)


def test_the_median_is_a_quantile() -> None:
    values = np.array([1.0, 2.0, 10.0])
    assert quantile_regression(np.ones((3, 1)), values, np.ones(3), 0.5) == pytest.approx([2])


def observation(group: int, kind: str, best: float, held: float, right: list[float]) -> Observation:
    words = 2.0 if kind == "caption" else 1.0
    signs = Signs(best, 0.98, 0.85, best / 2, best / 2, held, 3 * held, 0, np.log10(group), words)
    scores = np.sort(np.r_[np.linspace(best, 0.01, 60 - len(right)), right])[::-1]
    fits = np.arange(DEPTH) % 3 < 2  # of the first two thirds of all
    fits[12:] = False
    return Observation(("here", group), kind, signs, scores, np.array(right), fits)


@cache
def made() -> list[Observation]:
    """Observed captions, words, captions without their photo, and nonsense of two collections."""
    rng = np.random.default_rng(0)
    seen = []
    for group in (100, 1000):
        for _ in range(300):
            best = rng.normal(0.5, 0.05)
            right = best * rng.uniform(0.6, 1)
            seen.append(observation(group, "caption", best, rng.normal(0.6, 0.1), [right]))
            seen.append(observation(group, "keywords", best, rng.normal(0.6, 0.1), [right, best]))
            seen.append(observation(group, "removed", best, 0.6, []))
            seen.append(observation(group, "letters", rng.normal(0.3, 0.05), 0, []))
    return seen


@cache
def fitted() -> Calibration:
    return fit(made(), "mini@1")


def test_what_is_fitted_loses_as_much_as_it_may() -> None:
    observations, calibration = made(), fitted()
    captions = [seen for seen in observations if seen.kind == "caption"]
    ends = [end_of(seen.signs, calibration) for seen in captions]
    assert np.mean([seen.signs.best < end for seen, end in zip(captions, ends, strict=True)]) <= GATE_LOSS
    assert 1 - LOSS <= kept(captions, ends) <= 1 - LOSS + 0.01
    letters = [seen for seen in observations if seen.kind == "letters"]
    assert all(seen.signs.best < end_of(seen.signs, calibration) for seen in letters)
    assert fit(observations, "mini@1") == calibration


def test_what_fits_well_is_better_than_a_constant_share_of_the_best_score() -> None:
    observations, calibration = made(), fitted()
    large = [seen for seen in observations if seen.group[1] == WELL_SIZE]
    captions, words = ([seen for seen in large if seen.kind == kind] for kind in ("caption", "keywords"))

    def shares(some: list[Observation], share: float | None = None) -> tuple[float, float]:
        """Return which part of what is shown fits, and how often a right photo is shown, by brute force."""
        fitting, right = [], []
        for seen in some:
            if end_of(seen.signs, calibration) > seen.signs.best:
                continue
            well = well_of(seen.signs, calibration) if share is None else share * seen.signs.best
            shown = [rank for rank in range(DEPTH) if seen.scores[rank] >= well]
            fitting.append(np.mean([seen.fits[rank] for rank in shown]))
            right.append(any(score >= well for score in seen.right))
        return float(np.mean(fitting)), float(np.mean(right))

    fitting, right = shares(captions)
    assert fitting >= FITTING - 0.01
    assert shares(words)[0] >= FITTING_WORDS - 0.01
    constant = [shares(captions, share) for share in np.linspace(0.5, 1, 51)]
    assert right >= max(right for fitting, right in constant if fitting >= FITTING) - 0.02


def test_silent_and_shown() -> None:
    seen = [observation(100, "letters", 0.5, 0, []), observation(100, "letters", 0.2, 0, [])]
    assert silent(seen, [0.5, 0.3]) == 0.5
    np.testing.assert_array_equal(shown(seen, [0.5, 0.3]), [1, 0])


def test_kept_counts_right_photos() -> None:
    seen = [observation(100, "keywords", 0.5, 1, [0.5, 0.3]), observation(100, "caption", 0.5, 1, [0.2])]
    assert kept(seen, [0.3, 0.3]) == pytest.approx(2 / 3)
    assert kept(seen, [0.31, 0.1]) == pytest.approx(2 / 3)
    groups = by_group([*seen, observation(7, "caption", 0.5, 1, [0.4])])
    assert [len(group) for group in groups.values()] == [2, 1]
    assert mean_kept(groups.values(), lambda _: 0.3) == pytest.approx((2 / 3 + 1) / 2)


def test_highest() -> None:
    assert highest(lambda t: t <= 0.3, 1.0) == pytest.approx(0.3, abs=1e-3)


def test_a_model_that_is_not_trained() -> None:
    swap = {"caption": "letters", "letters": "caption"}
    backwards = [
        replace(seen, kind=swap.get(seen.kind, "removed"), right=np.array([seen.signs.best]))
        for seen in made()
    ]
    with pytest.raises(ModelError, match="not trained"):
        fit(backwards, "mini@1")
