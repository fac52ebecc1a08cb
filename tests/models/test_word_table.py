import gzip
import re
from pathlib import Path

import pytest

from lexlip.errors import ConfigError, MissingPackage, ModelError
from lexlip.models.language_model import how_to_install, read_lines
from lexlip.models.word_table import (
    NAMES,
    TABLE,
    WordTable,
    likely_table,
    merged,
    named,
    named_in,
    read_tables,
    table_to_show,
    translated,
    word_tables,
)
from tests.queries.saved_models import saved
from tests.queries.tiny_languages import install, write

OWN = Path(__file__).parents[2] / "languages" / "lexlip_languages" / TABLE
LEXICON = Path(__file__).parents[2] / "lexlip" / "weights" / "mini" / "vocabulary.txt"
ROWS = [
    "en\tde\tfr\tes",
    "bicycle\tFahrrad\tvélo\tbicicleta",
    "bike\tFahrrad\tvélo\tbicicleta",
    "dog\tHund\tchien\tperro",
    "girl\tMädchen\tfille\tniña",
    "leash\tLeine\tlaisse\tcorrea",
    "red\trot\trouge\trojo",
    "rice\tReis\triz\tarroz",
    "snow\tSchnee\tneige\tnieve",
    "sister\tSchwester\tsœur\thermana",
    "street\tStraße\true\tcalle",
    "sunset\tSonnenuntergang\tcoucher de soleil\tpuesta de sol",
    "zebra\tZebra\t\tcebra",
]


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, WordTable]:
    """Tables beside the folder of a stand-in for the package."""
    saved(tmp_path / "model")
    write(tmp_path / "languages", tmp_path / "model")
    (tmp_path / TABLE).write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    install(monkeypatch, tmp_path / "languages")
    return dict(word_tables())


ENGLISH = {
    "de": {
        **{
            "Fahrrad": ["bicycle", "bike"],
            "HUND": ["dog"],
            "Hunds": ["dog"],
            "rotes": ["red"],
            "roten": ["red"],
        },
        **{"Madchen": ["girl"], "Maedchen": ["girl"], "strasse": ["street"], "STRASSE": ["street"]},
        **{"Maedchenhund": ["girl", "dog"], "Hundestrasse": ["dog", "street"]},
        **{"Reise": [], "Hundeleine": ["dog", "leash"], "Schneehunds": [], "Hu": [], "dog": []},
    },
    "fr": {
        "soeur": ["sister"],
        "Sœurs": ["sister"],
        "velo": ["bicycle", "bike"],
        "chiens": ["dog"],
        "rouges": ["red"],
        "Zebra": [],
        "coucher": [],
    },
    "es": {"nina": ["girl"], "rojas": ["red"], "roja": ["red"], "perros": ["dog"], "perra": ["dog"]},
}


def test_a_word_is_found_in_its_forms_and_as_it_is_typed(tables: dict[str, WordTable]) -> None:
    for language, words in ENGLISH.items():
        assert {word: tables[language].english(word) for word in words} == words
    assert [tables["de"].written(word) for word in ("maedchen", "Strasse", "rotes", "Mädchen", "xyz")] == [
        *("Mädchen", "Straße", "rotes", "Mädchen", "xyz")
    ]


def test_phrases_are_read_as_one(tables: dict[str, WordTable]) -> None:
    read = tables["fr"].read("un chien, Coucher de Soleil")
    assert read == [("un", []), ("chien", ["dog"]), ("Coucher de Soleil", ["sunset"])]
    assert WordTable("", {}).read("ein Hund") == [("ein", []), ("Hund", [])]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        *(("zwei Hunde im Schnee", "de"), ("Hund", "de"), ("chien rouge", "fr"), ("perro", "es")),
        *(
            ("ein Hund na plaży", ""),
            ("puesta de sol", "es"),
            ("pes ve sněhu", ""),
            ("due cani nella neve", ""),
            ("", ""),
            ("犬", ""),
        ),
    ],
)
def test_the_language_of_a_sentence(tables: dict[str, WordTable], text: str, language: str) -> None:
    assert likely_table(text) == language


def test_words_as_they_are_shown(tables: dict[str, WordTable]) -> None:
    assert translated(["dog", "zebra", "xyz"], "fr") == {"dog": "chien"}
    assert translated(["dog"], "") == translated(["dog"], "cs") == {}
    own = translated(["bike", "bicycle"], "de")
    assert list(merged({"bike": 0.5, "dog": 0.7, "bicycle": 0.4}, own).items()) == [
        ("Fahrrad", 0.9),
        ("dog", 0.7),
    ]
    english = {"dog": 0.1, "cat": 0.2}
    assert list(merged(english, {}).items()) == list(english.items())
    assert [table_to_show(code) for code in ("de", "fr-CA", "en", "en-GB", "")] == ["de", "fr", "", "", ""]
    with pytest.raises(ConfigError, match="words are shown in en, de, fr, es, and not in 'cs'"):
        table_to_show("cs")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    assert (dict(word_tables()), translated(["dog"], "de"), likely_table("ein Hund")) == ({}, {}, "")
    with pytest.raises(MissingPackage, match=re.escape(how_to_install())):
        table_to_show("de")


