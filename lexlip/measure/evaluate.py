"""How well a model finds captioned photos, text to image and image to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.data import Source
from lexlip.errors import ModelError
from lexlip.machine.progress import ProgressBar
from lexlip.measure.pool import PoolVectors, encode_pool
from lexlip.measure.recalls import Ranking, Report
from lexlip.measure.short_queries import ask, find, queries_of, short_captions, summary
from lexlip.measure.words import words_at_10, words_scale
from lexlip.retrieval.first_stage import Engine, EngineOf, Results
from lexlip.sparse.balance import as_documents
from lexlip.sparse.quantize import Scheme
from lexlip.sparse.top_words import topk
from lexlip.words.vocabulary import caption_words

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder, QueryEncoder

QUERIES = 256  # searched between two updates of the progress bar


def evaluate(
    model: Encoder,
    source: Source,
    engine_of: EngineOf,
    topk_words: int | None = None,
    query_encoder: QueryEncoder = "network",
    workers: int = 2,
    progress: bool = False,
    depth: int = 10,
    scheme: Scheme = "unit",
    query_topk: int | None = None,
    short: bool = True,
) -> Report:
    """Search with captions for photos, and with photos for captions.

    All photos are one pool, and so are all captions.

    Args:
        model: the encoders.
        source: photos with captions; photos without captions are only found.
        engine_of: makes the search engine for a set of documents.
        topk_words, query_topk: words that a document and a query keep; None keeps all.
        query_encoder: how captions are encoded, see `DualEncoder.encode_text`.
        workers: threads that decode photos.
        progress: show progress bars.
        depth: documents that a query finds, ten or more.
        scheme: that the engine was chosen with; "balanced" balances documents.
        short: also search with short queries, which takes photos without captions for wrong.

    Raises:
        ConfigError: "balanced" with a model that has no bank.
        DataError: there are no captions, or no photo could be read.
        ModelError: a dense model has no words to keep.
    """
    _check_topk(model, topk_words, query_topk)
    vectors = encode_pool(model, source, query_encoder, workers, "" if progress else None)
    return measure(vectors, engine_of, topk_words, progress, depth, scheme, query_topk, short)


def measure(
    vectors: PoolVectors,
    engine_of: EngineOf,
    topk_words: int | None = None,
    progress: bool = False,
    depth: int = 10,
    scheme: Scheme = "unit",
    query_topk: int | None = None,
    short: bool = True,
) -> Report:
    """Do what `evaluate` does with encoded photos and captions."""
    _check_topk(vectors.model, topk_words, query_topk)
    pool = vectors.pool
    banks = vectors.model.balance or (None, None)
    images, captions = (
        as_documents(rows, topk_words, scheme, bank)
        for rows, bank in zip((vectors.images, vectors.captions), banks, strict=True)
    )
    short_queries = None
    with _engine(engine_of, pool.image_ids, images, len(pool.image_queries)) as engine:
        queries = vectors.query_captions(query_topk)
        answers = search_all(engine.search, queries, depth, "text to image" if progress else None)
        t2i = Ranking(pool.text_ids[: pool.text_queries], *answers, pool.relevant_images)
        if short:
            asked = ask(pool)
            hits = find(vectors, queries_of(asked), engine.search, images, scheme, query_topk)
            short_queries = summary(asked, hits, short_captions(pool.texts, t2i.found, t2i.relevant))
    with _engine(engine_of, pool.text_ids, captions, pool.text_queries) as engine:
        queries = vectors.query_images
        queries = queries if query_topk is None else topk(queries, query_topk)
        answers = search_all(engine.search, queries, depth, "image to text" if progress else None)
        i2t = Ranking([pool.image_ids[row] for row in pool.image_queries], *answers, pool.relevant_texts)
    of_words = {} if vectors.model.vocabulary is None else _of_words(vectors, images)
    counts = len(pool.image_ids), len(pool.text_ids)
    return Report.of(*counts, t2i, i2t, short_queries=short_queries, skipped=pool.skipped, **of_words)


def _check_topk(model: Encoder, topk_words: int | None, query_topk: int | None) -> None:
    if topk_words is not None and model.vocabulary is None:
        raise ModelError(f"a dense model has no words, so no top-{topk_words} of them can be kept")
    if query_topk is not None and model.vocabulary is None:
        raise ModelError(f"the {model.kind} model '{model.name}' has no words; leave out --query-topk")


def _engine(
    engine_of: EngineOf, ids: Sequence[str], documents: csr_matrix, queries: int
) -> AbstractContextManager[Engine]:
    """Return what searches documents, so many of which are queries the other way round."""
    if queries < len(ids):  # what queries look for must not come first among equal scores
        order = np.random.default_rng(0).permutation(len(ids))
        ids, documents = [ids[row] for row in order], documents[order]
    return engine_of(ids, documents)


def search_all(search: Callable[[Any, int], Results], queries: Any, k: int, text: str | None) -> Results:
    """Return what an engine's `search` finds for all queries, k documents for each.

    Args:
        search, k: the engine's, and documents that a query finds.
        queries: a matrix of rows, or a list of texts.
        text: what the progress bar says; None shows none.
    """
    ids: list[list[str]] = []
    scores: list[np.ndarray] = []
    number = queries.shape[0] if hasattr(queries, "shape") else len(queries)
    with ProgressBar(total=number, unit="query", desc=text, disable=text is None, delay=2) as bar:
        for start in range(0, number, QUERIES):
            found, found_scores = search(queries[start : start + QUERIES], k)
            ids += found
            scores += found_scores
            bar.update(len(found))
    return ids, scores


def _of_words(vectors: PoolVectors, images: csr_matrix) -> dict[str, Any]:
    """Return what a report says of a model of words, given the images as documents."""
    model, pool = vectors.model, vectors.pool
    assert model.vocabulary is not None
    said = [
        caption_words(model.vocabulary, model.tokenizer, [pool.texts[row] for row in pool.texts_of(image)])
        for image in pool.image_queries
    ]
    of_photos = [set().union(*captions) for captions in said]
    shown = vectors.query_images if model.likely is None else model.likely.chances(vectors.query_images)
    rows = {"terms_image": vectors.images, "terms_text": vectors.captions, "terms_kept": images}
    return {
        **{name: float(vectors_of.nnz / vectors_of.shape[0]) for name, vectors_of in rows.items()},
        "words_at_10": words_at_10(shown, model.vocabulary, of_photos, model.tokenizer.all_special_ids),
        "words_scale": words_scale(model.vocabulary, said),
    }
