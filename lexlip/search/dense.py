"""The first stage of dense models: vectors of photos in Faiss.

DIR/data-<n>/vectors.faiss and ids.json, in an index's folder as anserini_bridge.storage describes it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.sparse import csr_matrix

from anserini_bridge import IndexHeader, folder_megabytes, read_metadata_as, replace_index, write_metadata
from lexlip.data import Source
from lexlip.errors import ModelError
from lexlip.search.collection import describe_collection
from lexlip.search.encoder import load_dense_encoder
from lexlip.search.faiss_index import Ann, FaissIndex, make_faiss
from lexlip.search.first_stage import Found
from lexlip.search.indexing import Indexed, writing_to

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder, Metric, QueryEncoder


@dataclass(frozen=True, kw_only=True)
class DenseMetadata(IndexHeader):
    """What `index.json` says of a dense index."""

    kind: str = "dense"
    model_kind: str  # such as "dense" or "clip"
    metric: Metric
    ann: Ann
    dimensions: int


def index_vectors(
    model: Encoder,
    model_name: str,
    source: Source,
    listed: float,
    index: str | Path,
    ann: Ann = "flat",
    workers: int = 2,
    progress: bool = False,
) -> Indexed:
    """Index the photos of a source by dense vectors, which are held in memory until all are written.

    Args:
        model: the encoder.
        ann: see `lexlip.search.faiss_index.make_faiss`.
        model_name, source, listed, index, workers, progress: as for `lexlip.search.indexing.index_photos`.

    Raises:
        DataError: none of the photos could be read, or the folder cannot be written; the old index stays.
        BridgeError: the folder is not an index, or another process is writing to it.
    """
    from lexlip.encoding import PhotoVectors

    started = time.perf_counter()
    index = Path(index)
    extra = {"model": model_name, **describe_collection(source, index, listed)}
    photos = PhotoVectors(model, source, workers=workers, progress="index" if progress else None)
    vectors = FaissIndex(make_faiss(model.dimensions, ann), metric=model.metric)
    with writing_to(index), replace_index(index) as folder:
        for batch in photos:
            vectors.add(*batch)
        if not vectors.ids:
            raise photos.none_read()
        vectors.save(folder)
        metadata = DenseMetadata(
            directory=folder.name,
            documents=len(vectors),
            encoder=model.identity,
            model_kind=model.kind,
            metric=model.metric,
            ann=ann,
            dimensions=model.dimensions,
            extra=extra,
        )
        write_metadata(index, metadata)
    return Indexed(
        index=str(index),
        photos=len(vectors),
        postings=None,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *photos.skipped],
    )


def open_vectors(index: Path) -> tuple[DenseMetadata, FaissIndex]:
    """What a dense index holds.

    Raises:
        BridgeError: no dense index, or one that cannot be read.
    """
    metadata = read_metadata_as(DenseMetadata, index)
    return metadata, FaissIndex.load(index / metadata.directory, metadata.metric)


class DenseStage:
    """See `FirstStage`.

    Args:
        index: the index's folder.
        model, query_encoder: see `PhotoSearch`.
    """

    def __init__(
        self, index: Path, model: str | None = None, query_encoder: QueryEncoder = "network"
    ) -> None:
        self.metadata, self.vectors = open_vectors(index)
        if query_encoder == "words":
            raise ModelError(
                f"the index {index} was made with {self.metadata.encoder}, which has no words;"
                " use the network query encoder"
            )
        self.encoder = load_dense_encoder(index, self.metadata, model)

    def encode(self, query: str) -> csr_matrix:
        return self.encoder.encode_text([query])

    def unknown(self, query: str) -> list[str]:
        return []

    def find(self, query: csr_matrix, k: int) -> Found:
        (ids,), (scores,) = self.vectors.search(query, k)
        return Found.without_words(ids, scores)

    def close(self) -> None:
        pass
