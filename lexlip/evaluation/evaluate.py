"""Retrieval quality of a model on captioned photos, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix
from tqdm import tqdm

from lexlip.data import Skipped, Source
from lexlip.errors import ModelError
from lexlip.evaluation.encoded import Encoded, encode_source
from lexlip.evaluation.recall import recall_at_k, words_at_10
from lexlip.search.engines import EngineOf
from lexlip.sparse.topk import topk

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder, QueryEncoder

QUERIES = 256  # searched between two moves of the progress bar


@dataclass(frozen=True)
class Ranking:
    """One direction: what each query found, best first, and what it should have found.

    Attributes:
        queries: n ids.
        found: n lists of document ids.
        scores: n arrays, the score of each document found; they do not rise.
        relevant: n sets of document ids.
    """

    queries: list[str]
    found: list[list[str]]
    scores: list[np.ndarray]
    relevant: list[set[str]]


@dataclass(frozen=True)
class Report:
    """What `evaluate` measures: recalls in percent, mean numbers of terms, words@10.

    terms_image and terms_text are those of whole vectors, terms_kept those of an image's after top-K; like
    words@10 they are None of a dense model, which has no terms. rankings are by "t2i" and "i2t".
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
    rankings: dict[str, Ranking] = field(default_factory=dict, repr=False, compare=False)

    @property
    def mean_recall(self) -> float:
        """Mean of R@1, R@5 and R@10 of both directions."""
        return float(np.mean([*self.t2i.values(), *self.i2t.values()]))

    def with_rankings(self, rankings: Mapping[str, Ranking]) -> Report:
        """The same measurement with other answers."""
        recalls = {way: recall_at_k(ranking.found, ranking.relevant) for way, ranking in rankings.items()}
        return replace(self, t2i=recalls["t2i"], i2t=recalls["i2t"], rankings=dict(rankings))

    def to_dict(self) -> dict[str, Any]:
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
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """What `to_dict` made of a report, without its rankings and skipped photos.

        Raises:
            KeyError: an entry is missing.
        """
        return cls(
            images=plain["images"],
            captions=plain["captions"],
            t2i=plain["t2i"],
            i2t=plain["i2t"],
            terms_image=plain["terms_image"],
            terms_text=plain["terms_text"],
            words_at_10=plain["words@10"],
            skipped=[],
            terms_kept=plain.get("terms_kept", plain["terms_image"]),  # a validation keeps all
        )


def evaluate(
    model: Encoder,
    source: Source,
    engine_of: EngineOf,
    topk_terms: int | None = None,
    query_encoder: QueryEncoder = "network",
    workers: int = 2,
    progress: bool = False,
    depth: int = 10,
) -> Report:
    """Text-to-image: captions search the photos. Image-to-text: photos search the captions.

    All photos are one pool, and so are all captions.

    Args:
        model: the encoders.
        source: photos with captions; photos without any are documents that no caption asks for.
        engine_of: makes the search engine for a set of documents.
        topk_terms: terms that a document keeps, as at index time; None keeps all.
        query_encoder: how captions are encoded, see `DualEncoder.encode_text`.
        workers: threads that decode photos.
        progress: show progress bars.
        depth: documents that a query finds, ten or more.

    Raises:
        DataError: there are no captions, or no photo could be read.
        ModelError: a dense model has no terms to keep.
    """
    _check_topk(model.vocabulary is not None, topk_terms)
    encoded = encode_source(model, source, query_encoder, workers, progress)
    return measure(encoded, engine_of, topk_terms, progress, depth)


def measure(
    encoded: Encoded,
    engine_of: EngineOf,
    topk_terms: int | None = None,
    progress: bool = False,
    depth: int = 10,
) -> Report:
    """`evaluate` for photos and captions that are encoded already; the arguments are the same."""
    _check_topk(encoded.has_words, topk_terms)
    asking = encoded.asking_images
    texts, owners = encoded.text_ids[: encoded.asking], encoded.owners[: encoded.asking]
    documents = _documents(encoded.images, topk_terms)
    with engine_of(*_in_any_order(encoded, encoded.image_ids, documents)) as engine:
        found, scores = search_all(
            engine.search,
            encoded.captions[: len(texts)],
            len(texts),
            depth,
            "text to image" if progress else None,
        )
    t2i = Ranking(texts, found, scores, [{owner} for owner in owners])
    captions = _documents(encoded.captions, topk_terms)
    with engine_of(*_in_any_order(encoded, encoded.text_ids, captions)) as engine:
        found, scores = search_all(
            engine.search,
            encoded.images[asking],
            len(asking),
            depth,
            "image to text" if progress else None,
        )
    i2t = Ranking(
        [encoded.image_ids[row] for row in asking], found, scores, [encoded.texts_of[row] for row in asking]
    )
    has_words = encoded.has_words
    return Report(
        images=len(encoded.image_ids),
        captions=len(encoded.text_ids),
        t2i=recall_at_k(t2i.found, t2i.relevant),
        i2t=recall_at_k(i2t.found, i2t.relevant),
        terms_image=_mean_terms(encoded.images) if has_words else None,
        terms_text=_mean_terms(encoded.captions) if has_words else None,
        words_at_10=_words_at_10(encoded, asking) if has_words else None,
        skipped=encoded.skipped,
        terms_kept=_mean_terms(documents) if has_words else None,
        rankings={"t2i": t2i, "i2t": i2t},
    )


def _check_topk(has_words: bool, topk_terms: int | None) -> None:
    if topk_terms is not None and not has_words:
        raise ModelError(f"a dense model has no words, so no top-{topk_terms} of them can be kept")


def _documents(vectors: csr_matrix, topk_terms: int | None) -> csr_matrix:
    return vectors if topk_terms is None else topk(vectors, topk_terms)


def _in_any_order(
    encoded: Encoded, ids: Sequence[str], documents: csr_matrix
) -> tuple[Sequence[str], csr_matrix]:
    """Documents as they are, or shuffled where some ask: of equal scores those must not be first."""
    if encoded.asking is None:
        return ids, documents
    order = np.random.default_rng(0).permutation(len(ids))
    return [ids[row] for row in order], documents[order]


def _mean_terms(vectors: csr_matrix) -> float:
    return float(vectors.nnz / vectors.shape[0])


def search_all(
    search: Callable[[Any, int], tuple[list[list[str]], list[np.ndarray]]],
    queries: Any,
    number: int,
    k: int,
    text: str | None,
) -> tuple[list[list[str]], list[np.ndarray]]:
    """What an engine's `search` finds with so many queries; `text` is what the progress bar says, None shows
    none."""
    ids: list[list[str]] = []
    scores: list[np.ndarray] = []
    with tqdm(total=number, unit="query", desc=text, disable=text is None or None, delay=2) as bar:
        for start in range(0, number, QUERIES):
            found, found_scores = search(queries[start : start + QUERIES], k)
            ids += found
            scores += found_scores
            bar.update(len(found))
    return ids, scores


def _words_at_10(encoded: Encoded, asking: Sequence[int]) -> float:
    assert encoded.vocabulary is not None
    return words_at_10(
        encoded.images[asking],
        encoded.vocabulary,
        [encoded.tokens_of[row] for row in asking],
        encoded.special_tokens,
    )
