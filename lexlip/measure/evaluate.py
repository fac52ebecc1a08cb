"""How well a model finds captioned photos, text to image and image to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.data import Skipped, Source
from lexlip.errors import ModelError
from lexlip.machine.progress import ProgressBar
from lexlip.measure.pool import PoolVectors, encode_pool
from lexlip.measure.recall import recall_at_k
from lexlip.measure.short_queries import ShortQueries, ask, find, queries_of, short_captions, summary
from lexlip.measure.words import WordsScale, words_at_10, words_scale
from lexlip.retrieval.engine import Engine, EngineOf
from lexlip.sparse.balance import as_documents
from lexlip.sparse.quantize import Scheme
from lexlip.sparse.topk import topk
from lexlip.words.vocabulary import caption_words

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder, QueryEncoder

QUERIES = 256  # searched between two updates of the progress bar


@dataclass(frozen=True)
class Ranking:
    """One direction: what each query found, and what it should have found.

    Attributes:
        queries: n ids.
        found: n lists of document ids, best first.
        scores: n arrays, the score of each document found, not increasing.
        relevant: n sets of document ids.
    """

    queries: list[str]
    found: list[list[str]]
    scores: list[np.ndarray]
    relevant: list[set[str]]


@dataclass(frozen=True)
class Report:
    """What `evaluate` measures.

    Attributes:
        images, captions: in the pool.
        t2i, i2t: recalls in percent, {"R@1": ..., "R@5": ..., "R@10": ...}.
        terms_image, terms_text: mean number of words of a whole vector; None for a dense model.
        words_at_10: see `lexlip.measure.words.words_at_10`; None for a dense model.
        words_scale: what it can be compared with.
        skipped: photos that could not be read.
        terms_kept: mean number of words of an image after top-K; None for a dense model.
        short_queries: by group what single words and pairs of words find, and short captions, see
            `lexlip.measure.short_queries`; None if that was not measured.
        rankings: the answers, by "t2i" and "i2t".
    """

    images: int
    captions: int
    t2i: dict[str, float]
    i2t: dict[str, float]
    terms_image: float | None
    terms_text: float | None
    words_at_10: float | None
    skipped: list[Skipped]
    terms_kept: float | None = None
    words_scale: WordsScale | None = None
    short_queries: ShortQueries | None = None
    rankings: dict[str, Ranking] = field(default_factory=dict, repr=False, compare=False)

    @property
    def mean_recall(self) -> float:
        """Mean of R@1, R@5 and R@10 of both directions."""
        return float(np.mean([*self.t2i.values(), *self.i2t.values()]))

    @property
    def words_in_words(self) -> str:
        """words@10 with what it can be compared with."""
        if self.words_scale is None:
            return f"{self.words_at_10:.3f}"
        human = "" if self.words_scale.human is None else f", people {self.words_scale.human:.3f}"
        return f"{self.words_at_10:.3f} (the same ten words for all {self.words_scale.chance:.3f}{human})"

    def with_rankings(self, rankings: Mapping[str, Ranking]) -> Report:
        """Return the same measurement with other answers; what short queries find is then unknown."""
        recalls = {way: recall_at_k(ranking.found, ranking.relevant) for way, ranking in rankings.items()}
        return replace(
            self, t2i=recalls["t2i"], i2t=recalls["i2t"], short_queries=None, rankings=dict(rankings)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain dictionaries, as `lexlip evaluate --json` prints them."""
        return {
            "images": self.images,
            "captions": self.captions,
            "t2i": self.t2i,
            "i2t": self.i2t,
            "mean_recall": self.mean_recall,
            "terms_image": self.terms_image,
            "terms_text": self.terms_text,
            "terms_kept": self.terms_kept,
            "words@10": self.words_at_10,
            "words@10_chance": self.words_scale.chance if self.words_scale else None,
            "words@10_human": self.words_scale.human if self.words_scale else None,
            "short_queries": self.short_queries,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """Return the report that `to_dict` was called on, without its rankings and skipped photos.

        Raises:
            KeyError: an entry is missing.
        """
        chance = plain.get("words@10_chance")
        return cls(
            images=plain["images"],
            captions=plain["captions"],
            t2i=plain["t2i"],
            i2t=plain["i2t"],
            terms_image=plain["terms_image"],
            terms_text=plain["terms_text"],
            words_at_10=plain["words@10"],
            skipped=[],
            words_scale=None if chance is None else WordsScale(chance, plain["words@10_human"]),
            terms_kept=plain.get("terms_kept", plain["terms_image"]),  # a validation keeps all
            short_queries=plain.get("short_queries"),
        )


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
) -> Report:
    """Search with captions for photos, and with photos for captions.

    All photos are one pool, and so are all captions.

    Args:
        model: the encoders.
        source: photos with captions; photos without captions are only found.
        engine_of: makes the search engine for a set of documents.
        topk_words: words that a document keeps, as in an index; None keeps all.
        query_encoder: how captions are encoded, see `DualEncoder.encode_text`.
        workers: threads that decode photos.
        progress: show progress bars.
        depth: documents that a query finds, ten or more.
        scheme: that the engine was chosen with; "balanced" balances documents.
        query_topk: words that a query keeps; None keeps all.

    Raises:
        ConfigError: "balanced" with a model that has no bank.
        DataError: there are no captions, or no photo could be read.
        ModelError: a dense model has no words to keep.
    """
    _check_topk(model, topk_words, query_topk)
    vectors = encode_pool(model, source, query_encoder, workers, "" if progress else None)
    return measure(vectors, engine_of, topk_words, progress, depth, scheme, query_topk)


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
    """Do what `evaluate` does with encoded photos and captions; `short`: also search with short queries."""
    _check_topk(vectors.model, topk_words, query_topk)
    pool, has_words = vectors.pool, vectors.model.vocabulary is not None
    banks = vectors.model.balance or (None, None)
    images, captions = (
        as_documents(rows, topk_words, scheme, bank)
        for rows, bank in zip((vectors.images, vectors.captions), banks, strict=True)
    )
    with _engine(vectors, engine_of, pool.image_ids, images) as engine:
        queries, bar = vectors.query_captions(query_topk), "text to image" if progress else None
        answers = search_all(engine.search, queries, queries.shape[0], depth, bar)
        t2i = Ranking(pool.text_ids[: pool.text_queries], *answers, pool.relevant_images)
        short_queries = None
        if short:
            asked = ask(pool)
            hits = find(vectors, queries_of(asked), engine.search, images, scheme, query_topk)
            few = short_captions(pool.texts, t2i.found, t2i.relevant)
            short_queries = summary(asked, hits, few)
    with _engine(vectors, engine_of, pool.text_ids, captions) as engine:
        queries, bar = vectors.query_images, "image to text" if progress else None
        queries = queries if query_topk is None else topk(queries, query_topk)
        answers = search_all(engine.search, queries, queries.shape[0], depth, bar)
        asking = [pool.image_ids[row] for row in pool.image_queries]
        i2t = Ranking(asking, *answers, pool.relevant_texts)
    words_at_10, scale = _words_at_10(vectors) if has_words else (None, None)
    return Report(
        images=len(pool.image_ids),
        captions=len(pool.text_ids),
        t2i=recall_at_k(t2i.found, t2i.relevant),
        i2t=recall_at_k(i2t.found, i2t.relevant),
        terms_image=_mean_words(vectors.images) if has_words else None,
        terms_text=_mean_words(vectors.captions) if has_words else None,
        words_at_10=words_at_10,
        words_scale=scale,
        short_queries=short_queries,
        skipped=pool.skipped,
        terms_kept=_mean_words(images) if has_words else None,
        rankings={"t2i": t2i, "i2t": i2t},
    )


