"""Answers sentences and pictures with the photos of an index of any kind, and says which words matched."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anserini_bridge import read_header
from lexlip.data import decode
from lexlip.errors import DataError, ModelError
from lexlip.retrieval.answer import Answer, Hit
from lexlip.retrieval.collection import check_same_photos, locate
from lexlip.retrieval.photo_table import open_photos
from lexlip.search.hybrid import HybridStage
from lexlip.search.open_index import open_index
from lexlip.sparse.query_topk import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.retrieval.first_stage import FirstStage, Found
    from lexlip.search.fusion import Hybrid
    from lexlip.search.rerank import Reranker


class PhotoSearch:
    """An open index with what encodes queries for it: LexLIP's words, dense vectors, or captions in BM25.

    An index of words answers sentences without torch; the first picture that searches loads it.

    Args:
        index: the index's folder.
        model, query_encoder, query_topk: see `lexlip.search.open_index.open_index`.
        rerank: a second stage, which looks at the first photos again.
        also: the folder of a second index of the same photos, whose answers are fused with the first's.
        hybrid, hybrid_weight: how they are fused; see `lexlip.search.fusion.fuse_two`.
        device: see `lexlip.search.open_index.open_index`.

    Raises:
        ModelError: the model does not exist, or did not make the index.
        DataError: the second index is of photos from another folder.
        BridgeError: there is no index, or it cannot be read (see anserini_bridge.errors).
    """

    def __init__(
        self,
        index: str | Path = ".lexlip",
        model: str | None = None,
        query_encoder: QueryEncoder = "network",
        query_topk: int | None = SENTENCE_TOPK,
        rerank: Reranker | None = None,
        also: str | Path | None = None,
        hybrid: Hybrid = "rrf",
        hybrid_weight: float = 0.5,
        device: str = "auto",
    ) -> None:
        if also is not None:
            first, second = read_header(index).extra, read_header(also).extra
            check_same_photos(first, second, Path(index), Path(also))
        self.stage: FirstStage = open_index(index, model, query_encoder, query_topk, device)
        self.rerank = rerank
        if also is not None:
            try:
                self.stage = HybridStage(self.stage, open_index(also, device=device), hybrid, hybrid_weight)
            except BaseException:
                self.close()
                raise

    @classmethod
    def of(cls, stage: FirstStage, rerank: Reranker | None = None) -> Self:
        """Return a search in an index that is open already, which is closed with it."""
        search = cls.__new__(cls)
        search.stage, search.rerank = stage, rerank
        return search

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index."""
        self.stage.close()

    def refresh(self) -> bool:
        """Move to the newest state of the index; return whether there was a newer one.

        Raises:
            BridgeError: the new state cannot be read; the old one stays open.
        """
        return self.stage.refresh()

    def text(self, query: str, k: int = 10) -> Answer:
        """Return the k photos that fit a sentence best."""
        return self.texts([query], k)[0]

    def texts(self, queries: Sequence[str], k: int = 10) -> list[Answer]:
        """Return the k photos that fit each of several sentences best.

        The sentences are searched together, on all cores; `Answer.ms` is each one's share.
        """
        if not queries:
            return []
        depth = k if self.rerank is None else max(k, self.rerank.k)
        started = time.perf_counter()
        encoded = [self.stage.encode(query) for query in queries]
        encoded_at = time.perf_counter()
        found, extra = self._find(encoded, depth)
        shares = {
            "encode": 1000 * (encoded_at - started) / len(queries),
            "search": 1000 * (time.perf_counter() - encoded_at) / len(queries),
        }
        return [self._text(query, of, extra, shares, k) for query, of in zip(queries, found, strict=True)]

    def _find(self, queries: Sequence[Any], k: int) -> tuple[list[Found], dict[str, Any]]:
        """Return what queries find, and where its photos are, from one state of the index."""
        with self.stage.hold() as stage:
            return stage.find(queries, k), stage.metadata.extra

    def _text(self, query: str, found: Found, extra: dict[str, Any], ms: dict[str, float], k: int) -> Answer:
        hits, ms = self._hits(found, extra), dict(ms)
        if self.rerank is not None:
            started = time.perf_counter()
            hits = self.rerank(query, hits)[:k]
            ms["rerank"] = 1000 * (time.perf_counter() - started)
        return Answer(query, found.terms, hits, ms, self.stage.unknown(query))

    def image(self, path: str | Path, k: int = 10) -> Answer:
        """Return the k photos that are most similar to a picture.

        Raises:
            DataError: the file cannot be read, or is not an image.
            ModelError: the index holds captions, or there is a second stage, which takes sentences only.
        """
        if self.rerank is not None:
            raise ModelError("a cross-encoder compares sentences with photos: leave out --rerank")
        started = time.perf_counter()
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"cannot read the picture {path}: {error.strerror}") from error
        encoder = self.stage.encoder
        try:
            photo = decode(data, encoder.config.image.size)
        except DataError as error:
            raise DataError(f"cannot read the picture {path}: {error}") from error
        encoded: Any = encoder.encode_image([photo])
        encoded_at = time.perf_counter()
        (found,), extra = self._find([encoded], k)
        ms = {
            "encode": 1000 * (encoded_at - started),
            "search": 1000 * (time.perf_counter() - encoded_at),
        }
        return Answer(str(path), found.terms, self._hits(found, extra), ms, [])

    def _hits(self, found: Found, extra: dict[str, Any]) -> list[Hit]:
        index = self.stage.index
        rows = zip(found.ids, found.scores, found.words, strict=True)
        if "photos" not in extra or "root" in extra:
            paths = [locate(id, extra, index) for id in found.ids]
        else:
            with open_photos(index, read_header(index)) as photos:
                known = zip(found.ids, photos.get(found.ids), strict=True)
                paths = [photo.path if photo else id for id, photo in known]
        return [
            Hit(rank=rank, id=id, path=paths[rank - 1], score=float(score), words=words)
            for rank, (id, score, words) in enumerate(rows, 1)
        ]
