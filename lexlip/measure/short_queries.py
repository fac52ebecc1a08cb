"""Short queries: what single words and pairs of words find, by what people say of the photos.

The queries are words of the captions themselves:

- **all words**: content words that a caption of PHOTOS photos or more has.
- **agreed words**: content words on which two captions or more of a photo agree, for PHOTOS photos or more.
- **pairs**: "red ball", "tennis court": the last two words of noun phrases, in captions of PHOTOS_OF_PAIRS
  photos or more.

A photo is right for a word if one of its captions has it, in the singular or the plural, and for a pair if
both words stand together there. People do not say all that a photo shows, and least of all what only one of
them says: agreed words measure a model best.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.errors import ModelError
from lexlip.measure.in_language import InLanguage
from lexlip.measure.pool import CaptionedPool, PoolVectors, as_queries, typed_words
from lexlip.measure.recalls import ShortQueries, recall_at_k
from lexlip.models.contract import Encoder
from lexlip.retrieval.first_stage import Results
from lexlip.search.stages.honest_end import DEPTH, HEAD, HONEST_END, Calibration, end_of, signs_of
from lexlip.sparse.quantize import Scheme, quantize, query_scheme, scale_of
from lexlip.words.plain_text import words_in
from lexlip.words.vocabulary import is_content_word, other_number

PHOTOS = 8
PHOTOS_OF_PAIRS = 5
FEW = 3  # content words of a short caption
OFTEN = 0.1  # share of a noun's or an adjective's occurrences that follow a determiner; verbs have less
DETERMINERS = frozenset(
    "a an the this that these those his her its their my our your some any several many few both each every"
    " another other one two three four five six seven eight nine ten".split()
)

Asked = dict[str, dict[str, set[str]]]
"""By group and query the ids of the photos that are right."""


class Hits(NamedTuple):
    """What a short query finds.

    Attributes:
        ids: of photos, best first.
        missing: how many of its own words a query lacks that the vocabulary has; None for a dense model.
        silent: whether no photo stands above its honest end; None if the model knows of no end.
    """

    ids: list[str]
    missing: int | None = None
    silent: bool | None = None


def ask(pool: CaptionedPool) -> Asked:
    """Return the short queries that captions hold."""
    captions_of = [[pool.texts[row] for row in pool.texts_of(photo)] for photo in range(len(pool.image_ids))]
    words_of = [[set(words_in(text.lower())) for text in captions] for captions in captions_of]
    said, agreed = Counter[str](), Counter[str]()
    for captions in words_of:
        times = Counter(word for words in captions for word in words if is_content_word(word))
        said.update(times.keys())
        agreed.update(word for word, number in times.items() if number > 1)
    photos = _holding(words_of)
    words = {
        word: photos[word] | photos.get(other_number(word), set())
        for word, number in said.items()
        if number >= PHOTOS
    }
    groups = {
        "agreed_words": {word: right for word, right in words.items() if agreed[word] >= PHOTOS},
        "all_words": words,
        "pairs": _pairs(captions_of),
    }
    return {
        group: {query: {pool.image_ids[photo] for photo in right} for query, right in sorted(queries.items())}
        for group, queries in groups.items()
    }


def queries_of(asked: Asked) -> list[str]:
    """Return the queries of all groups, each once."""
    return list(dict.fromkeys(query for queries in asked.values() for query in queries))


def find(
    vectors: PoolVectors,
    queries: Sequence[str],
    search: Callable[[csr_matrix, int], Results],
    documents: csr_matrix,
    scheme: Scheme,
    most: int | None,
) -> list[Hits]:
    """Return what each query finds with a model.

    `search` is that of an engine that holds the documents, [n, V] or [n, D] in the order of the photos,
    quantised by the scheme. A query keeps so many words at most; None keeps all.

    Raises:
        ModelError: the model's honest end cannot be read.
    """
    if not queries:
        return []
    model = vectors.model
    encoded = as_queries(model, queries, model.encode_text(queries, vectors.query_encoder), most)
    found, scores = search(encoded, DEPTH)
    if model.vocabulary is None:
        return [Hits(ids) for ids in found]
    of_text = typed_words(model)
    typed = [of_text.of(query).columns for query in queries]
    whole = quantize(encoded, query_scheme(scheme))
    missing = [len(set(own) - set(row.indices.tolist())) for own, row in zip(typed, whole, strict=True)]
    calibration = None if isinstance(model, InLanguage) else _calibration(model, scheme)  # of English words
    if calibration is None:
        return [Hits(*of_query) for of_query in zip(found, missing, strict=True)]
    words, scale = model.vocabulary.words, scale_of(scheme)
    row_of = {id: row for row, id in enumerate(vectors.pool.image_ids)}
    silent = []
    for row, ids in enumerate(found):
        if ids:
            first = quantize(documents[[row_of[id] for id in ids[:HEAD]]], scheme) / scale
            known, unknown = [words[column] for column in typed[row]], of_text.missing(queries[row])
            signs = signs_of(whole[row] / scale, first, scores[row], known, unknown, len(row_of), words)
        silent.append(not ids or bool(scores[row][0] < end_of(signs, calibration)))
    return [Hits(*of_query) for of_query in zip(found, missing, silent, strict=True)]


def _calibration(model: Encoder, scheme: Scheme) -> Calibration | None:
    if model.honest_end is None:
        return None
    try:
        calibration = Calibration.of(model.honest_end)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"the model '{model.name}' is damaged: {HONEST_END}: {error!r}") from error
    return calibration if calibration.scheme == scheme else None


def summary(asked: Asked, hits: Sequence[Hits], captions: dict[str, float | None] | None) -> ShortQueries:
    """Return what is measured of each group, given the hits of `queries_of`, and what of short captions."""
    hits_of = dict(zip(queries_of(asked), hits, strict=True))
    words = {
        group: _figures([hits_of[query] for query in queries], list(queries.values()))
        for group, queries in asked.items()
    }
    return {**words, "captions": captions}


def short_captions(
    captions: Sequence[str], found: Sequence[Sequence[str]], relevant: Sequence[set[str]]
) -> dict[str, float | None] | None:
    """Return the recalls of captions of at most FEW content words, of what all of them found."""
    rows = [row for row in range(len(found)) if sum(map(is_content_word, words_in(captions[row]))) <= FEW]
    if not rows:
        return None
    return {
        "queries": len(rows),
        **recall_at_k([found[row] for row in rows], [relevant[row] for row in rows]),
    }


def _figures(hits: Sequence[Hits], right: Sequence[set[str]]) -> dict[str, float | None] | None:
    if not hits:
        return None
    missing = [hit.missing for hit in hits if hit.missing is not None]
    silent = [hit.silent for hit in hits if hit.silent is not None]
    return {
        "queries": len(hits),
        "P@5": _precision(hits, right, 5),
        "P@10": _precision(hits, right, 10),
        "missing": sum(missing) if missing else None,
        "silent": sum(silent) / len(silent) if silent else None,
    }


def _precision(hits: Sequence[Hits], right: Sequence[set[str]], k: int) -> float:
    """Return the mean share of right photos among the first k."""
    shares = [len(photos.intersection(hit.ids[:k])) / k for hit, photos in zip(hits, right, strict=True)]
    return float(np.mean(shares))


def _holding(captions_of: Iterable[Iterable[Iterable[Any]]]) -> dict[Any, set[int]]:
    """Return by what captions hold the photos that they are of."""
    photos = defaultdict(set)
    for photo, captions in enumerate(captions_of):
        for caption in captions:
            for part in caption:
                photos[part].add(photo)
    return photos


def _pairs(captions_of: Sequence[Sequence[str]]) -> dict[str, set[int]]:
    """Return the pairs of words, with the photos that are right."""
    parts_of = [
        [re.findall(r"[^\W_]+|[^\w\s]", text.lower()) for text in captions] for captions in captions_of
    ]
    times, after = Counter[str](), Counter[str]()
    for parts in (parts for captions in parts_of for parts in captions):
        times.update(parts)
        after.update(word for before, word in pairwise(parts) if before in DETERMINERS)
    nouns = {word for word in after.keys() - DETERMINERS if after[word] >= OFTEN * times[word]}
    phrases = _holding([map(_phrases, captions) for captions in parts_of])
    together = _holding([map(pairwise, captions) for captions in parts_of])
    pairs = {}
    for (first, second), photos in phrases.items():
        if len(photos) >= PHOTOS_OF_PAIRS and nouns.issuperset((first, second)):
            forms = [(a, b) for a in (first, other_number(first)) for b in (second, other_number(second))]
            pairs[f"{first} {second}"] = set().union(*(together.get(form, ()) for form in forms))
    return pairs


def _phrases(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the last two of the content words that follow a determiner."""
    for place, part in enumerate(parts):
        if part in DETERMINERS:
            phrase = list(takewhile(is_content_word, parts[place + 1 :]))
            if len(phrase) > 1:
                yield phrase[-2], phrase[-1]
