"""The query of a text, word by word, as lexlip/sparse/keywords.py describes it."""

import math

import numpy as np

from tests.reference.ranking import naive_topk


def plain_query(
    sentence: np.ndarray,
    own: list[int],
    number: int,
    alone: bool,
    keywords: np.ndarray | None = None,
    most: int | None = None,
) -> np.ndarray:
    """The sentence [V] and the queries of its own words, mixed, cut, and with its own words where seen.

    `number` content words were typed; `alone`: without function words, or only one content word.
    """
    query = sentence.astype(float)
    if own and keywords is not None:
        a = max(0.5 ** (number - 1), 0.125) if alone else 0.125
        length = math.sqrt(sum(query**2))
        words = sum(keywords[word].astype(float) for word in own)
        query = (1 - a) * query + a * (length or 1) * words / math.sqrt(sum(words**2))
    query = naive_topk(query[None], most or len(query))[0]
    if not own:
        return query
    step = 0.002 * math.sqrt(sum(query**2))
    others, last = list(query), 23
    if number <= 2:  # so few others are heavier that the typed words are among the first three
        others, last = [weight for word, weight in enumerate(query) if word not in own], max(3 - len(own), 0)
    others = sorted((weight for weight in others if weight > 0), reverse=True)
    for word in own:
        seen = others[min(last, len(others) - 1)] + step if others else 1
        query[word] = max(query[word], seen)
    return query
