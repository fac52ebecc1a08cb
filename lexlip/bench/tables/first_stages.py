"""First stages on the same photos: what each finds, with every model encoding them once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lexlip.bench.tables.settings import TableSettings, TopK, topk_name
from lexlip.data import Source
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import Report, measure
from lexlip.measure.pool import PoolVectors, encode_pool
from lexlip.models.contract import Encoder
from lexlip.models.load import check_first_stage, check_reranker, load_model
from lexlip.models.model_folder import is_hub_name, model_folder
from lexlip.registry import BM25
from lexlip.search.open_engine import engine_for, engines_of


@dataclass(frozen=True)
class Measured:
    """A first stage and what it found.

    Attributes:
        name: as the user named it.
        documents: what it keeps of a photo: "top-32", "all", "dense" or "captions".
        topk: words that a document keeps.
        engine: what searched.
        report: with rankings.
        vectors: the photos and captions; None for BM25.
    """

    name: str
    documents: str
    topk: TopK
    engine: str
    report: Report
    vectors: PoolVectors | None = None


def measure_first_stages(
    names: Sequence[str], source: Source, settings: TableSettings, queries: int | None = None
) -> Iterator[Measured]:
    """Measure first stages one after another, as `lexlip.measure.evaluate` does.

    Args:
        names: models by run, checkpoint, packaged or hub name, or "bm25".
        source: photos with captions.
        settings: how they are measured.
        queries: the first so many photos, and their captions, are queries; None: all.

    Raises:
        ModelError: one of them does not exist or cannot find photos; raised before the first is measured.
        DataError: there are no queries.
    """
    folders = [first_stage_folder(name) for name in names]
    for name, folder in zip(names, folders, strict=True):
        if folder == BM25:
            report = evaluate_bm25(source, progress=settings.progress, depth=settings.depth, queries=queries)
            yield Measured(name, "captions", None, BM25, report)
        else:
            yield from _of_model(name, load_model(folder), source, settings, queries)


def _of_model(
    name: str, model: Encoder, source: Source, settings: TableSettings, queries: int | None
) -> Iterator[Measured]:
    wanted = settings.engine if settings.engine in engines_of(model) else None
    dense = model.vocabulary is None
    engine, engine_of = engine_for(model, wanted, settings.scheme, None if dense else settings.query_topk)
    bars = "" if settings.progress else None
    vectors = encode_pool(model, source, workers=settings.workers, progress=bars, queries=queries)
    for topk in (None,) if dense else settings.topks:
        report = measure(vectors, engine_of, topk, settings.progress, settings.depth)
        documents = "dense" if dense else topk_name(topk)
        yield Measured(name, documents, topk, engine, report, vectors)


def first_stage_folder(name: str) -> str | Path:
    """Return the folder of a first stage's model; "bm25" and hub names as they are.

    Raises:
        ModelError: there is none, or it has no vectors to search.
    """
    check_first_stage(name)
    return _folder(name)


def reranker_folder(name: str) -> str | Path:
    """Return the folder of the model that reranks.

    Raises:
        ModelError: there is none, or it does not compare pairs.
    """
    check_reranker(name)
    return _folder(name)


def _folder(name: str) -> str | Path:
    return name if name == BM25 or is_hub_name(name) else model_folder(name)
