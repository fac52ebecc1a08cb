"""The arithmetic of a hit's score in an index of words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_matrix

from anserini_bridge import UnknownId, read_header
from lexlip.errors import DataError
from lexlip.retrieval.collection import locate

if TYPE_CHECKING:
    from lexlip.search.stages.impact import ImpactStage


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
        score: the sum of the products, exactly what a search says.
        rows: the shared words, those that add most first.
        words: all words of the photo as they are stored, heaviest first.
        digits: decimals that show weights exactly; a product has twice as many.
    """

    id: str
    path: str
    score: float
    rows: list[ScoreRow]
    words: dict[str, float]
    digits: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_words(index: str | Path) -> None:
    """Raise DataError if an index is one of dense vectors or of captions."""
    header = read_header(index)
    if header.kind != "impact":
        raise DataError(
            f"there are no words to explain in {index}, which was made with {header.encoder}: give an index"
            " of words (lexlip index --model mini)"
        )


def score_table(stage: ImpactStage, query: csr_matrix, photo: str) -> ScoreTable:
    """Return the arithmetic of a photo's score.

    Args:
        stage: an open index of words.
        query: what `stage.encode` or `stage.encoder.encode_image` returned, [1, V].
        photo: its id, or its path as a search prints it.

    Raises:
        DataError: the index holds no such photo.
    """
    with stage.hold() as held:
        id, stored = _stored(held, photo)
        impacts = held.engine.quantized(query)
        unit, words = held.engine.unit, held.searcher.vocabulary
        path = locate(id, held.metadata.extra, held.index)
    scale = round(unit**0.5)
    asked = dict(zip(impacts.indices.tolist(), impacts.data.tolist(), strict=True))
    kept = sorted(
        zip(stored.indices.tolist(), stored.data.tolist(), strict=True), key=lambda w: (-w[1], w[0])
    )
    shared = [(column, asked[column], weight) for column, weight in kept if column in asked]
    shared.sort(key=lambda row: (-row[1] * row[2], row[0]))
    return ScoreTable(
        id=id,
        path=path,
        score=sum(mine * its for _, mine, its in shared) / unit,
        rows=[ScoreRow(words[c], mine / scale, its / scale, mine * its / unit) for c, mine, its in shared],
        words={words[column]: weight / scale for column, weight in kept},
        digits=len(str(scale)) - 1,
    )


def _stored(stage: ImpactStage, photo: str) -> tuple[str, csr_matrix]:
    """Return the id of a photo, given its id or path, and its weights as they are stored, [1, V]."""
    try:
        return photo, stage.searcher.vectors([photo])
    except UnknownId:
        extra = stage.metadata.extra
        for id in stage.searcher.ids():
            if locate(id, extra, stage.index) == photo:
                return id, stage.searcher.vectors([id])
    raise DataError(
        f"the index {stage.index} holds no photo with the id or path '{photo}': give one that lexlip search"
        " prints"
    )
