import gzip
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from lexlip.words.function_words import QUERY_LANGUAGES
from lexlip.words.language_codes import LANGUAGES, language_of

NAMES = Path(__file__).parents[2] / "languages" / "lexlip_languages" / "names.tsv.gz"


def test_languages_have_codes() -> None:
    for code in ("de", "DE", "de-AT", "zh-Hant-TW", "yue", "und", "en-GB"):
        assert language_of(code) == code
    assert not any(map(language_of, ("xx", "", "deutsch", "xx-AT", "gsw", "en_GB.UTF-8")))
    assert QUERY_LANGUAGES.keys() <= LANGUAGES


def test_languages_have_codes_of_three_letters_too() -> None:
    for code, short in (
        ("deu", "de"),
        ("ger", "de"),
        ("DEU-at", "de-at"),
        ("cmn-Hant", "zh-Hant"),
        ("TWI", "tw"),
    ):
        assert language_of(code) == short
    letters = map("".join, product(ascii_lowercase, repeat=3))
    assert {*map(language_of, letters)} - {""} == LANGUAGES


def test_all_languages_of_the_package_are_known() -> None:
    rows = (line.split("\t")[1:] for line in gzip.decompress(NAMES.read_bytes()).decode().splitlines())
    assert LANGUAGES.issuperset(code for row in rows for one in row for code in one.split(" ")[1:])
