"""Measure where the hits of a sentence end, and store it in the model's folder.

    python -m tools.studies.honest_end MODEL SOURCE [SOURCE ...] [--on SOURCE ...]
        [--among SOURCE ...] [--dry-run]

Captions of each SOURCE, words of captions, and queries that no photo answers search among collections of
several sizes. The numbers of lexlip/search/stages/honest_end.py are fitted to what they find and written to
MODEL's honest_end.json. `--on` names other captioned photos, which are not fitted to, to measure on;
`--among` names photos that fill up large collections. `--dry-run` writes no honest_end.json.
docs/honest_end.md explains all of it, and the figures that are printed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, vstack
from tqdm import tqdm

from lexlip.data import open_source
from lexlip.errors import DataError, LexLIPError
from lexlip.models.load import load_model
from lexlip.models.model_folder import model_folder
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.search.stages.honest_end import DEPTH, HEAD, Calibration, Signs, end_of, signs_of
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.balance import quantize_documents, scheme_of, usual_scheme
from lexlip.sparse.quantize import UNIT_SCALE, quantize
from lexlip.words.vocabulary import is_content_word

from .honest_end_fit import SENSE, Observation, by_group, fit, kept, shown, silent
from .nonsense import KINDS, Half, nonsense

TOPK = 32  # words that a document keeps
SIZES = {20: 25, 100: 5, 1_000: 1, 7_000: 1, 28_549: 1, 100_000: 1, 1_000_000: 1}  # photos, collections
QUERIES = {"caption": 1_000, "keywords": 500}  # of a source in a collection, at most
FAR = 1_000  # hits whose scores are kept
AT_ONCE = 128  # queries


@dataclass(frozen=True)
class Photos:
    """The photos of a source: n ids, their captions, and int32 [n, V] of impacts, as an index has them."""

    name: str
    captions: list[tuple[str, ...]]
    impacts: csr_matrix


@dataclass(frozen=True)
class Query:
    """A query as an index takes it: int32 [1, V], and the sentence's own words.

    `right` are rows of the source's photos.
    """

    kind: str
    text: str
    row: csr_matrix
    known: list[str]
    unknown: list[str]
    right: frozenset[int] = frozenset()


def read(model: str, source: str) -> Photos:
    """Return the photos of a source, encoded."""
    photos = open_source(source)
    of = {item.id: item.captions for item in photos.items}
    ids: list[str] = []
    rows: list[csr_matrix] = []
    encoder = load_model(model)
    bank = encoder.balance and encoder.balance.photos
    for some, encoded in PhotoVectors(encoder, photos, progress=source):
        ids += some
        rows.append(quantize_documents(encoded, TOPK, usual_scheme(encoder.balance, encoder.metric), bank))
    return Photos(source, [of[id] for id in ids], vstack(rows, format="csr"))


def encode(queries: TextQueries, kind: str, text: str, right: frozenset[int] = frozenset()) -> Query:
    """Return a query as `lexlip search` searches with it."""
    row = quantize(queries.encode_query(parse_query(text), SENTENCE_TOPK))
    return Query(kind, text, row, queries.known(text), queries.unknown(text), right)


def ask(queries: TextQueries, photos: Photos, rng: random.Random) -> list[Query]:
    """Return a caption of each photo, and one to three words in a row of it that the vocabulary has.

    Right for a caption is its photo, and for words every photo that has them all in its captions.
    """
    held: dict[str, set[int]] = {}
    for row, captions in enumerate(photos.captions):
        for word in {word for caption in captions for word in whole_words(queries, caption)}:
            held.setdefault(word, set()).add(row)
    asked = []
    rows = [row for row, captions in enumerate(photos.captions) if captions]
    rng.shuffle(rows)
    for row in tqdm(rows[: 3 * QUERIES["caption"]], desc=f"queries of {photos.name}", disable=None):
        caption = rng.choice(photos.captions[row])
        asked.append(encode(queries, "caption", caption, frozenset([row])))
        words = whole_words(queries, caption)
        if words:
            first = rng.randrange(len(words))
            some = words[first : first + rng.randint(1, 3)]
            text, right = " ".join(some), frozenset.intersection(*(frozenset(held[w]) for w in some))
            asked.append(encode(queries, "keywords", text, right))
    return asked


class Said:
    """What the captions of a collection say: by content word the rows of the photos that have it."""

    def __init__(self, captions: Sequence[Sequence[str]]) -> None:
        self.rows: dict[str, set[int]] = {}
        for row, texts in enumerate(captions):
            for word in self.words(" ".join(texts)):
                self.rows.setdefault(word, set()).add(row)

    @staticmethod
    def words(text: str) -> set[str]:
        """Return the content words of a text, in lower case."""
        return {word for word in re.findall(r"[^\W_]+", text.lower()) if is_content_word(word)}

    def fitting(self, text: str) -> list[int]:
        """Return the photos that have half of a text's content words in their captions."""
        words = self.words(text)
        counts = Counter(row for word in words for row in self.rows.get(word, ()))
        return [row for row, count in counts.items() if 2 * count >= len(words)]


