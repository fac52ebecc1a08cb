"""Where the hits of a sentence honestly end, and which fit well: measured on captioned photos.

Every photo that shares a word with a query gets a score, so the list of hits never ends by itself. A score
says little alone: the best of a million photos has a higher one than the best of a hundred, and a model
finds words for any sentence, even for "xyzzy". So the end depends on the query. It is found in two steps:

1. **Is the query about these photos at all?** A logistic model looks at the `Signs` below: how well the
   best photos match, and how many of the sentence's own words they have. If it says no, the end lies above
   the best score: at the score that the best photo would need.
2. **Where do the photos end?** Otherwise the end is a low quantile of the right photos' scores, which rises
   with the best score, with the fiftieth, and with the number of the sentence's words.

Many photos above this end fit in part only. Those fit well that come near the best score: how near, depends
on the second and the tenth score, but for a single word it is a constant share of the best one. About half
of them have half of the sentence's words in their captions.

All three models are linear, so a `Calibration` is some numbers, in the model's folder:
`tools/studies/honest_end.py` measures them (docs/honest_end.md). They hold for sentences in an index of words
with the quantisation that they were measured with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anserini_bridge.given_files import read_json
from lexlip.errors import ModelError
from lexlip.models.model_folder import HONEST_END, damaged, read_description, write_checksums
from lexlip.retrieval.answer import NO_ENDS, Ends
from lexlip.sparse.quantize import Scheme

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

FORMAT = 1
DEPTH = 50  # hits whose scores are looked at, also if fewer are shown
HEAD = 5  # hits whose words are looked at

GATE = ("best", "own", "held", "number", "none", "size")
TAIL = ("best", "last", "size", "words")
WELL = ("second", "tenth")
TENTH = 10


@dataclass(frozen=True)
class Signs:
    """What tells whether photos fit a query.

    Attributes:
        best: the best score.
        second, tenth: the scores of these hits as shares of the best; 0 if there are fewer.
        last: the score of the 50th hit; 0 if there are fewer.
        own: what the sentence's own words, not those that the model added, add to the best score.
        held: the share of the sentence's content words that a photo has, on average of the five best. A word
            of which the vocabulary has only a piece counts as two, of which a photo can have one.
        number: how many of the sentence's own words a photo has, on the same average.
        none: 1 if the sentence holds no word of the vocabulary, otherwise 0.
        size: log10 of the number of photos that were searched.
        words: log2 of 1 + the number of own words.
    """

    best: float
    second: float
    tenth: float
    last: float
    own: float
    held: float
    number: float
    none: float
    size: float
    words: float

    @property
    def short(self) -> bool:
        """Whether the sentence has no more than one word of its own."""
        return self.words <= 1

    @classmethod
    def of(
        cls,
        terms: Mapping[str, float],
        scores: Sequence[float] | NDArray[np.floating],
        words: Sequence[Mapping[str, float]],
        known: Collection[str],
        unknown: Collection[str],
        photos: int,
    ) -> Signs:
        """Return the signs of a query with one hit or more; see `ends`."""
        own = {word for word in known if word in terms}
        held = [sum(word in photo for word in own) for photo in words[:HEAD]]
        number = sum(held) / len(held)

        def score(rank: int) -> float:
            return float(scores[rank - 1]) if len(scores) >= rank else 0.0

        best = score(1)
        return cls(
            best=best,
            second=score(2) / best,
            tenth=score(TENTH) / best,
            last=score(DEPTH),
            own=float(sum(words[0].get(word, 0.0) for word in own)),
            held=number / max(len(known) + len(unknown), 1),
            number=number,
            none=0.0 if known else 1.0,
            size=math.log10(max(photos, 1)),
            words=math.log2(1 + len(known)),
        )


@dataclass(frozen=True)
class Calibration:
    """What was measured for a model.

    Attributes:
        model: the model's identity.
        gate: the logistic model by sign, and its "constant": positive, if the query is about the photos.
        tail: the lowest score of a right photo, by sign and "constant".
        scheme: how documents were quantised, see `lexlip.sparse.quantize`.
        well: the share of the best score from which on photos fit well, by sign and "constant", and that of
            single words, "short"; None: it was not measured.
    """

    model: str
    gate: Mapping[str, float]
    tail: Mapping[str, float]
    scheme: Scheme = "unit"
    well: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        parts = [(self.gate, GATE), (self.tail, TAIL)]
        if self.well is not None:
            parts.append((self.well, ("short", *WELL)))
        for weights, signs in parts:
            if set(weights) != {"constant", *signs}:
                raise ValueError(f"weights of {', '.join(sorted(weights))}")
            if not all(math.isfinite(weight) for weight in weights.values()):
                raise ValueError("a weight is not a finite number")
        if self.gate["best"] <= 0:
            raise ValueError("a better best photo must speak for a query")

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Calibration:
        """Return what `save` wrote; ModelError: another version did; other errors: it is in another form."""
        if content["format"] != FORMAT:
            raise ModelError(f"{HONEST_END} has format {content['format']}; this version reads {FORMAT}")

        def numbers(part: str) -> dict[str, float]:
            return {name: float(value) for name, value in content[part].items()}

        gate, tail, well = numbers("gate"), numbers("tail"), numbers("well") if "well" in content else None
        return cls(str(content["model"]), gate, tail, content.get("quantization", "unit"), well)

    def save(self, folder: Path) -> None:
        """Write the calibration into a model's folder."""
        content = {
            "format": FORMAT,
            "model": self.model,
            "quantization": self.scheme,
            "gate": dict(self.gate),
            "tail": dict(self.tail),
            **({} if self.well is None else {"well": dict(self.well)}),
        }
        (folder / HONEST_END).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        write_checksums(folder, [HONEST_END])


