from pathlib import Path

import pytest

from lexlip.queries.text_queries import TextQueries
from lexlip.words.vocabulary import is_content_word
from tools.studies.nonsense import KINDS, NUMBER, absent_things, nonsense


@pytest.fixture(scope="module")
def queries() -> TextQueries:
    return TextQueries("mini")


def test_there_are_some_of_each_kind(queries: TextQueries) -> None:
    made = nonsense(queries, "test")
    counts = {kind: sum(query.kind == kind for query in made) for kind in KINDS}
    assert min(counts.values()) >= min(NUMBER, 50)
    assert made == nonsense(queries, "test")
    assert len({query.text for query in made}) > 0.9 * len(made)


def test_the_halves_have_little_in_common(queries: TextQueries) -> None:
    fit, test = ({query.text for query in nonsense(queries, half)} for half in ("fit", "test"))
    assert len(fit & test) <= 2  # single function words
    assert not set(absent_things("fit")) & set(absent_things("test"))


def test_kinds_are_what_they_say(queries: TextQueries) -> None:
    for kind, text in nonsense(queries, "fit"):
        words = text.split()
        if kind == "function words":
            assert not any(map(is_content_word, words))
        elif kind == "rare words":
            assert not set(words) & set(queries.vocabulary.words)
        elif kind == "thrown together":
            assert set(words) <= set(queries.vocabulary.words)
            assert 4 <= len(words) <= 6


def test_absent_things_are_not_in_captions_of_real_photos(shared: Path) -> None:
    """No caption has all of a sentence's content words."""
    from lexlip.data import open_source

    captions = [
        set(caption.lower().split())
        for item in open_source(shared / "coco" / "val-0000.tar").items
        for caption in item.captions
    ]
    for text in (*absent_things("fit"), *absent_things("test")):
        words = {word for word in text.lower().split() if is_content_word(word)}
        assert not any(words <= caption for caption in captions), text
