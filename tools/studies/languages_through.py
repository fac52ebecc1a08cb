"""Do sentences in other languages find photos that another model than `mini` encoded?

    python tools/studies/languages_through.py MODEL PHOTOS POOL LANGUAGE=TABLE ...

The encoder of other languages says sentences in words of `mini`; those that MODEL has, too, are looked for in
its photos. So MODEL may be one that was not trained on them. A TABLE has one caption of each of PHOTOS, `en`
the English ones, which MODEL encodes itself; photos of POOL are only found. Each photo keeps 32 words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.cli.evaluate import open_captioned
from lexlip.measure.evaluate import evaluate
from lexlip.measure.in_language import InLanguage
from lexlip.measure.recalls import Report
from lexlip.models.contract import Encoder, QueryEncoder
from lexlip.models.load import load_model
from lexlip.search.engines.exact import engine_for
from lexlip.sparse.balance import usual_scheme

QUERIES = "mini"  # whose words the encoder of other languages knows
TOPK = 32


class Through(InLanguage):
    """A model of words whose sentences are said in words of `mini`, in a language."""

    def __init__(self, model: Encoder, language: str) -> None:
        super().__init__(model, QUERIES, language)
        assert model.vocabulary is not None
        self._same = same_words(self._queries.vocabulary.words, model.vocabulary.words)

    def encode_text(
        self, texts: str | Iterable[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, V] of T texts, over the model's V words."""
        return csr_matrix(super().encode_text(texts, encoder, batch) @ self._same)


def same_words(words: Sequence[str], others: Sequence[str]) -> csr_matrix:
    """Return float32 [n, m] with a one where two of n words and m others are the same."""
    column = {word: number for number, word in enumerate(others)}
    rows = [row for row, word in enumerate(words) if word in column]
    places = rows, [column[words[row]] for row in rows]
    return csr_matrix((np.ones(len(rows), np.float32), places), shape=(len(words), len(others)))


def report_of(model: Encoder, language: str, table: str, photos: str, pool: str) -> Report:
    """Search with a table's captions among photos and a pool."""
    source = open_captioned(table, photos, None, pools=[pool])
    encoder: Encoder = model if language == "en" else Through(model, language)  # type: ignore[assignment]
    scheme = usual_scheme(model.balance, model.metric)
    _, engine_of = engine_for(model, None, scheme)
    return evaluate(encoder, source, engine_of, TOPK, progress=True, scheme=scheme, short=False)


def main(name: str, photos: str, pool: str, *tables: str) -> None:
    model, table_of = load_model(name), dict(one.split("=", 1) for one in tables)
    english = report_of(model, "en", table_of.pop("en"), photos, pool).mean_recall
    print(f"en  {english:.1f}")
    for language, table in table_of.items():
        recall = report_of(model, language, table, photos, pool).mean_recall
        print(f"{language}  {recall:.1f}  {recall / english:.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
