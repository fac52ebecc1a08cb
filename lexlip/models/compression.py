"""Small weight files: matrices as int8 with one scale a row, the rest in half precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT8, SCALE = ".int8", ".scale"

Weights = Mapping[str, NDArray[Any]]


def compress(weights: Weights) -> dict[str, NDArray[Any]]:
    """A state dictionary at about a quarter of its size.

    A float matrix becomes NAME.int8 and NAME.scale, as `int8_rows` has it; other floats, convolutions among
    them, become float16: one scale a filter costs a MobileNetV2 with folded batch norms nearly a point of
    R@1.
    """
    compressed = {}
    for name, weight in weights.items():
        if not np.issubdtype(weight.dtype, np.floating):
            compressed[name] = weight
        elif weight.ndim != 2:
            compressed[name] = weight.astype(np.float16)
        else:
            compressed[name + INT8], compressed[name + SCALE] = int8_rows(weight)
    return compressed


def int8_rows(weight: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A float matrix, [n, m], as int8 [n, m] and scale float32 [n], the largest of each row at ±127.

    Row r is int8[r] · scale[r], up to half a step.
    """
    weight = weight.astype(np.float32)
    scale = np.maximum(np.abs(weight).max(axis=1), np.float32(1e-12)) / np.float32(127)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def expand(tensors: Weights) -> dict[str, NDArray[Any]]:
    """The state dictionary that `compress` was given, up to rounding; others pass as they are."""
    weights = {}
    for name, tensor in tensors.items():
        if name.endswith(INT8):
            scale = tensors[name.removesuffix(INT8) + SCALE]
            weights[name.removesuffix(INT8)] = tensor * scale[:, None]
        elif not name.endswith(SCALE):
            weights[name] = tensor
    return weights
