import gzip
from pathlib import Path

from lexlip.words.function_words import QUERY_LANGUAGES
from lexlip.words.language_codes import LANGUAGES, is_language

NAMES = Path(__file__).parents[2] / "languages" / "lexlip_languages" / "names.tsv.gz"


def test_languages_have_codes() -> None:
    assert all(map(is_language, ("de", "DE", "de-AT", "zh-Hant", "yue", "und", "en-GB")))
    assert not any(map(is_language, ("xx", "", "deutsch", "xx-AT", "deu")))
    assert QUERY_LANGUAGES.keys() <= LANGUAGES


def test_all_languages_of_the_package_are_known() -> None:
    rows = (line.split("\t")[1:] for line in gzip.decompress(NAMES.read_bytes()).decode().splitlines())
    assert LANGUAGES.issuperset(code for row in rows for one in row for code in one.split(" ")[1:])
