from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lexlip.errors import DataError
from lexlip.explain.weighted_words import (
    WeightedWords,
    columns_of,
    words_of_captions,
    words_of_picture,
    words_of_query,
)
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from tests.tiny import CAPTIONS, tiny_model

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))


def check(found: WeightedWords, vector: np.ndarray, words: tuple[str, ...]) -> None:
    order = sorted(range(len(words)), key=lambda column: (-vector[column], column))
    by_hand = {words[column]: vector[column] for column in order if vector[column] > 0}
    assert list(found.weights) == list(by_hand) != []
    assert found.weights == pytest.approx(by_hand)


def test_the_words_of_a_picture_are_its_vector() -> None:
    model = tiny_model()
    words = model.vocabulary.words
    found = words_of_picture(model, PICTURE)
    check(found, model.encode_image([PICTURE]).toarray()[0], words)
    assert found.held == []
    spoken = [word for word in found.weights if word in {"two", "dogs", "play", "snow", "brown", "dog"}]
    assert words_of_picture(model, PICTURE, ["two dogs play in the snow", "a brown dog"]).held == spoken


def test_the_words_of_captions_are_their_mean() -> None:
    model = tiny_model()
    vector = model.encode_text(CAPTIONS[:2]).toarray().mean(axis=0)
    found = words_of_captions(model, CAPTIONS[:2])
    check(found, vector, model.vocabulary.words)
    said = {word for caption in CAPTIONS[:2] for word in caption.split()}
    assert set(found.held) == said & set(found.weights)


@pytest.mark.parametrize("encoder", ["network", "words"])
def test_the_words_of_a_query_are_those_it_is_searched_with(model_folder: Path, encoder: str) -> None:
    queries = TextQueries(model_folder, encoder)
    query = parse_query("Two dogs, in the snow!")
    found = words_of_query(queries, query)
    check(found, queries.encode_query(query).toarray()[0], queries.vocabulary.words)
    assert set(found.held) == {"two", "dogs", "snow"} & set(found.weights)


def test_marks_change_the_words_of_a_query(model_folder: Path) -> None:
    queries = TextQueries(model_folder)
    whole = words_of_query(queries, parse_query("two dogs"))
    found = words_of_query(queries, parse_query("two^0 dogs +sea^2 -beach"))
    heaviest = max(whole.weights.values())
    assert "two" not in found.weights
    assert found.weights["sea"] == pytest.approx(2 * heaviest)
    assert found.weights["dogs"] == whole.weights["dogs"]
    assert set(found.held) == {"dogs", "sea"}
    assert words_of_query(queries, parse_query("+sea")).weights == {"sea": 1}


def test_nothing() -> None:
    assert words_of_query(TextQueries("mini", "words"), parse_query("?")) == WeightedWords({}, [])


def test_the_heaviest() -> None:
    words = WeightedWords({"dog": 3, "snow": 2, "cat": 1}, ["dog", "cat"])
    assert words.first(2) == WeightedWords({"dog": 3, "snow": 2}, ["dog"])
    assert words.first(9) == words


def test_columns() -> None:
    vocabulary = tiny_model().vocabulary
    assert [vocabulary.words[column] for column in columns_of(vocabulary, ["snow", "dog"])] == ["snow", "dog"]
    with pytest.raises(DataError, match=r"^the vocabulary has no word 'quokka'$"):
        columns_of(vocabulary, ["dog", "quokka"])
