import gzip
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from anserini_bridge.sparse_rows import Rows
from lexlip.errors import ModelError
from lexlip.models.language_model import read_lines
from lexlip.models.model_folder import model_folder, read_description, read_words
from lexlip.models.word_table import NAMES as NAMES_FILE
from lexlip.models.word_table import TABLE, read_tables
from lexlip.queries.other_languages import OtherLanguages
from lexlip.queries.query_language import Query, forms, parse_query
from lexlip.sparse.typed_words import Typed
from tests.queries.saved_models import cosines, saved
from tests.queries.tiny_languages import TRANSLATIONS, install, tokenizer, write

SENTENCES = ["ein Hund im Schnee", "une chien dans la neige", "雪の中の犬", "كلب", "hund", "xyz", "", "?!"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    saved(folder)
    return folder


@pytest.fixture(scope="module")
def folder(model: Path) -> Path:
    write(model.with_name("languages"), model)
    return model.with_name("languages")


def opened(folder: Path, model: Path) -> OtherLanguages:
    identity = read_description(model)["identity"]
    return OtherLanguages(folder, model, identity, read_words(model / "vocabulary.txt"))


def test_vectors_are_those_of_torch(tmp_path: Path, model: Path) -> None:
    body, head = write(tmp_path / "random", model, layers=2)
    others, split = opened(tmp_path / "random", model), tokenizer()
    with torch.no_grad():
        states = [body(torch.tensor([split.encode(text).ids])).last_hidden_state for text in SENTENCES]
        expected = np.stack([head(one)[0].numpy() for one in states])
    found = np.stack([others.encode(text) for text in SENTENCES])
    assert (expected > 0).any(axis=1).all()
    assert cosines(found, expected).min() > 0.99  # layers have 8 bits a weight


def test_each_word_of_a_sentence_gives_its_english_word(folder: Path, model: Path) -> None:
    others = opened(folder, model)
    for foreign, english in TRANSLATIONS.items():
        assert others.english(foreign) == [english]
    vector = others.vector(Query("", "ein Hund im Schnee"))
    assert {others.words[column] for column in np.flatnonzero(vector)} == {"dog", "snow"}
    known, unknown = others.known_and_unknown(Query("", "ein Hund im Schnee"))
    assert (set(known), unknown) == ({"dog", "snow"}, [])
    assert np.count_nonzero(others.vector(Query("", "Hund Katze Schnee"), most=2)) == 2
    assert others.english("xyz") == []
    assert not others.vector(Query("-Hund", "")).any()


READ: dict[str, tuple[str, dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    "Schnee ohne Hund": ("Schnee", {"ohne Hund": ("dog", "dogs")}, ("dog", "dogs")),
    "Schnee ohne einen Hund": ("Schnee", {"ohne einen Hund": ("dog", "dogs")}, ("dog", "dogs")),
    "kein Hund im Schnee": ("im Schnee", {"kein Hund": ("dog", "dogs")}, ("dog", "dogs")),
    "neige sans chien": ("neige", {"sans chien": ("dog", "dogs")}, ("dog", "dogs")),
    "neige, pas de chien": ("neige", {"pas de chien": ("dog", "dogs")}, ("dog", "dogs")),
    "sin perro ni gato en la playa": (
        "en la playa",
        {"sin perro ni gato": ("dog", "dogs", "cat")},
        ("dog", "dogs", "cat"),
    ),
    **{
        f"{before} {negation}": (before, {negation: ("dog", "dogs")}, ("dog", "dogs"))
        for before, negation in (
            *(("nieve", "no hay perro"), ("nieve", "donde no hay perro"), ("nieve", "sin que haya perro")),
            *(("neige", "il n'y a pas de chien"), ("Schnee", "es gibt keinen Hund")),
            *(("neve", "senza un cane"), ("sneeuw", "geen Hund"), ("sníh", "bez psa"), ("снег", "без psa")),
            *(("snö", "utan Hund"), ("neve", "sem o perro")),
        )
    },
    "Schnee ohne Hund und Hunde": ("Schnee", {"ohne Hund und Hunde": ("dog", "dogs")}, ("dog", "dogs")),
    "Schnee ohne Hunde und Katze": ("Schnee und Katze", {"ohne Hunde": ("dogs", "dog")}, ("dogs", "dog")),
    "ohne Hund": ("", {"ohne Hund": ("dog", "dogs")}, ("dog", "dogs")),
    'Schnee "ohne Hund"': ("Schnee ohne Hund", {}, ()),  # in quotes it is text
    "eine Katze ohne Hemd": ("eine Katze ohne Hemd", {}, ()),  # what people wear belongs to a caption
    "ohne kleinen Hund": ("ohne kleinen Hund", {}, ()),  # no thing that is known
    "Schnee ohne Hund Katze": ("Schnee ohne Hund Katze", {}, ()),  # goes on
    "Schnee ohne und": ("Schnee ohne und", {}, ()),
    "Schnee -Hund": ("Schnee", {}, ("dog", "dogs")),
    "Schnee -xyz": ("Schnee", {}, ("xyz",)),
}
"""What remains of a sentence, what is read as a negation, and what is left out."""


@pytest.mark.parametrize("text", READ)
def test_negations_and_marks(folder: Path, model: Path, text: str) -> None:
    query = opened(folder, model).read(parse_query(text, language="de"))
    assert (query.sentence.strip(), query.negations, query.without) == READ[text]


def test_nothing_is_left_out_that_a_sentence_asks_for(folder: Path, model: Path) -> None:
    for text, without in {"perro sin galgo": ("galgo",), "perro -galgo": ("galgo",)}.items():
        assert opened(folder, model).read(parse_query(text, language="es")).without == without
    assert opened(folder, model).read(parse_query("gato sin galgo")).without == ("dog", "dogs")


def test_what_is_asked_for_is_encoded_once(folder: Path, model: Path) -> None:
    others = opened(folder, model)
    query = others.read(parse_query("犬 猫 雪 neve sin perro", language="und"))
    others.vector(query)
    said = {"perro", "dog", "a photo of perro"}  # whether the encoder is sure
    assert query.without == ("perro",)
    assert others.encode.cache_info().misses == len({query.sentence, *said})


def test_spaces_and_words_by_the_thousand_take_no_time(folder: Path, model: Path) -> None:
    others = opened(folder, model)
    for text in (
        f"Schnee ohne Katze {' ' * 100_000}x",
        "犬" * 9_000,
        "犬と" * 9_000,
        "개와 " * 9_000,
        "a és " * 9_000,
    ):
        assert others.read(parse_query(text, language="de")).text == text


def test_an_english_negation_is_text(folder: Path, model: Path) -> None:
    query = opened(folder, model).read(parse_query("Schnee no Hund -Katze", language="de"))
    assert (query.sentence, query.without, query.negations) == ("Schnee no Hund", ("cat",), {})


def test_weights_are_of_english_words(folder: Path, model: Path) -> None:
    query = opened(folder, model).read(parse_query("ein Hund Schnee^2 +Katze", language="de"))
    assert (query.sentence, query.factors, query.added) == ("ein Hund Schnee", {"snow": 2.0}, {"cat": 1.0})


def test_another_model(folder: Path, model: Path, tmp_path: Path) -> None:
    words = read_words(model / "vocabulary.txt")
    with pytest.raises(
        ModelError, match=r"knows other languages for .*@\w{12}, and the model here is other@1: say"
    ):
        OtherLanguages(folder, model, "other@1", words)
    broken = tmp_path / "broken"
    write(broken, model)
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="is damaged"):
        opened(broken, model)


PACKAGE = Path(__file__).parents[2] / "languages/lexlip_languages/model"


@cache
def of_mini() -> OtherLanguages:
    return opened(PACKAGE, model_folder("mini"))


NAMES = {  # of CLDR, which it has learned
    "dog": ("Hund", "chien", "perro", "cane", "собака", "สุนัข", "狗"),
    "cat": ("Katze", "gato", "кошка", "猫"),
    "snow": ("Schnee", "neige", "снег"),
    "bike": ("vélo", "bicicletta"),
}


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="lexlip-languages is not in this folder, but in a clone")
def test_the_package_knows_the_words_of_mini() -> None:
    others = of_mini()
    for english, names in NAMES.items():
        assert {others.english(name)[0] for name in names} <= {english, f"{english}s"}
    assert {"dog", "snow"} <= set(others.known_and_unknown(Query("", "dos perros en la nieve"))[0])
    assert others.sure("gün batımı") == "sky"
    for guessed in ("qwxyzk", "Quallen", "kombucha"):
        assert (others.sure(guessed), others.english(guessed)) == ("", [])
    for capitals in ("СОБАКА", "KÖPEK"):
        assert others.english(capitals) == others.english(capitals.lower())