def _check_topk(model: Encoder, topk_words: int | None, query_topk: int | None) -> None:
    if topk_words is not None and model.vocabulary is None:
        raise ModelError(f"a dense model has no words, so no top-{topk_words} of them can be kept")
    if query_topk is not None and model.vocabulary is None:
        raise ModelError(f"the {model.kind} model '{model.name}' has no words; leave out --query-topk")


def _engine(
    vectors: PoolVectors, engine_of: EngineOf, ids: Sequence[str], documents: csr_matrix
) -> AbstractContextManager[Engine]:
    if not vectors.pool.all_are_queries:  # what queries look for must not come first among equal scores
        order = np.random.default_rng(0).permutation(len(ids))
        ids, documents = [ids[row] for row in order], documents[order]
    return engine_of(ids, documents)


def _mean_words(vectors: csr_matrix) -> float:
    return float(vectors.nnz / vectors.shape[0])


def search_all(
    search: Callable[[Any, int], tuple[list[list[str]], list[np.ndarray]]],
    queries: Any,
    number: int,
    k: int,
    text: str | None,
) -> tuple[list[list[str]], list[np.ndarray]]:
    """Return what an engine's `search` finds for all queries.

    Args:
        search: the engine's.
        queries: a matrix of rows, or a list of texts.
        number: of queries.
        k: documents that a query finds.
        text: what the progress bar says; None shows none.
    """
    ids: list[list[str]] = []
    scores: list[np.ndarray] = []
    with ProgressBar(total=number, unit="query", desc=text, disable=text is None, delay=2) as bar:
        for start in range(0, number, QUERIES):
            found, found_scores = search(queries[start : start + QUERIES], k)
            ids += found
            scores += found_scores
            bar.update(len(found))
    return ids, scores


def _words_at_10(vectors: PoolVectors) -> tuple[float, WordsScale]:
    model, pool = vectors.model, vectors.pool
    assert model.vocabulary is not None
    said = [
        caption_words(model.vocabulary, model.tokenizer, [pool.texts[row] for row in pool.texts_of(image)])
        for image in pool.image_queries
    ]
    of_photos = [set().union(*captions) for captions in said]
    special = model.tokenizer.all_special_ids
    shown = vectors.query_images if model.likely is None else model.likely.chances(vectors.query_images)
    found = words_at_10(shown, model.vocabulary, of_photos, special)
    return found, words_scale(model.vocabulary, said)
