"""A saved model's weights, whole or compressed, without torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from lexlip.models.compression import INT8, SCALE, expand, int8_rows

Vector = NDArray[np.float32]  # [V]
Encode = Callable[[str], Vector]  # a sentence to its vector

Matrix = tuple[NDArray[np.int8], NDArray[np.float32]]
"""int8 [n, m] and the scale of each row, [n]; see `lexlip.models.compression.int8_rows`."""


class SavedWeights:
    """The weights in a model's folder, by name; a context manager.

    Raises:
        SafetensorError, OSError: the file cannot be read, or has no weight of a name.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.safetensors"

    def __enter__(self) -> Self:
        self.file = safe_open(self.path, "numpy").__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.file.__exit__(*error)

    def shape(self, name: str) -> list[int]:
        """Return a weight's shape."""
        shape: list[int] = self.file.get_slice(name).get_shape()
        return shape

    def tensor(self, name: str) -> NDArray:
        """Return a weight as it was before compression."""
        stored = {part: self.file.get_tensor(part) for part in self._parts(name)}
        return np.asarray(expand(stored)[name])

    def vector(self, name: str) -> Vector:
        """Return a vector, which is never compressed, as float32."""
        vector: Vector = self.file.get_tensor(name).astype(np.float32)
        return vector

    def matrix(self, name: str) -> Matrix:
        """Return a matrix in int8."""
        parts = [self.file.get_tensor(part) for part in self._parts(name)]
        return int8_rows(parts[0]) if len(parts) == 1 else (parts[0], parts[1])

    def _parts(self, name: str) -> tuple[str, ...]:
        """Return the names under which a weight is stored: its own, or those of `compress`."""
        small = name + INT8 in self.file.keys()  # noqa: SIM118 (a file is no dictionary)
        return (name + INT8, name + SCALE) if small else (name,)