LEFT_OUT = {  # by what is left out, in both numbers
    "person dog": """
        пляж без людей и собак, strand zonder mensen en honden, spiaggia senza persone e cani,
        plaża bez ludzi i psów, pláž bez lidí a psů, praia sem pessoas e cães,
        plajă fără oameni și câini, playa sin gente y perros,
        plage sans gens et chiens, Strand ohne Leute und Hunde, 没有人和狗的海滩,
        人と犬のいないビーチ, 개와 사람이 없는 해변
    """,
    "dog cat": """
        weder Hund noch Katze, ni perro ni gato, plage ni chien ni chat, né cane né gatto, nem cão nem gato,
        ни собаки ни кошки, noch hond noch kat, varken hund eller katt
    """,
    "dog": """
        犬のいない公園, 犬なし, 公園に犬がいません, 没有狗的公园, 公园里没有狗, 개 없이, 개 없는 공원,
        nie ma psa, žádný pes,
        нет собак, ingen hund, kutya nélkül, köpek yok
    """,
    "cat": "고양이 없는 방, 고양이가 없는 방, pas un chat",
    "person car": "no hay ni gente ni coches",
    "person": """
        誰もいない海, 没人的海滩, 아무도 없는 해변, strand emberek nélkül,
        playa sin nadie, praia sem pessoas a correr,
        strand zonder mensen en blauwe lucht, strand utan människor och en hund, plaża bez ludzi i pies
    """,
    "": "少ない人, 美しくない犬, 没有红色汽车的街道, ni hao, Inga med hund",
}


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="lexlip-languages is not in this folder, but in a clone")
def test_what_is_left_out_in_many_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PACKAGE)
    for words, texts in LEFT_OUT.items():
        expected = {form for word in words.split() for form in forms(word)}
        for text in map(str.strip, texts.split(",")):
            assert (text, {*of_mini().read(parse_query(text, language="und")).without}) == (text, expected)
    listed = "улица без машин, людей и собак"
    assert len(of_mini().read(parse_query(listed, language="und")).without) == 6


