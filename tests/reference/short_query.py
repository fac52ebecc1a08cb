"""The query of a text, word by word, as lexlip/sparse/typed_words.py describes it."""

import math

import numpy as np

from tests.reference.ranking import naive_topk


def plain_query(
    sentence: np.ndarray,
    own: list[int],
    number: int,
    alone: bool,
    least: float,
    keywords: np.ndarray | None = None,
    most: int | None = None,
) -> np.ndarray:
    """The sentence [V] and the queries of its own words, mixed, with its own words where seen, and cut.

    `number` content words were typed; `alone`: without function words, or only one content word.
    `least` is the share of its words' queries in a sentence.
    """
    query = sentence.astype(float)
    if own and keywords is not None:
        a = max(0.5 ** (number - 1), least) if alone else least
        length = 1 if a == 1 else math.sqrt(sum(query**2))
        words = sum(keywords[word].astype(float) for word in own)
        query = (1 - a) * query + a * (length or 1) * words / math.sqrt(sum(words**2))
    step = 0.002 * math.sqrt(sum(query**2))
    others = [weight for word, weight in enumerate(query) if weight > 0 and word not in own]
    others.sort(reverse=True)
    lightest = min((weight for weight in query if weight > 0), default=1)
    heavier = max((3 if number <= 2 else 24) - len(own), 0)  # so many others may be
    for word in own:
        seen = others[min(heavier, len(others) - 1)] + step if others else lightest
        query[word] = max(query[word], seen)
    return naive_topk(query[None], most or len(query))[0]