def test_a_damaged_table(tmp_path: Path) -> None:
    for content in (b"", b"en\tde\ndog\n", b"en\tde\ndog\tHund\tchien\n", b"\xff"):
        (tmp_path / TABLE).write_bytes(content)
        with pytest.raises(ModelError, match="is damaged"):
            read_tables(tmp_path / TABLE)
        read_tables.cache_clear()
    assert read_tables(tmp_path / "none") == {}


def test_the_package_has_words_of_mini() -> None:
    tables, lexicon = read_tables(OWN), set(LEXICON.read_text(encoding="utf-8").split())
    assert list(tables) == ["de", "fr", "es"]
    words = [line.partition("\t")[0] for line in OWN.read_text(encoding="utf-8").splitlines()[1:]]
    assert words == sorted(set(words))
    assert lexicon.issuperset(words)
    for table in tables.values():
        assert len(table.shown) > 2000
        assert all(own == own.strip() and own for own in table.shown.values())
        for english, own in table.shown.items():  # each is found again
            assert english in table.english(own) or " " in own or "-" in own or "'" in own


def test_a_compound_names_its_last_part(tables: dict[str, WordTable]) -> None:
    both = tables["de"].english("Hundeleine")
    assert (both, tables["de"].named("Hundeleine")) == (["dog", "leash"], ["leash"])
    assert tables["de"].named("Hund") == tables["de"].english("Hund")


def test_what_is_longer_than_any_compound_is_not_taken_apart(
    tables: dict[str, WordTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tables["de"].named("hundeleine")
    monkeypatch.setattr("lexlip.models.word_table.LONGEST", len("hundeleine") - 1)
    assert tables["de"].named("hundeleine") == []


def test_names_without_the_endings_of_a_sentence(tables: dict[str, WordTable], tmp_path: Path) -> None:
    read_lines.cache_clear()
    own = "cane\tdog it\ncani\tangle en-x\nsnö\tsnow sv\nкот\tcat bg ru\nсобака\tdog ru\n개\tdog ko\n"
    (tmp_path / NAMES).write_bytes(gzip.compress("".join(sorted(own.splitlines(True))).encode()))
    for word, english in {
        "cani": {"en-x": ["angle"], "it": ["dog"]},
        "собаку": {"ru": ["dog"]},
        "котами": {"ru": ["cat"]},
        "개들을": {"ko": ["dog"]},
        "개는": {"ko": ["dog"]},
        "개": {"ko": ["dog"]},
        "snöar": {"sv": ["snow"]},
        "들을": {},
        "": {},
    }.items():
        assert (word, named_in(word)) == (word, english)
    read_lines.cache_clear()


NAMED = "kedi\tcat tr\nkot\tangle sl\tcat pl\nsnöig\tsnow sv\n"


def test_names_of_languages_without_a_table(tables: dict[str, WordTable], tmp_path: Path) -> None:
    assert named("Kedi") == {}
    read_lines.cache_clear()
    (tmp_path / NAMES).write_bytes(gzip.compress(NAMED.encode()))
    assert [named(word) for word in ("Kedi", "kot", "hund")] == [
        {"cat": ["tr"]},
        {"angle": ["sl"], "cat": ["pl"]},
        {},
    ]
    for text, language in {"Hund kedi": "de", "kedi": "", "rot собака": ""}.items():
        assert (text, likely_table(text)) == (text, language)
    read_lines.cache_clear()
    (tmp_path / NAMES).write_bytes(b"no names")
    with pytest.raises(ModelError, match="is damaged"):
        named("kedi")
    read_lines.cache_clear()


def test_verbs_in_their_forms_and_singulars_that_a_table_lacks() -> None:
    tables = read_tables(OWN)
    for language, words in {
        "de": {
            "lacht": "laughing",
            "lachende": "laughing",
            "lachender": "laughing",
            "isst": "eating",
            "schläft": "sleeping",
            "Erdbeere": "strawberries",
        },
        "fr": {
            "blanche": "white",
            "regardent": "looking",
            "sautant": "jumping",
            "brindille": "twigs",
            "mouton": "sheep",
        },
        "es": {"comiendo": "eating", "duerme": "sleeping", "corren": "running", "oveja": "sheep"},
    }.items():
        for word, english in words.items():
            assert english in tables[language].english(word)
            assert not tables[language].has(word)
    assert (tables["de"].english("Schaf"), tables["de"].has("rotes")) == (["sheep"], True)
    assert (tables["es"].english("juega")[1], tables["de"].english("schoener")) == ("playing", ["beautiful"])
    assert tables["fr"].english("fraise") == ["strawberries"]  # and not frais
    assert "eating" in tables["fr"].english("mange")  # and not eaten, "mangé"
    assert (tables["fr"].written("mange"), tables["es"].written("bebe")) == ("mange", "bebé")
    for language, names in {"de": ("Sam", "Jack", "Kart"), "fr": ("passage", "collie")}.items():
        assert [tables[language].english(name) for name in names] == [[]] * len(names)
