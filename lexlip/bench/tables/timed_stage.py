"""What the response of a stage is timed with: its index, and the reranker with photos."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anserini_bridge import folder_megabytes, replace_index
from lexlip.bench.distractors import Documents, gaussian, recombined
from lexlip.bench.response import RerankerTokens, TimedIndex
from lexlip.bench.tables.first_stages import Measured, TableSettings, first_stage_folder, reranker_folder
from lexlip.data import Source, spread
from lexlip.indexing.bm25 import write_captions
from lexlip.machine.progress import ProgressBar
from lexlip.measure.bm25_recall import draw
from lexlip.measure.pairs import candidate_odds, reordered
from lexlip.measure.pool import CaptionedPool, PoolTokens, PoolVectors, embed_pool
from lexlip.measure.recalls import Report
from lexlip.models.contract import Encoder
from lexlip.models.load import load_reranker
from lexlip.models.one_transformer import OneTransformer
from lexlip.registry import BM25
from lexlip.search.engines.lucene import impact_writer
from lexlip.search.hybrid import Fusion
from lexlip.sparse.balance import quantize_documents

if TYPE_CHECKING:
    from lexlip.search.engines.faiss_index import Ann

TOKENS = 256  # photos that the reranker is timed with


def write_timed_index(
    folder: Path, stage: Measured, source: Source, settings: TableSettings, photos: int | None = None
) -> TimedIndex:
    """Write the index of a first stage as `lexlip index` does, so that another process can open it.

    `photos` is how many are in it, None for all that there are; synthetic vectors replace those that are
    missing (see `lexlip.bench.distractors`), which BM25 cannot have. BM25 takes the captions of the source.
    """
    if stage.vectors is None:
        t2i, _ = draw(CaptionedPool.of(source), np.random.default_rng(0))
        write_captions(folder, t2i.ids, t2i.documents, {"model": BM25})
        return TimedIndex(folder, len(t2i.ids), folder_megabytes(folder))
    documents, model = _documents(stage.vectors, photos), stage.vectors.model
    name = str(first_stage_folder(stage.name))
    with settings.bar(f"index of {stage.name}", len(documents), "photo") as bar:
        if model.vocabulary is None:
            _write_vectors(
                folder, documents, model, name, "hnsw" if settings.engine == "hnsw" else "flat", bar
            )
            return TimedIndex(folder, len(documents), folder_megabytes(folder))
        words = model.vocabulary.words
        extra, scheme = {"model": name}, settings.scheme_of(model)
        bank = model.balance and model.balance.photos
        with impact_writer(folder, words, scheme, stage.topk, model.identity, extra) as writer:
            for names, rows in documents:
                writer.add(names, quantize_documents(rows, stage.topk, scheme, bank))
                bar.update(len(names))
    return TimedIndex(folder, len(documents), folder_megabytes(folder), settings.query_topk)


def _documents(vectors: PoolVectors, photos: int | None) -> Documents:
    ids, rows = vectors.pool.image_ids[:photos], vectors.images[:photos]
    more = 0 if photos is None else max(0, photos - len(ids))
    return Documents(ids, rows, more, gaussian if vectors.model.vocabulary is None else recombined, rows)


def _write_vectors(
    folder: Path, documents: Documents, model: Encoder, name: str, ann: Ann, bar: ProgressBar
) -> None:
    from lexlip.indexing.dense import save_vectors  # Faiss is of the extra dense
    from lexlip.search.engines.faiss_index import FaissIndex, make_faiss

    vectors = FaissIndex(make_faiss(model.dimensions, ann), metric=model.metric)
    for names, rows in documents:
        vectors.add(names, rows)
        bar.update(len(names))
    with replace_index(folder) as data:
        save_vectors(folder, data, vectors, model, ann, {"model": name})


class TableReranker:
    """A cross-encoder, by name, with the photos that it needs, by id in `wanted`; it encodes each once."""

    def __init__(self, name: str, source: Source, settings: TableSettings) -> None:
        self.name, self.folder = name, reranker_folder(name)
        self.source, self.settings = source, settings
        self.wanted: set[str] = set()

    @cached_property
    def model(self) -> OneTransformer:
        return load_reranker(self.folder, self.settings.device)

    @cached_property
    def tokens(self) -> PoolTokens:
        """The photos that are wanted; TOKENS photos of the pool, if none are."""
        ids = [item.id for item in self.source.items]
        rows = [row for row, id in enumerate(ids) if id in self.wanted] or list(spread(len(ids), TOKENS))
        return embed_pool(self.model, self.source, self.settings.workers, self.settings.progress, rows)

    @property
    def photo_bytes(self) -> int:
        """The bytes of a photo's tokens."""
        tokens = self.tokens.photos[0]
        return tokens.numel() * tokens.element_size()

    def want(self, report: Report) -> None:
        """Note the photos that are needed to rerank a first stage's answers."""
        for way, ranking in report.rankings.items():
            answers = {id for found in ranking.found for id in found}
            photos, texts = (answers, ranking.queries) if way == "t2i" else (ranking.queries, answers)
            self.wanted.update(photos, map(owner_of, texts))

    def want_all(self) -> None:
        """Note that all photos are needed, to score every pair."""
        self.wanted.update(item.id for item in self.source.items)

    def reports(
        self, first: Report, ks: Sequence[int], fusions: Sequence[Fusion], weight: float
    ) -> dict[tuple[int, Fusion], Report]:
        """Return the first stage's report with the k best reranked, by k and fusion.

        Each pair is scored once.
        """
        odds = candidate_odds(self.model, self.tokens, first, max(ks), self.settings.progress)
        return {(k, fusion): reordered(first, odds, k, fusion, weight) for k in ks for fusion in fusions}

    def save_tokens(self, folder: Path) -> RerankerTokens:
        """Write what the reranker is timed with."""
        file = folder / "tokens.npy"
        np.save(file, self.tokens.photos[:TOKENS].numpy())
        return RerankerTokens(str(self.folder), file)


def owner_of(text: str) -> str:
    """Return the id of a caption's photo, given the caption's id, PHOTO#n."""
    return text.rpartition("#")[0]
