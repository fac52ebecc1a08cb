"""First stages without a model: photos by the words of their captions, in Lucene's BM25.

An index of captions has DIR/data-<n>/lucene/, in a folder as anserini_bridge.storage describes it; a photo's
document is all of its captions. Where the captions of an index of another kind are, beside its words or
vectors, `lexlip.indexing.bm25` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from anserini_bridge import IndexHeader, read_header, read_metadata_as
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.errors import DataError, ModelError
from lexlip.machine.resources import cores
from lexlip.queries.query_language import Query
from lexlip.retrieval.collection import check_stored
from lexlip.retrieval.first_stage import ReopenedStage, Results
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.stages.index_model import check_no_model

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder

Header = TypeVar("Header", bound=IndexHeader)


@dataclass(frozen=True, kw_only=True)
class BM25Metadata(IndexHeader):
    """What `index.json` says about an index of captions; their stop words and stems are of the language.

    Attributes:
        postings: pairs of a photo and a word of its captions.
    """

    kind: str = "bm25"
    postings: int
    language: str = "en"


class _CaptionSearch(ReopenedStage[Header, Bm25Searcher]):
    """Searches captions, wherever they are; without a model, pictures cannot search."""

    adds_names = False

    @property
    def encoder(self) -> Encoder:
        raise ModelError(
            f"the index {self.index} holds captions (BM25), which a picture cannot search:"
            " give a sentence, or index with a model"
        )

    def encode(self, query: str | Query) -> str:
        return self.sentence(query)

    def search(self, queries: Sequence[str], k: int, allowed: frozenset[str] | None = None) -> Results:
        if allowed is None:
            ids, scores = self.engine.search(queries, k, threads=min(len(queries), cores()))
            return ids, list(scores)
        answers = [self._search_among(allowed, query, k) for query in queries]
        return [ids for ids, _ in answers], [scores for _, scores in answers]

    def _search_among(self, allowed: frozenset[str], query: str, k: int) -> tuple[list[str], np.ndarray]:
        """Return the k best of some photos: look deeper until there are as many, or no more."""
        depth = 4 * k
        while True:
            (ids,), (scores,) = self.engine.search([query], depth)
            kept = [rank for rank, id in enumerate(ids) if id in allowed][:k]
            if len(kept) == k or len(ids) < depth:
                return [ids[rank] for rank in kept], scores[kept]
            depth *= 4

    def allow(
        self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()
    ) -> frozenset[str] | None:
        self.holding(without)  # which it refuses
        return None if ids is None else frozenset(ids)

    def matches(self, query: str, ids: Sequence[str]) -> list[dict[str, float]]:
        return self.engine.contributions(query, ids)

    def like(self, id: str) -> str:
        raise ModelError(
            f"the index {self.index} holds captions (BM25), which cannot search for similar photos"
        )


class BM25Stage(_CaptionSearch[BM25Metadata]):
    """Searches an index of captions; see `FirstStage`.

    The model is None or "bm25"; what else `open_index` gives is for models, and not used.
    """

    def __init__(self, index: Path, model: str | None = None, *_: object) -> None:
        check_no_model(index, read_metadata_as(BM25Metadata, index), model)
        super().__init__(index)

    def read_header(self) -> BM25Metadata:
        return read_metadata_as(BM25Metadata, self.index)

    def open_engine(self, header: BM25Metadata) -> Bm25Searcher:
        return Bm25Searcher(self.index / header.directory / "lucene", language=header.language)


class CaptionsStage(_CaptionSearch[IndexHeader]):
    """Searches the captions and keywords that an index of words or vectors has beside these, to fuse both.

    Raises:
        DataError: none of its photos has captions or keywords.
    """

    @property
    def state(self) -> str:
        return f"{super().state} {self.metadata.extra['captions']['folder']}"

    def tables(self) -> list[PhotoTable]:
        return []  # the photos are those of the index

    def read_header(self) -> IndexHeader:
        return read_header(self.index)

    def open_engine(self, header: IndexHeader) -> Bm25Searcher:
        check_stored(self.index, header)
        captions: dict[str, Any] | None = header.extra.get("captions")
        if captions is None and header.extra.get("captions_left_out"):
            raise DataError(
                f"the captions in the index {self.index} are not indexed, as Anserini was missing:"
                " pip install 'lexlip[anserini]', and index again"
            )
        if captions is None:
            raise DataError(
                f"no photo of the index {self.index} has a caption or a keyword: leave out --captions"
            )
        folder = self.index / header.directory / captions["folder"]
        return Bm25Searcher(folder, language=captions["language"])
