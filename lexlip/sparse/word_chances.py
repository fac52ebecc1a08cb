"""How likely people are to say each of a photo's words: in this order the words are shown.

A word's weight says how well it tells photos apart, so a weight that finds photos is not the chance that
somebody says the word: "dalmatian" may weigh more than "dog". A logistic regression for each word gives this
chance, from the weights of all words of the photo, through a few sums of them:

    P(word | photo) = sigmoid(scale ⊙ x + (x inputs) outputs + bias),   x = LENGTH · p / |p|

It is fitted to the training captions (lexlip/training/packaging.py) and lies in FILE of a model's folder.
Weights, and so scores, stay as they are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix

from lexlip.sparse.rows import owners, part_of_model

FILE = "likely.safetensors"
LENGTH = 6.0  # of a photo's vector, so that weights are about 1
ROWS = 256  # photos at a time


@dataclass(frozen=True)
class LikelyWords:
    """The regressions of V words, by R sums.

    Attributes:
        scale, bias: float32 [V].
        inputs: float32 [V, R].
        outputs: float32 [R, V].
    """

    scale: NDArray[np.float32]
    bias: NDArray[np.float32]
    inputs: NDArray[np.float32]
    outputs: NDArray[np.float32]

    def chances(self, vectors: csr_matrix) -> csr_matrix:
        """Return the chance of each of a photo's own words, float32 [n, V], stored as vectors [n, V] are."""
        rows = scaled(vectors)
        parts = [self._odds(rows[start : start + ROWS]) for start in range(0, rows.shape[0], ROWS)]
        odds = np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
        chances = (1 / (1 + np.exp(-np.clip(odds, -80, 80)))).astype(np.float32)
        return csr_matrix((chances, rows.indices, rows.indptr), shape=rows.shape)

    def _odds(self, rows: csr_matrix) -> NDArray[np.float32]:
        """Return the logarithm of the odds of each stored entry of rows."""
        sums, columns = np.asarray(rows @ self.inputs), rows.indices  # [n, R]
        of_others = np.einsum("nr,nr->n", sums[owners(rows)], self.outputs.T[columns])
        odds: NDArray[np.float32] = self.scale[columns] * rows.data + of_others + self.bias[columns]
        return odds


def scaled(vectors: csr_matrix) -> csr_matrix:
    """Return vectors [n, V] of length LENGTH, float32, with entries where they had them."""
    rows = csr_matrix(vectors, dtype=np.float32)
    photos = owners(rows)
    squares = np.bincount(photos, rows.data.astype(np.float64) ** 2, rows.shape[0])
    data = rows.data * (LENGTH / np.sqrt(np.maximum(squares, 1e-24)))[photos].astype(np.float32)
    return csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)


def as_shown(vector: csr_matrix, likely: LikelyWords | None) -> list[tuple[int, float]]:
    """Return (column, weight) of a photo's words [1, V], likeliest first; without `likely` the heaviest."""
    row = csr_matrix(vector)
    order_by = row.data if likely is None else likely.chances(row).data
    order = np.lexsort((row.indices, -row.data, -order_by))
    return list(zip(row.indices[order].tolist(), row.data[order].tolist(), strict=True))


def save_likely(folder: Path, likely: LikelyWords) -> None:
    """Write FILE into a model's folder, in half precision."""
    save_file({name: value.astype(np.float16) for name, value in asdict(likely).items()}, folder / FILE)


def load_likely(folder: Path, width: int) -> LikelyWords | None:
    """Return the regressions in a model's folder, of `width` words; None if it has none.

    OSError or ValueError: the file is damaged.
    """
    with part_of_model(folder / FILE) as tensors:
        if tensors is None:
            return None
        found = LikelyWords(**{name: value.astype(np.float32) for name, value in tensors.items()})
    sums = found.inputs.shape[-1]
    wanted = {"scale": (width,), "bias": (width,), "inputs": (width, sums), "outputs": (sums, width)}
    if any(value.shape != wanted[name] for name, value in asdict(found).items()):
        raise ValueError(f"{FILE} is not of {width} words")
    return found
