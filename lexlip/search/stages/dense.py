"""The first stage of dense models: vectors of photos in Faiss.

DIR/data-<n>/vectors.faiss and ids.json, in an index's folder as anserini_bridge.storage describes it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import CorruptIndex, IndexHeader, check_file, read_metadata_as
from lexlip.errors import ModelError
from lexlip.queries.query_language import Query
from lexlip.queries.query_tokenizer import words_after
from lexlip.registry import Metric
from lexlip.retrieval.engine import Results
from lexlip.retrieval.first_stage import WithoutWords
from lexlip.search.engines.faiss_index import IDS, VECTORS, Ann, FaissIndex
from lexlip.search.stages.index_model import load_dense_encoder

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder


@dataclass(frozen=True, kw_only=True)
class DenseMetadata(IndexHeader):
    """What `index.json` says about a dense index.

    Attributes:
        model_kind: such as "dense" or "clip".
        metric: how vectors are compared.
        ann: how they are searched.
        dimensions: D.
    """

    kind: str = "dense"
    model_kind: str
    metric: Metric
    ann: Ann
    dimensions: int


def open_vectors(index: Path) -> tuple[DenseMetadata, FaissIndex]:
    """Return what a dense index holds.

    Raises:
        BridgeError: it is not a dense index, or it cannot be read.
    """
    while True:
        metadata = read_metadata_as(DenseMetadata, index)
        try:
            with ThreadPoolExecutor(1) as thread:  # which compares the vectors while they are loaded
                checked = thread.submit(check_file, index, metadata, VECTORS)
                check_file(index, metadata, IDS)
                vectors = FaissIndex.load(index / metadata.directory, metadata.metric)
                checked.result()
            return metadata, vectors
        except CorruptIndex:
            if read_metadata_as(DenseMetadata, index) == metadata:  # otherwise a writer has just replaced it
                raise


class DenseStage(WithoutWords):
    """See `FirstStage`.

    Args:
        index, model, device: see `lexlip.search.open_index.open_index`.
        query_encoder: "network"; dense vectors have no words.
        query_topk: not used, as dense vectors have no words to keep.
    """

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = None,
        device: str = "auto",
    ) -> None:
        self.index = index
        self.opened = open_vectors(index)  # replaced as a whole
        if query_encoder == "words":
            raise ModelError(
                f"the index {index} was made with {self.metadata.encoder}, which has no words:"
                " use --query-encoder network"
            )
        self.encoder = load_dense_encoder(index, self.metadata, model, device)

    def encode(self, query: str | Query) -> csr_matrix:
        return self.encoder.encode_text([self.sentence(query)])

    def unread(self, query: str | Query) -> str:
        text, length = self.sentence(query), self.encoder.config.text.max_tokens
        tokens = self.encoder.tokenizer(
            text,
            truncation=True,
            max_length=length,
            return_offsets_mapping=True,
            return_overflowing_tokens=True,
        )
        offsets = tokens["offset_mapping"]
        return words_after(text, offsets[0]) if len(offsets) > 1 else ""

    def search(
        self, queries: Sequence[csr_matrix], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Results:
        return self.vectors.search(vstack(queries, format="csr"), k, allowed)

    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = ()) -> NDArray[np.bool_] | None:
        self.holding(without)  # which it refuses
        if ids is None:
            return None
        wanted = frozenset(ids)
        return np.array([id in wanted for id in self.vectors.ids], np.bool_)

    def like(self, id: str) -> csr_matrix:
        return self.vectors.vector(id)

    @contextmanager
    def hold(self) -> Iterator[DenseStage]:
        yield copy.copy(self)  # vectors are never changed

    def refresh(self) -> bool:
        metadata = read_metadata_as(DenseMetadata, self.index)
        if metadata == self.metadata:
            return False
        self.opened = open_vectors(self.index)
        return True

    @property
    def metadata(self) -> DenseMetadata:  # type: ignore[override]
        return self.opened[0]

    @property
    def vectors(self) -> FaissIndex:
        """The photos' vectors."""
        return self.opened[1]

    def close(self) -> None:
        pass