def whole_words(queries: TextQueries, caption: str) -> list[str]:
    """Return the vocabulary's words that a caption holds, without those that are pieces of others."""
    spoken = {word for text in (caption, caption.lower()) for word in re.findall(r"[^\W_]+", text)}
    return [word for word in queries.known(caption) if word in spoken]


def observe(
    queries: Sequence[Query],
    impacts: csr_matrix,
    said: Said,
    rows: dict[int, int],
    group: tuple[str, int],
    words: Sequence[str],
) -> Iterator[Observation]:
    """Search with queries by brute force.

    Args:
        queries: to search with.
        impacts: of the photos, [n, V].
        said: of the photos.
        rows: by row of the source a photo's row among them.
        group, words: see `Observation`, and the V words.
    """
    documents = impacts.T.tocsr().astype(np.float32)
    for start in range(0, len(queries), AT_ONCE):
        some = queries[start : start + AT_ONCE]
        vectors = vstack([query.row for query in some]).astype(np.float32)
        found = (vectors @ documents).toarray() / UNIT_SCALE**2
        for query, scores in zip(some, found.astype(np.float64), strict=True):
            right = np.array([rows[row] for row in query.right if row in rows], dtype=int)
            fitting = np.array(said.fitting(query.text), dtype=int)
            yield _observed(query, scores, right, fitting, impacts, group, words)
            if query.kind == "caption" and len(right):
                without = scores.copy()
                without[right] = 0
                removed = replace(query, kind="removed")
                yield _observed(removed, without, right[:0], fitting, impacts, group, words)


def _observed(
    query: Query,
    scores: np.ndarray,
    right: np.ndarray,
    fitting: np.ndarray,
    impacts: csr_matrix,
    group: tuple[str, int],
    words: Sequence[str],
) -> Observation:
    order = np.argsort(-scores, kind="stable")[:FAR]
    order = order[scores[order] > 0]
    best = scores[order]
    signs = Signs(0, 0, 0, 0, 0, 0, 0, 1, np.log10(len(scores)), 0)
    if len(best):
        row, first = query.row / UNIT_SCALE, impacts[order[:HEAD]] / UNIT_SCALE
        signs = signs_of(row, first, best[:DEPTH], query.known, query.unknown, len(scores), words)
    among = scores[np.intersect1d(right, order[:DEPTH])]
    return Observation(group, query.kind, signs, best, among, np.isin(order[:DEPTH], fitting))


