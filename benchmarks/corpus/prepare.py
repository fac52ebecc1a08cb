"""Writes documents and queries to a folder: synthetic ones, or photos and captions that a model encodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from benchmarks.corpus.corpus import Corpus, write_dense, write_documents, write_queries
from benchmarks.corpus.synthetic import BLOCK, SHAPES, SyntheticVectors
from lexlip.bench.distractors import mixtures
from lexlip.data.source import no_captions
from lexlip.errors import ConfigError
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk as heaviest

if TYPE_CHECKING:
    from lexlip.data import Source
    from lexlip.models.contract import Encoder
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder

MIXTURES = 20  # of each real vector, at most: among more, searches are too fast


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

    Documents that the folder already holds are kept; queries are always written. A document keeps `topk`
    terms and a query `query_terms`; `shape` is a key of SHAPES, and `dense` adds dense vectors.

    Raises:
        ConfigError: the folder holds other documents.
    """
    made = {"documents": documents, "topk": topk, "seed": seed, "shape": asdict(SHAPES[shape])}
    vectors = SyntheticVectors(SHAPES[shape], seed)
    if not _is_there(folder, made):
        write_documents(folder, vectors.documents(documents, topk))
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


def prepare_encoded(
    folder: Path,
    model: LexLIP | PhotoEncoder,
    photos: Source | None,
    captions: Mapping[str, Sequence[str]],
    documents: int | None,
    topk: int,
    queries: int,
    query_terms: int,
    seed: int,
    asked_photos: int | None = None,
    dense: Encoder | None = None,
) -> tuple[Corpus, dict[str, Any]]:
    """Return a corpus of encoded photos, captions or both, and what is needed to make it again.

    The photos come first, then the captions in random order. If more documents are asked for, each further
    one mixes two of these (see `lexlip.bench.distractors.recombined`); its dense vector is their sum.

    Queries are captions, drawn at random: of `captions`, which then are not documents too; without them, of
    the photos.

    Args:
        folder, model: the vectors are written to a folder, as the model encodes them.
        photos: see above.
        captions: by the name of their file; repeated ones count once.
        documents: the first so many, or with mixtures; None takes all photos and captions.
        topk, queries, query_terms, seed: see `prepare_synthetic`.
        asked_photos: only captions of the first so many photos are queries; None: of all.
        dense: a model that makes the dense vectors of the same photos and captions.

    Raises:
        ConfigError: the folder holds other documents, there are fewer captions than queries, or too many
            documents are asked for.
        DataError: there are no captions, or no photo could be read.
    """
    rng = np.random.default_rng(seed)
    texts = list(dict.fromkeys(text for of_file in captions.values() for text in of_file))
    made: dict[str, Any] = {"source": photos.name if photos else None, "model": model.identity}
    made |= {"documents": documents, "topk": topk} | ({"dense": dense.identity} if dense else {})
    items = [photos.items[number] for number in range(asked_photos or len(photos))] if photos else []
    if captions:
        made |= {"source": ", ".join([*([photos.name] if photos else []), *captions]), "captions": len(texts)}
        made |= {"held_out": queries, "seed": seed}
        drawn, texts = _drawn(texts, queries, rng)
        asked = [(text, "") for text in drawn]
    else:
        pairs = [(caption, item.id) for item in items for caption in item.captions]
        asked = [pairs[row] for row in rng.permutation(len(pairs))[:queries]]
    if not asked:
        raise no_captions(photos.name if photos else ", ".join(captions))
    _check_mixtures(documents, (len(photos) if photos else 0) + len(texts))
    if not _is_there(folder, made):
        ids, real = _encoded(model, photos, texts, documents, topk)
        mixed: list[NDArray[np.int64]] = []
        write_documents(folder, _grown(real, documents, topk, seed, mixed))
        if dense:
            vectors = _encoded(dense, photos, texts, documents)[1].toarray()
            write_dense(folder, _grown_dense(vectors, documents, mixed))
        (folder / "ids.json").write_text(json.dumps(ids[:documents]))
        _finish(folder, made)
    rows = {id: row for row, id in enumerate(json.loads((folder / "ids.json").read_text()))}
    said = [text for text, _ in asked]
    write_queries(
        folder,
        quantize(heaviest(_texts(model, said, "queries"), query_terms)),
        _unit(_texts(dense, said, "dense queries").toarray()) if dense else None,
        [rows.get(id, -1) for _, id in asked],
    )
    return Corpus(folder), {**made, "seed": seed, "query_terms": query_terms}


def _texts(model: Encoder | PhotoEncoder, texts: Sequence[str], name: str) -> csr_matrix:
    from lexlip.queries.photo_vectors import encode_captions

    return encode_captions(model, texts, progress=name)


def _encoded(
    model: Encoder | PhotoEncoder,
    photos: Source | None,
    texts: Sequence[str],
    documents: int | None,
    topk: int | None = None,
) -> tuple[list[str], csr_matrix]:
    """Return the ids of photos, and float vectors, [n, V], of them and then of texts; so many at most."""
    from lexlip.queries.photo_vectors import PhotoVectors

    ids: list[str] = []
    parts: list[csr_matrix] = []
    most = sys.maxsize if documents is None else documents
    if photos:
        encoded = PhotoVectors(model, photos, progress=f"photos by {model.name}")
        for names, rows in encoded:
            ids += names
            parts.append(heaviest(rows, topk) if topk else rows)
            if len(ids) >= most:
                break
        if not parts:
            raise encoded.none_read()
    if texts := texts[: max(0, most - len(ids))]:
        rows = _texts(model, texts, "captions")
        parts.append(heaviest(rows, topk) if topk else rows)
    return ids, csr_matrix(vstack(parts, format="csr"))


def _drawn(texts: Sequence[str], number: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Return so many texts and the others, both in random order; ConfigError: there are too few."""
    if len(texts) <= number:
        raise ConfigError(
            f"there are {len(texts):,} captions, and --queries takes {number:,} of them: give fewer queries"
        )
    order = rng.permutation(len(texts))
    return [texts[row] for row in order[:number]], [texts[row] for row in order[number:]]


def _check_mixtures(documents: int | None, real: int) -> None:
    """Raise ConfigError if more than 20 mixtures of each real document would be needed."""
    if documents is not None and documents > (1 + MIXTURES) * real:
        raise ConfigError(
            f"{documents:,} documents would take more than {MIXTURES} mixtures of each of {real:,} photos and"
            f" captions, which are too alike: give --docs {(1 + MIXTURES) * real} at most"
        )


def _grown(
    real: csr_matrix, documents: int | None, topk: int, seed: int, pairs: list[NDArray[np.int64]]
) -> Iterator[csr_matrix]:
    """Yield so many quantised vectors, [n, V]: the first of the real ones, [N, V], or all and mixtures.

    Of which two real ones each mixture is, [m, 2], is added to `pairs`.
    """
    yield quantize(real[:documents])
    for mixed, of in mixtures(real, max(0, (documents or 0) - real.shape[0]), seed):
        pairs.append(of)
        yield quantize(heaviest(mixed, topk))


def _grown_dense(
    real: NDArray[np.float32], documents: int | None, pairs: Sequence[NDArray[np.int64]]
) -> Iterator[NDArray[np.float32]]:
    """Yield unit vectors, [n, D], of the same documents as `_grown`, from those of the real ones."""
    real = _unit(real)
    yield real[:documents]
    for of in pairs:
        yield _unit(real[of[:, 0]] + real[of[:, 1]])


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


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
