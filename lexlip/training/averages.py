"""Averages of models' weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def average(states: Sequence[Mapping[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """Return the mean of models' tensors, each model with its weight; whole numbers are the first one's.

    What all models have alike, such as frozen encoders, stays as it is, bit for bit. Models of one origin lie
    in one valley of the loss, and its middle is often better than its ends (Wortsman et al., 2022, arXiv
    2203.05482).
    """
    first, total = states[0], sum(weights)
    mean = dict(first)
    for state, weight in zip(states[1:], weights[1:], strict=True):
        for name, value in first.items():
            if value.is_floating_point():
                mean[name] = mean[name] + weight / total * (state[name] - value)
    return mean
