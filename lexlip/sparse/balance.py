"""What an index stores of a photo or caption, by a bank of queries from the training data.

Documents that fit every query are made lighter: nearest-neighbour normalisation (arXiv 2410.24114). Some
photos are close to nearly all sentences, and push the right ones from the first places. So a document of unit
length is multiplied with √(t / s): s is the mean of its NEAREST best scores against the bank, and t is that
mean of a typical document. One of K words then keeps those that answer the bank's queries as all of its words
do: see `lexlip.sparse.top_words.prune`. Only the model's bank decides, never what else is indexed.

A model's folder keeps both banks in FILE: captions, which photos are compared with, and photos, which
captions are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from anserini_bridge.given_files import read_json
from lexlip.errors import ConfigError
from lexlip.registry import Metric
from lexlip.sparse.quantize import UNIT_SCALE, Scheme, quantize
from lexlip.sparse.rows import packed, part_of_model, unit_length, unpacked
from lexlip.sparse.top_words import prune, topk

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FILE = "balance.safetensors"
NEAREST = 16
FACTORS = (0.5, 2.0)  # the smallest and the largest
ROWS = 256  # documents that are compared at a time


@dataclass(frozen=True)
class Bank:
    """Queries that documents are compared with.

    Attributes:
        queries: impacts of unit vectors, uint16 [n, V], n >= NEAREST.
        typical: the mean of the NEAREST best cosines of a typical document, t.
    """

    queries: csr_matrix
    typical: float

    def __post_init__(self) -> None:
        if self.queries.shape[0] < NEAREST or not 0 < self.typical < np.inf:
            raise ValueError(f"a bank of {self.queries.shape[0]} queries, with {self.typical} as typical")

    @cached_property
    def units(self) -> csr_matrix:
        """The queries as unit vectors, float32 [n, V]."""
        from scipy.sparse import csr_matrix

        return csr_matrix(self.queries, dtype=np.float32) / np.float32(UNIT_SCALE)

    @cached_property
    def columns(self) -> csr_matrix:
        """The same, transposed, float32 [V, n]."""
        from scipy.sparse import csr_matrix

        return csr_matrix(self.units.T.tocsr())

    def documents(self, vectors: csr_matrix, kept: int | None = None) -> csr_matrix:
        """Return float32 documents of whole vectors [n, V]: unit vectors, each times its factor.

        At most `kept` words stay, which answer the bank's queries as all do; None keeps all.
        """
        from scipy.sparse import csr_matrix, diags_array, vstack

        unit = unit_length(topk(vectors, None))
        parts = []
        with _openblas().limit(limits=1):  # threads wait for each other at matrices as small as a document's
            for block, scores in self.compared(unit):
                short = block if kept is None else prune(block, kept, self.units, scores)
                parts.append(diags_array(self._factors(scores)) @ short)
        return csr_matrix(vstack(parts, format="csr"))

    def factors(self, unit: csr_matrix) -> NDArray[np.float32]:
        """Return what documents of unit length [n, V] are multiplied with, [n]."""
        return np.concatenate([self._factors(scores) for _, scores in self.compared(unit)])

    def compared(self, unit: csr_matrix) -> Iterator[tuple[csr_matrix, NDArray[np.float32]]]:
        """Yield unit documents, some [r, V] at a time, and their cosines with the queries, [r, n]."""
        for start in range(0, max(unit.shape[0], 1), ROWS):
            block = unit[start : start + ROWS]
            yield block, (block @ self.columns).toarray()

    def _factors(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        factors = np.sqrt(self.typical / np.maximum(_mean_of_nearest(scores), 1e-12))
        return np.clip(factors, *FACTORS).astype(np.float32)


@cache
def _openblas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(internal_api="openblas")


class Balance(NamedTuple):
    """What photos and captions are balanced by when they are documents."""

    photos: Bank
    captions: Bank


def make_bank(queries: csr_matrix, documents: csr_matrix) -> Bank:
    """Return a bank of queries [n, V], given typical documents [m, V] that belong to none of them."""
    bank = Bank(quantize(queries).astype(np.uint16), 1.0)
    means = [_mean_of_nearest(scores) for _, scores in bank.compared(unit_length(documents))]
    return replace(bank, typical=float(np.median(np.concatenate(means))))


def quantize_documents(
    vectors: csr_matrix, kept: int | None, scheme: Scheme, bank: Bank | None
) -> csr_matrix:
    """Return integer impacts, int32 [n, V], of whole float vectors [n, V]; see `lexlip.sparse.quantize`.

    Raises:
        ConfigError: "balanced" without a bank, or an unknown scheme.
        DataError: a weight is not finite, or too large for 32 bits.
    """
    return quantize(as_documents(vectors, kept, scheme, bank), scheme)


def as_documents(vectors: csr_matrix, kept: int | None, scheme: Scheme, bank: Bank | None) -> csr_matrix:
    """Return float documents [n, V] of whole vectors of any length, as a scheme takes them.

    Of `kept` words, for "balanced" the model's bank chooses which, else the heaviest stay; None keeps all.

    Raises:
        ConfigError: "balanced" without a bank.
    """
    if scheme != "balanced":
        return vectors if kept is None else topk(vectors, kept)
    if bank is None:
        raise ConfigError(
            "this model has no captions to balance with: leave --quantization out, or give unit or paper"
        )
    return bank.documents(vectors, kept)


def usual_scheme(balance: Balance | None, metric: Metric = "cosine") -> Scheme:
    """Return how the documents of a model are quantised unless the user says otherwise: as it ranks them."""
    if metric == "dot":
        return "dot"
    return "unit" if balance is None else "balanced"


def scheme_of(folder: Path) -> Scheme:
    """Return the same for the folder of a model of words, without loading the model."""
    if read_json(folder / "config.json")["model"].get("metric") == "dot":
        return "dot"
    return "balanced" if (folder / FILE).is_file() else "unit"


def _mean_of_nearest(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of the NEAREST best of scores [n, m], [n]."""
    means: NDArray[np.float32] = np.partition(scores, -NEAREST, axis=1)[:, -NEAREST:].mean(axis=1)
    return means


def save_balance(folder: Path, balance: Balance) -> None:
    """Write FILE into a model's folder."""
    tensors: dict[str, NDArray[Any]] = {}
    for name, bank in balance._asdict().items():
        tensors |= packed(bank.queries, f"{name}.")
        tensors[f"{name}.typical"] = np.array([bank.typical], dtype=np.float64)
    save_file(tensors, folder / FILE)


def load_balance(folder: Path, width: int) -> Balance | None:
    """Return the banks in a model's folder, of queries of `width` words; None if it has none.

    OSError or ValueError: the file is damaged.
    """
    with part_of_model(folder / FILE) as tensors:
        if tensors is None:
            return None
        banks = []
        for name in Balance._fields:
            queries = unpacked(tensors, width, np.uint16, f"{name}.").csr()
            banks.append(Bank(queries, float(tensors[f"{name}.typical"][0])))
        return Balance(*banks)
