"""The first stage of dense models: vectors of photos in Faiss.

DIR/data-<n>/vectors.faiss and ids.json, in an index's folder as anserini_bridge.storage describes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import IndexHeader, check_file, read_metadata_as
from lexlip.errors import ModelError
from lexlip.queries.query_language import Query
from lexlip.registry import Metric
from lexlip.retrieval.first_stage import ReopenedStage, Results
from lexlip.search.engines.faiss_index import IDS, VECTORS, Ann, FaissIndex
from lexlip.search.stages.index_model import load_dense_encoder

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder, QueryEncoder


@dataclass(frozen=True, kw_only=True)
class DenseMetadata(IndexHeader):
    """What `index.json` says about a dense index, which has D dimensions.

    Attributes:
        model_kind: such as "dense" or "clip".
        metric, ann: how vectors are compared, and searched.
    """

    kind: str = "dense"
    model_kind: str
    metric: Metric
    ann: Ann
    dimensions: int


def load_vectors(index: Path, metadata: DenseMetadata) -> FaissIndex:
    """Return the vectors of a dense index; BridgeError: they cannot be read."""
    with ThreadPoolExecutor(1) as thread:  # which compares the vectors while they are loaded
        checked = thread.submit(check_file, index, metadata, VECTORS)
        check_file(index, metadata, IDS)
        vectors = FaissIndex.load(index / metadata.directory, metadata.metric)
        checked.result()
    return vectors


class DenseStage(ReopenedStage[DenseMetadata, FaissIndex]):
    """See `FirstStage`; dense vectors have no words, so sentences are encoded by the "network", and whole."""

    adds_names = False  # scores are cosines or dot products

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(index)
        if query_encoder == "words":
            raise ModelError(
                f"the index {index} was made with {self.metadata.encoder}, which has no words:"
                " use --query-encoder network"
            )
        self._encoder = load_dense_encoder(index, self.metadata, model, device)

    @property
    def encoder(self) -> Encoder:
        return self._encoder

    def read_header(self) -> DenseMetadata:
        return read_metadata_as(DenseMetadata, self.index)

    def open_engine(self, header: DenseMetadata) -> FaissIndex:
        return load_vectors(self.index, header)

    def encode(self, query: str | Query) -> csr_matrix:
        return self.encoder.encode_text([self.sentence(query)])

    def unread(self, query: str | Query) -> str:
        return self.encoder.unread(self.sentence(query))

    def search(
        self, queries: Sequence[csr_matrix], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Results:
        return self.engine.search(vstack(queries, format="csr"), k, allowed)

    def allow(
        self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()
    ) -> NDArray[np.bool_] | None:
        self.holding(without)  # which it refuses
        if ids is None:
            return None
        wanted = frozenset(ids)
        return np.array([id in wanted for id in self.engine.ids], np.bool_)

    def like(self, id: str) -> csr_matrix:
        return self.engine.vector(id)