@pytest.fixture
def with_table(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> OtherLanguages:
    """A table beside the folder: Mütze, which the encoder does not know, is a cat."""
    folder.with_name(TABLE).write_text("en\tde\ncat\tMütze\ndog\tHund\nsnow\tSchnee\n", encoding="utf-8")
    read_tables.cache_clear()
    install(monkeypatch, folder)
    return opened(folder, model)


def test_a_table_knows_more_than_the_encoder(with_table: OtherLanguages) -> None:
    columns = with_table.words.index
    query = Query("", "ein Hund mit Muetze", language="de")
    assert with_table.typed(query) == Typed([columns("dog"), columns("cat")], 2, False)
    assert with_table.vector(query)[columns("cat")] > 0
    assert not with_table.vector(replace(query, language="cs"))[columns("cat")]
    for text, read in {
        "Schnee ohne Mütze": ("Schnee", ("cat",)),
        "Schnee -Muetze": ("Schnee", ("cat",)),
        "Muetze Schnee": ("Mütze Schnee", ()),
    }.items():
        asked = with_table.read(parse_query(text, language="und"))
        assert (asked.sentence.strip(), asked.without) == read


def test_a_word_that_a_table_lacks_is_named_by_an_encoder_that_is_sure(with_table: OtherLanguages) -> None:
    for text, without in {
        "Schnee ohne Quark": ("Quark",),
        "Schnee ohne Boot": ("boat",),
        "Schnee -boot": ("boat",),
    }.items():
        asked = with_table.read(parse_query(text, language="de"))
        assert (asked.sentence, asked.without) == ("Schnee", without)


def test_an_encoder_is_sure_of_what_stays_in_a_sentence_and_is_said_in_english(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = opened(folder, model)
    assert [others.sure(text) for text in ("Hund", "犬", "xyz", "")] == ["dog", "dog", "", ""]
    dog, snow = others.words.index("dog"), others.words.index("snow")

    def encode(seen: dict[str, tuple[float, float]], text: str) -> np.ndarray:
        vector = np.zeros(len(others.words), np.float32)
        vector[dog], vector[snow] = seen.get(text, (1, 0))
        return vector

    for seen, word in (
        ({}, "dog"),
        ({"dog": (0.56, 0.83)}, "dog"),  # what the English word means to the encoder
        ({"dog": (0.54, 0.84)}, ""),
        ({"a photo of Hund": (0.51, 1)}, "dog"),
        ({"a photo of Hund": (0.49, 1)}, ""),
        ({"a photo of Hund": (0, 0)}, ""),
    ):
        monkeypatch.setattr(others, "encode", partial(encode, seen))
        assert others.sure("Hund") == word


def test_a_mistyped_word_leaves_out_no_guess(with_table: OtherLanguages) -> None:
    for text, without, negations in (
        ("Schnee ohne Hnud", ("Hnud",), {"ohne Hnud": ("Hnud",)}),
        ("Schnee ohne Hnud oder Katze", ("Hnud", "cat"), {"ohne Hnud oder Katze": ("Hnud", "cat")}),
        ("Schnee -Hnud", ("Hnud",), {}),
    ):
        asked = with_table.read(parse_query(text, language="de"))
        assert (asked.sentence, asked.without, asked.negations) == ("Schnee", without, negations)
    weighed = with_table.read(parse_query("Hnud^2 +Schne", language="de"))
    assert (weighed.factors, weighed.added) == ({"Hnud": 2.0}, {"Schne": 1.0})


def test_what_a_table_knows_of_a_sentence(with_table: OtherLanguages) -> None:
    for text, expected in {
        "ein Hund mit Muetze": (["dog", "cat"], []),
        "ein Hund mit Quark": (["dog"], []),
        "Quark mit Senf": ([], ["Quark", "Senf"]),
    }.items():
        assert with_table.known_and_unknown(Query("", text, language="de")) == expected


def test_chosen_words_are_of_the_lexicon(with_table: OtherLanguages) -> None:
    asked = with_table.read(parse_query("Schnee", ["-cat", "+dog", "hund^2"], language="de"))
    assert (asked.without, asked.added, asked.factors) == (("cat",), {"dog": 1.0}, {"dog": 2.0})


def test_words_that_may_be_mistyped(with_table: OtherLanguages) -> None:
    assert with_table.doubtful(Query("", "ein Hund im Schnne 12 Perro", language="de")) == ["Schnne"]


def test_words_that_may_be_names(with_table: OtherLanguages) -> None:
    for text, names in {"Jürgen mit Hund": ["Jürgen"], "ein Boot 2019": [], "Muetze": []}.items():
        assert with_table.names(Query("", text, language="de")) == names


@pytest.fixture
def with_names(with_table: OtherLanguages, folder: Path) -> Iterator[OtherLanguages]:
    """Names beside the folder: kedi, which the encoder does not know, is a cat, and kot a cat or snow."""
    read_lines.cache_clear()
    names = "kar\tsnow tr\nkedi\tcat tr\nkot\tcat pl\tsnow sl\nsnih\tsnow sk\nzima\tsnow cs\n"
    folder.with_name(NAMES_FILE).write_bytes(gzip.compress(names.encode()))
    yield with_table
    folder.with_name(NAMES_FILE).unlink()
    read_lines.cache_clear()


def test_names_of_a_language_without_a_table(with_names: OtherLanguages) -> None:
    cat, snow = map(with_names.words.index, ("cat", "snow"))
    for text, language, columns in (
        ("Kedi", "und", [cat]),
        ("kar kedi", "tr", [snow, cat]),
        ("2019 kedi", "tr", [cat]),
        ("kedi snih", "und", [cat, snow]),  # two languages have as many
        ("kedi snih", "sk", [snow]),
        ("kedi zima", "und", []),  # which may be Czech
        ("kedi zima", "cs", []),
        ("kedi", "pl", []),
        ("kot", "sl", [snow]),
        ("kedi Quark", "und", [cat]),
        ("kot kar kedi", "und", [snow, cat]),  # as Turkish has two
    ):
        asked = Query(text, text, language=language)
        assert (text, with_names.typed(asked).columns) == (text, columns)
    assert with_names.known_and_unknown(Query("", "kedi", language="tr")) == (["cat"], [])
    assert [with_names.knows(text) for text in ("kedi", "kedi quark", "犬")] == [True, False, True]
    asked = with_names.read(parse_query("kar -kedi", language="tr"))
    assert (asked.sentence, asked.without) == ("kar", ("cat",))


def test_names_of_some_words_are_a_fourth_of_a_sentence(with_names: OtherLanguages) -> None:
    query, snow = Query("", "犬 und snih", language="sk"), with_names.words.index("snow")
    keywords = Rows.of(csr_matrix(np.eye(len(with_names.words), dtype=np.float32)))
    sentence = with_names.encode(query.sentence)
    expected = 3 / 4 * sentence
    expected[snow] += np.linalg.norm(sentence) / 4
    found = with_names.vector(query, keywords)
    others = np.delete(np.arange(len(found)), snow)
    np.testing.assert_allclose(found[others], expected[others], rtol=1e-6)
    assert found[snow] >= expected[snow] > 0  # as typed words rise


def test_a_word_that_is_only_guessed_is_unknown(with_names: OtherLanguages) -> None:
    for text, unknown in {"quark": ["quark"], "kedi": [], "犬": [], "quark senf": []}.items():
        asked = Query(text, text, language="tr")
        assert (text, with_names.unknown(asked)) == (text, unknown)
    assert with_names.known_and_unknown(Query("", "quark", language="tr")) == ([], ["quark"])
