"""Writes documents and queries to a folder: synthetic ones, or photos and captions that a model encodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lexlip.bench.corpus.corpus import Corpus, write_dense, write_documents, write_queries
from lexlip.bench.corpus.synthetic import BLOCK, SHAPES, SyntheticVectors
from lexlip.data.source import no_captions
from lexlip.errors import ConfigError
from lexlip.sparse.quantize import quantize
from lexlip.sparse.topk import topk as heaviest

if TYPE_CHECKING:
    from lexlip.data import Source
    from lexlip.models.lexlip import LexLIP


def prepare_synthetic(
    folder: Path,
    shape: str,
    documents: int,
    topk: int,
    queries: int,
    query_terms: int,
    seed: int,
    dense: bool,
) -> tuple[Corpus, dict[str, Any]]:
    """Return a corpus of synthetic vectors, and what is needed to make it again.

    Documents that the folder already holds are kept; queries are always written.

    Args:
        folder: where they are written.
        shape: key of SHAPES.
        documents: number of them.
        topk: terms that a document keeps.
        queries: number of them.
        query_terms: terms that a query keeps.
        seed: of everything that is drawn.
        dense: with dense vectors.

    Raises:
        ConfigError: the folder holds other documents.
    """
    made = {"documents": documents, "topk": topk, "seed": seed, "shape": asdict(SHAPES[shape])}
    vectors = SyntheticVectors(SHAPES[shape], seed)
    if not _is_there(folder, made):
        write_documents(folder, (rows for _, rows in vectors.documents(documents, topk)))
        _finish(folder, made)
    if dense and not Corpus(folder).dimensions:
        write_dense(folder, vectors.dense_documents(documents))
    corpus = min(documents, BLOCK)
    write_queries(
        folder,
        vectors.queries(queries, query_terms, corpus),
        vectors.dense_queries(queries, corpus) if dense else None,
    )
    return Corpus(folder), {"source": "synthetic", **made, "query_terms": query_terms}


def prepare_photos(
    folder: Path,
    model: LexLIP,
    photos: Source,
    documents: int | None,
    topk: int,
    queries: int,
    query_terms: int,
    seed: int,
) -> tuple[Corpus, dict[str, Any]]:
    """Return a corpus of the photos of a source, and what is needed to make it again.

    Args:
        folder: where documents and queries are written.
        model: the encoder.
        photos: with captions, some of which are drawn as queries.
        documents: the first so many photos; None takes all.
        topk, queries, query_terms, seed: see `prepare_synthetic`.

    Raises:
        ConfigError: the folder holds other documents.
        DataError: there are no captions, or no photo could be read.
    """
    from lexlip.photo_vectors import PhotoVectors, encode_captions

    captions = [caption for item in photos.items for caption in item.captions]
    if not captions:
        raise no_captions(photos.name)
    made = {"source": photos.name, "model": model.identity, "documents": documents, "topk": topk}
    if not _is_there(folder, made):
        encoded = PhotoVectors(model, photos, progress="photos")
        vectors = islice((rows for _, batch in encoded for rows in batch), documents)
        write_documents(folder, (quantize(heaviest(rows, topk)) for rows in vectors))
        _finish(folder, made)
    drawn = np.random.default_rng(seed).permutation(len(captions))[:queries]
    texts = encode_captions(model, [captions[row] for row in drawn], progress="captions")
    write_queries(folder, quantize(heaviest(texts, query_terms)))
    return Corpus(folder), {**made, "seed": seed, "query_terms": query_terms}


def _is_there(folder: Path, made: dict[str, Any]) -> bool:
    """Return whether a folder holds documents that were made like this."""
    file = folder / "made.json"
    if not file.exists():
        return False
    if json.loads(file.read_text()) != json.loads(json.dumps(made)):
        raise ConfigError(f"{folder.parent} holds other documents; give another --work-dir, or remove it")
    return True


def _finish(folder: Path, made: dict[str, Any]) -> None:
    (folder / "made.json").write_text(json.dumps(made))
