import pytest

from lexlip.function_words import BY_LANGUAGE, FUNCTION_WORDS, likely_language
from tests.multilingual import CAPTIONS

KNOWN = [
    (language, caption)
    for language, captions in CAPTIONS.items()
    for caption in captions
    if {word.strip(".,") for word in caption.lower().split()} & BY_LANGUAGE[language]
]


@pytest.mark.parametrize(("language", "caption"), KNOWN)
def test_a_caption_s_language_is_that_of_its_function_words(language: str, caption: str) -> None:
    assert likely_language(caption) == language


def test_without_function_words_a_text_counts_as_english() -> None:
    assert likely_language("") == likely_language("Hunde 12 chiens") == "en"


def test_words_that_name_something_in_another_language_are_not_in_the_list() -> None:
    assert not {"man", "hat", "son", "deux", "mann", "personnes"} & FUNCTION_WORDS
    assert all(word == word.lower() for words in BY_LANGUAGE.values() for word in words)
