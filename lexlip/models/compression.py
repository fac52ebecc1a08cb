"""Small weight files: matrices as int8 with one scale per row, everything else in half precision.

Large matrices may have 4 bits a weight, in blocks of 32 with a scale each, as GGML's Q4_0 has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT8, SCALE = ".int8", ".scale"
INT4, BLOCKS = ".int4", ".blocks"
BLOCK = 32  # weights of a row that share a scale

Weights = Mapping[str, NDArray[Any]]


def compress(weights: Weights) -> dict[str, NDArray[Any]]:
    """Return a state dictionary at about a quarter of its size.

    A float matrix becomes NAME.int8 and NAME.scale (see `int8_rows`). Other floats, including convolutions,
    become float16: with int8 and one scale per filter, a MobileNetV2 with folded batch norms loses nearly a
    point of R@1.
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
    """Return a float matrix [n, m] as int8 [n, m] and float32 scales [n]: row r is int8[r] · scale[r].

    A row's largest entry is ±127, and the error up to half a step.
    """
    weight = weight.astype(np.float32)
    scale = np.maximum(np.abs(weight).max(axis=1), np.float32(1e-12)) / np.float32(127)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def int4_rows(weight: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return a float matrix [n, m], m a multiple of BLOCK, as uint8 [n, m/2] and float16 scales [n, m/BLOCK].

    A block's entry that is farthest from 0 becomes -8, and what was in this form before comes back exactly.
    See `from_int4`.
    """
    blocks = weight.astype(np.float32).reshape(len(weight), -1, BLOCK)
    farthest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2, keepdims=True), axis=2)
    scales = (farthest[..., 0] / -8).astype(np.float16)
    steps = np.where(scales == 0, 1, scales).astype(np.float32)
    whole = (np.clip(np.rint(blocks / steps[..., None]), -8, 7) + 8).astype(np.uint8)
    packed = whole[..., : BLOCK // 2] | whole[..., BLOCK // 2 :] << np.uint8(4)
    return packed.astype(np.uint8).reshape(len(weight), -1), scales


def from_int4(packed: NDArray[np.uint8], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    """Return float32 [n, m] of what `int4_rows` made.

    Byte j of a block, of BLOCK/2, holds the weights j (low) and j + BLOCK/2 (high), each 8 more than it is.
    """
    blocks = packed.reshape(*scales.shape, BLOCK // 2)
    whole = np.concatenate([blocks & 15, blocks >> 4], axis=2).astype(np.float32) - 8
    weights: NDArray[np.float32] = (whole * scales[..., None].astype(np.float32)).reshape(len(packed), -1)
    return weights


def expand(tensors: Weights) -> dict[str, NDArray[Any]]:
    """Return the state dictionary that was compressed, up to rounding; others pass unchanged."""
    weights = {}
    for name, tensor in tensors.items():
        if name.endswith(INT8):
            scale = tensors[name.removesuffix(INT8) + SCALE]
            weights[name.removesuffix(INT8)] = tensor * scale[:, None]
        elif name.endswith(INT4):
            weights[name.removesuffix(INT4)] = from_int4(tensor, tensors[name.removesuffix(INT4) + BLOCKS])
        elif not name.endswith((SCALE, BLOCKS)):
            weights[name] = tensor
    return weights
