"""The first stage of LexLIP over shards: see `lexlip.search.engines.shards`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from anserini_bridge import ImpactSearcher
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.engines.shard import read_sharded
from lexlip.search.engines.shards import LocalShards, ShardedPhotos, ShardedSearcher, Shards
from lexlip.search.stages.impact import ImpactStage
from lexlip.search.stages.index_model import load_queries
from lexlip.sparse.query_topk import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder


class ShardedStage(ImpactStage):
    """See `FirstStage`.

    Args:
        index, model, query_encoder, query_topk, device: see `lexlip.search.open_index.open_index`.
        shards: the index's shards, which are closed with it; None opens them in this process.
    """

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = SENTENCE_TOPK,
        device: str = "auto",
        shards: Shards | None = None,
    ) -> None:
        metadata = read_sharded(index)
        queries = load_queries(index, metadata, model, query_encoder)
        words = queries.vocabulary.words
        searcher = ShardedSearcher(index, metadata, words, shards or LocalShards(index, metadata))
        # it has all that the stage asks of a searcher
        self._start(index, model, device, queries, cast("ImpactSearcher", searcher), query_topk)

    def tables(self) -> list[PhotoTable]:
        return [ShardedPhotos(cast("ShardedSearcher", self.searcher))]
