"""The arithmetic of a hit's score in an index of words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy.sparse import csr_matrix

from anserini_bridge import UnknownId, read_header
from lexlip.errors import DataError
from lexlip.models.word_table import translated
from lexlip.queries.query_language import Query, parse_query
from lexlip.registry import WITH_WORDS
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.hybrid import HybridStage
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.impact import ImpactStage
from lexlip.words.plain_text import composed


@dataclass(frozen=True)
class ScoreRow:
    """What one word adds to a score: product = query * photo."""

    word: str
    query: float
    photo: float
    product: float


@dataclass(frozen=True)
class ScoreTable:
    """A score as a sum over the words that a query shares with a photo (Eq. 24).

    Attributes:
        id, path: of the photo; see `Hit`.
        score: the sum of the products, exactly what a search by content alone says.
        rows: the shared words, those that add most first.
        words: all words of the photo as they are stored, heaviest first.
        translations: of these words, in the language of the sentence; see `Answer`.
        digits: decimals that show weights exactly; a product has twice as many.
    """

    id: str
    path: str
    score: float
    rows: list[ScoreRow]
    words: dict[str, float]
    digits: int
    translations: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_words(index: str | Path) -> None:
    """Raise DataError if an index is one of dense vectors or of captions."""
    header = read_header(index)
    if header.kind not in WITH_WORDS:
        raise _no_words(index, header.encoder)


def score_table(search: PhotoSearch, query: str | Query | csr_matrix, photo: str) -> ScoreTable:
    """Return the arithmetic of a photo's score by content; of two fused indexes the first is explained.

    The query is a sentence, or the vector of a picture, [1, V]; the photo is its id, or its path as a search
    prints it.

    Raises:
        DataError: the index holds no such photo, or is not one of words.
        QueryError: a mark in the sentence is wrong.
    """
    with search.now() as (stage, photos):
        if isinstance(stage, HybridStage):
            stage = stage.first
        if not isinstance(stage, ImpactStage):
            raise _no_words(stage.index, stage.metadata.encoder)
        if isinstance(query, str):
            query = parse_query(query)
        shown_in = ""
        if isinstance(query, Query):
            asked = stage.read(query)
            shown_in, query = stage.shown_in(asked), stage.encode(asked)
        encoded = query
        id, words = _stored(stage, photos, photo)
        (found,) = photos.get([id])
        terms, (products,) = stage.terms(encoded), stage.matches(encoded, [id])
        scale = stage.metadata.quantization["scale"]
    impacts = [round(product * scale**2) for product in products.values()]
    return ScoreTable(
        id=id,
        path=id if found is None else found.path,
        score=sum(impacts) / scale**2,
        rows=[ScoreRow(word, terms[word], words[word], product) for word, product in products.items()],
        words=words,
        digits=len(str(scale)) - 1,
        translations=translated(words, shown_in),
    )


def _stored(stage: ImpactStage, photos: PhotoTable, photo: str) -> tuple[str, dict[str, float]]:
    """Return the id of a photo, given its id or path, and its words."""
    try:
        return photo, stage.weights(photo)
    except UnknownId:
        name = composed(photo)
        photos_there = filter(None, photos.get(stage.searcher.ids()))
        found = [one.id for one in photos_there if name in (composed(one.id), composed(one.path))]
    if not found:
        raise DataError(
            f"the index {stage.index} holds no photo with the id or path '{photo}': give one that"
            " lexlip search prints"
        )
    return found[0], stage.weights(found[0])


def _no_words(index: str | Path, encoder: str) -> DataError:
    return DataError(
        f"there are no words to explain in {index}, which was made with {encoder}: give an index of words"
        " (lexlip index --model mini)"
    )
