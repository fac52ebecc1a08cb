"""The first stage without a model: photos by the words of their captions, in Lucene's BM25.

DIR/data-<n>/lucene/, in an index's folder as anserini_bridge.storage describes it; a photo's document is
all of its captions.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anserini_bridge import BridgeError, IndexHeader, read_metadata_as
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.errors import ModelError
from lexlip.machine.resources import cores
from lexlip.queries.query_language import Query
from lexlip.retrieval.engine import Results
from lexlip.retrieval.first_stage import WithoutWords, no_stored_query
from lexlip.search.stages.index_model import check_no_model

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder


@dataclass(frozen=True, kw_only=True)
class BM25Metadata(IndexHeader):
    """What `index.json` says about an index of captions.

    Attributes:
        postings: pairs of a photo and a word of its captions.
        language: whose stop words and stems the captions were indexed with.
    """

    kind: str = "bm25"
    postings: int
    language: str = "en"


@dataclass
class Opened:
    """One state of an index; the stage itself, and each who holds it, is a user."""

    metadata: BM25Metadata
    searcher: Bm25Searcher
    users: int = 1


class BM25Stage(WithoutWords):
    """See `FirstStage`; without a model, pictures cannot search.

    Args:
        index: the index's folder.
        model: None, or "bm25".
        query_encoder, query_topk, device: not used, as sentences are searched as they are.
    """

    def __init__(
        self,
        index: Path,
        model: str | None = None,
        query_encoder: str = "network",
        query_topk: int | None = None,
        device: str = "auto",
    ) -> None:
        check_no_model(index, read_metadata_as(BM25Metadata, index), model)
        self._start(index)

    def _start(self, index: Path) -> None:
        self.index = index
        self._lock = threading.Lock()
        self._opened = self._open()

    def _open(self) -> Opened:
        """Open the newest state."""
        while True:
            metadata = self._newest()
            folder = self.index / metadata.directory / "lucene"
            try:
                return Opened(metadata, Bm25Searcher(folder, language=metadata.language))
            except BridgeError:
                if self._newest() == metadata:  # otherwise a writer has just replaced the index
                    raise

    def _newest(self) -> BM25Metadata:
        return read_metadata_as(BM25Metadata, self.index)

    @property
    def metadata(self) -> BM25Metadata:  # type: ignore[override]
        return self._opened.metadata

    @property
    def searcher(self) -> Bm25Searcher:
        """Searches the captions."""
        return self._opened.searcher

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
            ids, scores = self.searcher.search(queries, k, threads=min(len(queries), cores()))
            return ids, list(scores)
        answers = [self._search_among(allowed, query, k) for query in queries]
        return [ids for ids, _ in answers], [scores for _, scores in answers]

    def _search_among(self, allowed: frozenset[str], query: str, k: int) -> tuple[list[str], np.ndarray]:
        """Return the k best of some photos: look deeper until there are as many, or no more."""
        depth = 4 * k
        while True:
            (ids,), (scores,) = self.searcher.search([query], depth)
            kept = [rank for rank, id in enumerate(ids) if id in allowed][:k]
            if len(kept) == k or len(ids) < depth:
                return [ids[rank] for rank in kept], scores[kept]
            depth *= 4

    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = ()) -> frozenset[str] | None:
        self.holding(without)  # which it refuses
        return None if ids is None else frozenset(ids)

    def matches(self, query: str, ids: Sequence[str]) -> list[dict[str, float]]:
        return self.searcher.contributions(query, ids)

    def like(self, id: str) -> str:
        raise no_stored_query(self.index, "captions (BM25)")

    def refresh(self) -> bool:
        if self._newest() == self.metadata:
            return False
        newer = self._open()
        with self._lock:
            before, self._opened = self._opened, newer
        self._release(before)
        return True

    @contextmanager
    def hold(self) -> Iterator[BM25Stage]:
        with self._lock:
            held = copy.copy(self)
            held._opened.users += 1
        try:
            yield held
        finally:
            self._release(held._opened)

    def close(self) -> None:
        self._release(self._opened)

    def _release(self, opened: Opened) -> None:
        """Close a state of the index that nobody uses any more."""
        with self._lock:
            opened.users -= 1
            if opened.users:
                return
        opened.searcher.close()
