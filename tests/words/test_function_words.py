import pytest

from lexlip.words.function_words import BY_LANGUAGE, FUNCTION_WORDS, likely_language, looks_foreign
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


@pytest.mark.parametrize(
    ("sentence", "unknown"),
    [
        ("ein Hund im Schnee", ["Hund", "Schnee"]),
        ("chien dans la neige", ["chien", "neige"]),
        ("dva muži hrají basketbal", ["muži", "hrají", "basketbal"]),
        ("un perro en la nieve", ["perro", "nieve"]),
        ("un uomo in cima a una montagna", ["un", "uomo", "cima", "una", "montagna"]),
        ("um cachorro na neve", ["um", "cachorro", "na", "neve"]),
        ("een hond in de sneeuw", ["een", "hond", "sneeuw"]),
        ("собака", ["собака"]),
        ("雪の中の犬", ["雪の中の犬"]),
    ],
)
def test_sentences_that_do_not_look_english(sentence: str, unknown: list[str]) -> None:
    assert looks_foreign(sentence, unknown)
    assert not looks_foreign(sentence, [])  # the model knows the words


@pytest.mark.parametrize(
    ("sentence", "unknown"),
    [
        ("", []),
        ("a dgo in teh snwo", ["dgo", "teh", "snwo"]),
        ("xyzzy qwrt", ["xyzzy", "qwrt"]),
        ("crème brûlée", ["crème", "brûlée"]),
        ("a dog at the café de la paix", ["paix"]),
        ("la la land", ["la"]),
        ("a quokka in Zürich", ["quokka", "Zürich"]),
        ("🐶 2014 ?!", ["2014"]),
        ("a photo of 日本 temples", ["日本"]),
    ],
)
def test_sentences_that_may_be_english(sentence: str, unknown: list[str]) -> None:
    assert not looks_foreign(sentence, unknown)
