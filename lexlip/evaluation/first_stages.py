"""First stages on the same photos: what each finds, with every model encoding them once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lexlip.data import Source
from lexlip.evaluation.bm25 import evaluate_bm25
from lexlip.evaluation.encoded import Encoded, encode_source
from lexlip.evaluation.evaluate import Report, measure
from lexlip.evaluation.systems.impact import TopK, name_of
from lexlip.models.encoder import Encoder
from lexlip.models.folder import BM25, is_hub_name, model_folder
from lexlip.models.kinds import check_first_stage, check_reranker, load_model
from lexlip.search.engines import EngineName, engine_for, engines_of
from lexlip.sparse.quantize import Scheme


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How first stages are measured.

    Attributes:
        topks: words that a document keeps, a measurement each; None keeps all. Dense models have none.
        engine: for the models that it fits; the others have their own, and all if it is None.
        scheme: see `lexlip.sparse.quantize`.
        query_topk: words that a query keeps; None keeps all.
        workers: threads that decode photos.
        progress: show progress bars.
        depth: documents that a query finds.
    """

    topks: Sequence[TopK] = (None,)
    engine: EngineName | None = None
    scheme: Scheme = "unit"
    query_topk: int | None = None
    workers: int = 2
    progress: bool = False
    depth: int = 10


@dataclass(frozen=True)
class Measured:
    """A first stage, and what it found.

    Attributes:
        name: as the user named it.
        documents: what it keeps of a photo: "top-32", "all", "dense" or "captions".
        topk: words that a document keeps.
        engine: what searched.
        report: with rankings.
        model: None of BM25.
        encoded: the photos and captions; None of BM25.
    """

    name: str
    documents: str
    topk: TopK
    engine: str
    report: Report
    model: Encoder | None = None
    encoded: Encoded | None = None


def measure_first_stages(
    names: Sequence[str], source: Source, settings: Settings, asking: int | None = None
) -> Iterator[Measured]:
    """Measures first stages one after another, as `lexlip.evaluation.evaluate` does.

    Args:
        names: models by run, checkpoint, packaged or hub name, or "bm25".
        source: photos with captions.
        settings: see `Settings`.
        asking: the first so many photos ask, and their captions; None: all.

    Raises:
        ModelError: one of them does not exist, or finds nothing; before the first is measured.
        DataError: nothing can ask.
    """
    folders = [first_stage_folder(name) for name in names]
    for name, folder in zip(names, folders, strict=True):
        if folder == BM25:
            report = evaluate_bm25(source, progress=settings.progress, depth=settings.depth, asking=asking)
            yield Measured(name, "captions", None, BM25, report)
        else:
            yield from _of_model(name, load_model(folder), source, settings, asking)


def _of_model(
    name: str, model: Encoder, source: Source, settings: Settings, asking: int | None
) -> Iterator[Measured]:
    asked = settings.engine if settings.engine in engines_of(model) else None
    dense = model.vocabulary is None
    engine, engine_of = engine_for(model, asked, settings.scheme, None if dense else settings.query_topk)
    encoded = encode_source(
        model, source, workers=settings.workers, progress=settings.progress, asking=asking
    )
    for topk in (None,) if dense else settings.topks:
        report = measure(encoded, engine_of, topk, settings.progress, settings.depth)
        documents = "dense" if dense else name_of(topk)
        yield Measured(name, documents, topk, engine, report, model, encoded)


def first_stage_folder(name: str) -> str | Path:
    """Where a first stage's model is; "bm25" itself.

    Raises:
        ModelError: there is none, or it has no vectors to search.
    """
    check_first_stage(name)
    return _folder(name)


def reranker_folder(name: str) -> str | Path:
    """Where the model is that reranks.

    Raises:
        ModelError: there is none, or it does not score pairs.
    """
    check_reranker(name)
    return _folder(name)


def _folder(name: str) -> str | Path:
    """That of a model here; other names as they are."""
    return name if name == BM25 or is_hub_name(name) else model_folder(name)