def load_calibration(folder: Path, scheme: Scheme) -> Calibration | None:
    """Return what was measured for the model in a folder with an index's quantisation; None if nothing was.

    ModelError: the folder's files are damaged.
    """
    file = folder / HONEST_END
    if not file.is_file():
        return None
    identity = read_description(folder).get("identity")
    try:
        content = read_json(file)
        calibration = Calibration.of(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(folder, error) from error
    return calibration if (calibration.model, calibration.scheme) == (identity, scheme) else None


def ends(
    terms: Mapping[str, float],
    scores: Sequence[float] | NDArray[np.floating],
    words: Sequence[Mapping[str, float]],
    known: Collection[str],
    unknown: Collection[str],
    photos: int,
    calibration: Calibration | None,
) -> Ends:
    """Return the scores below which hits fit less well, and below which they are beyond the honest end.

    The photos with the second score or a higher one are the answer: all of them, also beyond the 50th. If the
    query is not about these photos, no photo has such a score.

    Args:
        terms: the query's words with their weights, as searched: `FirstStage.terms`.
        scores: of the 50 best hits, best first, however many are shown; of all hits, if there are fewer.
        words: what each shared word added to the score, of the five best hits or more: `FirstStage.matches`.
        known: the words of the vocabulary that the sentence itself holds: `TextQueries.known`.
        unknown: content words that the vocabulary does not have: `TextQueries.unknown`.
        photos: how many were searched: those that filters allow, if there are filters.
        calibration: of the model that made the index; None if there is none.
    """
    if calibration is None or len(scores) == 0:
        return NO_ENDS
    signs = Signs.of(terms, scores, words, known, unknown, photos)
    return Ends(well_of(signs, calibration), end_of(signs, calibration))


def end_of(signs: Signs, calibration: Calibration) -> float:
    """Return the score of the honest end for a query's signs; see `ends`."""
    about = _linear(signs, calibration.gate)
    if about < 0:
        needed = signs.best - about / calibration.gate["best"]
        return max(needed, math.nextafter(signs.best, math.inf))
    return max(0.0, min(signs.best, _linear(signs, calibration.tail)))


def well_of(signs: Signs, calibration: Calibration) -> float | None:
    """Return the score from which on photos fit well for a query's signs; see `ends`."""
    if calibration.well is None:
        return None
    linear = {sign: weight for sign, weight in calibration.well.items() if sign != "short"}
    share = calibration.well["short"] if signs.short else _linear(signs, linear)
    share = min(1.0, max(0.0, share))
    return max(share * signs.best, end_of(signs, calibration))


def _linear(signs: Signs, weights: Mapping[str, float]) -> float:
    constant = weights["constant"]
    return constant + sum(
        weight * getattr(signs, sign) for sign, weight in weights.items() if sign != "constant"
    )


def signs_of(
    query: csr_matrix,
    photos: csr_matrix,
    scores: Sequence[float] | NDArray[np.floating],
    known: Collection[str],
    unknown: Collection[str],
    number: int,
    vocabulary: Sequence[str],
) -> Signs:
    """Return the signs of a query [1, V] and the five best hits, [m, V], with the weights that an index has.

    See `ends`; `number` is that of the photos that were searched.
    """
    terms, *shared = (
        {vocabulary[column]: float(weight) for column, weight in zip(row.indices, row.data, strict=True)}
        for rows in (query, photos.multiply(query).tocsr())
        for row in rows
    )
    return Signs.of(terms, scores, shared, known, unknown, number)