def collections(
    photos: Photos, others: Photos, sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[tuple[int, csr_matrix, Said, dict[int, int]]]:
    """Yield collections of each size: photos of a source, filled up with others."""
    number = photos.impacts.shape[0]
    for size in sizes:
        for _ in range(SIZES[size]):
            own = rng.choice(number, min(size, number), replace=False)
            filled = rng.choice(others.impacts.shape[0], size - len(own), replace=False)
            impacts = vstack([photos.impacts[own], others.impacts[filled]], format="csr")
            said = Said([*(photos.captions[row] for row in own), *(others.captions[row] for row in filled)])
            yield size, impacts, said, {int(row): place for place, row in enumerate(own)}


def measure(
    queries: TextQueries, sources: Sequence[Photos], others: Sequence[Photos], half: Half
) -> list[Observation]:
    """Return what captions and nonsense find in collections of all sizes that there are photos for."""
    absurd = [encode(queries, kind, text) for kind, text in nonsense(queries, half)]
    observations: list[Observation] = []
    for photos in sources:
        asked, rng = ask(queries, photos, random.Random(half)), np.random.default_rng(0)
        rest = [other for other in (*sources, *others) if other is not photos]
        impacts = vstack([other.impacts for other in rest] or [photos.impacts[:0]], format="csr")
        more = Photos("others", [captions for other in rest for captions in other.captions], impacts)
        most = photos.impacts.shape[0] + impacts.shape[0]
        sizes = [size for size in SIZES if size <= most]
        for size, impacts, said, rows in collections(photos, more, sizes, rng):
            chosen = [
                query
                for kind, number in QUERIES.items()
                for query in [q for q in asked if q.kind == kind and not q.right.isdisjoint(rows)][:number]
            ]
            group = (photos.name, size)
            observations += observe([*chosen, *absurd], impacts, said, rows, group, queries.vocabulary.words)
            print(f"{photos.name}: {size} photos, {len(chosen)} queries", file=sys.stderr)
    return observations


def table(observations: Sequence[Observation], calibration: Calibration) -> str:
    """Return the figures of each collection as Markdown."""
    kinds = ("caption", "keywords", "removed", *KINDS)
    head = ["photos of", "photos", "first 50 hold", "kept", "kept, keywords", "silent", *KINDS]
    head += ["shown", "shown, keywords", "removed: silent", "removed: shown"]
    rows = [head, ["---"] * len(head)]
    for (source, size), group in by_group(observations).items():
        of = {kind: [seen for seen in group if seen.kind == kind] for kind in kinds}
        of["nonsense"] = [seen for seen in group if seen.nonsense]
        ends = {kind: [end_of(seen.signs, calibration) for seen in some] for kind, some in of.items()}
        quiet = {kind: f"{100 * silent(some, ends[kind]):.1f}" for kind, some in of.items()}
        number = {kind: f"{np.median(shown(of[kind], ends[kind])):.0f}" for kind in kinds[:3]}
        held = np.mean([len(seen.right) > 0 for seen in of["caption"]])
        cells = [Path(source).name, f"{size:,}", f"{100 * held:.1f}"]
        cells += [f"{100 * kept(of[kind], ends[kind]):.1f}" for kind in SENSE]
        cells += [quiet[kind] for kind in ("nonsense", *KINDS)] + [number[kind] for kind in SENSE]
        rows.append([*cells, quiet["removed"], number["removed"]])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("sources", nargs="+", metavar="SOURCE")
    parser.add_argument("--on", nargs="+", default=[], metavar="SOURCE")
    parser.add_argument("--among", nargs="+", default=[], metavar="SOURCE")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)
    queries = TextQueries(given.model)
    sources, held_out, among = (
        [read(given.model, name) for name in names] for names in (given.sources, given.on, given.among)
    )
    for photos in (*sources, *held_out):
        if not any(photos.captions):
            raise DataError(f"{photos.name} has no captions")
    fitted_on = measure(queries, sources, among, "fit")
    scheme = scheme_of(queries.folder)
    calibration = replace(fit(fitted_on, queries.identity), scheme=scheme)
    if not given.dry_run:
        calibration.save(model_folder(given.model))
    print(f"fitted on\n\n{table(fitted_on, calibration)}")
    if held_out:
        tested_on = measure(queries, held_out, [*among, *sources], "test")
        print(f"\nheld out\n\n{table(tested_on, calibration)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LexLIPError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
