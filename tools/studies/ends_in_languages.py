"""Measure whether the honest end and its bands hold for sentences in other languages.

    lexlip index flickr8k/val-0000.tar --index flickr8k/.lexlip
    python -m tools.studies.ends_in_languages flickr8k/.lexlip flickr8k/val-0000.tar package/annotations \
        de=flickr8k/captions.de.tsv fr=flickr8k/captions.fr.tsv

Captions of the index's photos search it, in English and in other languages, those of the same photos. Printed
are, in percent, how often a search finds photos that fit; how many of the photos that stand among the 50 best
hits of their caption are above the end, and fit well; and how many photos do, in the middle of the captions.
Then names of signs, such as arrows, of Unicode's CLDR (its folder package/annotations) search, which no photo
shows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from lexlip.config import SourceConfig
from lexlip.data import open_source, open_sources
from lexlip.queries.query_language import UNKNOWN, parse_query
from lexlip.search.photo_search import PhotoSearch

SIGNS = "arrow button square circle triangle minus plus input mark sign".split()
DEPTH = 50  # hits


def names_of_signs(annotations: Path, language: str) -> list[str]:
    """Return the names of signs in a language, in the same order for each."""

    def names(code: str) -> dict[str, list[str]]:
        told = json.loads((annotations / code / "annotations.json").read_text(encoding="utf-8"))
        return {sign: one["tts"] for sign, one in told["annotations"]["annotations"].items() if "tts" in one}

    english, own = names("en"), names(language)
    signs = [sign for sign, (name,) in english.items() if not set(SIGNS).isdisjoint(name.lower().split())]
    return [own[sign][0] for sign in signs if sign in own]


def main(index: str, photos: str, annotations: Path, tables: dict[str, str]) -> None:
    """Print a line for each language."""
    items = open_source(photos).items
    texts = {"en": [item.captions[0] for item in items]}
    there = np.ones(len(items), bool)
    for language, table in tables.items():
        both = open_sources([SourceConfig(photos, captions=(table,))]).items
        more = [one.captions[len(item.captions) :] for item, one in zip(items, both, strict=True)]
        texts[language] = [captions[0] if captions else "" for captions in more]
        there &= [bool(captions) for captions in more]
    rows = np.flatnonzero(there).tolist()
    print(f"{len(rows)} photos with captions in all languages")
    print("language  found  own above the end  own fits well  above  well   signs  found")
    with PhotoSearch(index) as search:
        for language, captions in texts.items():
            code = "en" if language == "en" else UNKNOWN
            answers = [
                search.text(parse_query(captions[row], language=code), DEPTH, content_only=True)
                for row in rows
            ]
            own = [
                (answer, next((hit for hit in answer.hits if hit.id == items[row].id), None))
                for row, answer in zip(rows, answers, strict=True)
            ]
            kept = [(answer, hit) for answer, hit in own if hit is not None]
            above = [hit.score >= (answer.cut or 0) for answer, hit in kept]
            well = [hit.score >= (answer.well or 0) for answer, hit in kept]
            names = names_of_signs(annotations, language)
            signs = [
                search.text(parse_query(name, language=code), DEPTH, content_only=True).above > 0
                for name in names
            ]
            found = np.mean([answer.above > 0 for answer in answers])
            numbers = [
                np.median([getattr(answer, one) for answer in answers]) for one in ("above", "above_well")
            ]
            print(
                f"{language:8}  {found:5.1%}  {np.mean(above):17.1%}  {np.mean(well):13.1%}"
                f"  {numbers[0]:5.0f}  {numbers[1]:4.0f}  {len(names):6}  {np.mean(signs):5.1%}"
            )


if __name__ == "__main__":
    named = dict(one.split("=", 1) for one in sys.argv[4:])
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), named)
