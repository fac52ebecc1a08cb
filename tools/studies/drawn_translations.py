"""Draw words of lexlip-languages' table of translations, to be looked at, and say how many it covers.

    python -m tools.studies.drawn_translations INDEX [INDEX ...]

Of each language 200 are drawn, the same every time. Covered are, in percent, words of the lexicon, and the
words that photos of indexes hold, each as often as it is held.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

from lexlip.models.model_folder import model_folder, read_words
from lexlip.models.word_table import TABLE, read_tables
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.impact import ImpactStage

FILE = Path(__file__).parents[2] / "languages" / "lexlip_languages" / TABLE
DRAWN = 200


def main(indexes: list[str]) -> None:
    """Print both."""
    held: Counter[str] = Counter()
    for index in indexes:
        with PhotoSearch(index) as search, search.now() as (stage, _):
            assert isinstance(stage, ImpactStage)
            held.update(stage.counts())
    words = read_words(model_folder("mini") / "vocabulary.txt")
    for language, table in read_tables(FILE).items():
        covered = sum(held[word] for word in table.shown) / max(held.total(), 1)
        print(
            f"{language}: {len(table.shown) / len(words):.1%} of {len(words)} words,"
            f" {covered:.1%} of those held"
        )
        drawn = random.Random(f"0 {language}").sample(list(table.shown.items()), DRAWN)
        print("; ".join(f"{english} = {own}" for english, own in drawn))


if __name__ == "__main__":
    main(sys.argv[1:])
