import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, vstack

from lexlip.errors import MissingPackage, ModelError
from lexlip.measure.pool import as_queries
from lexlip.models.contract import QueryEncoder
from lexlip.models.language_model import how_to_install
from lexlip.models.lexlip import LexLIP
from lexlip.models.word_table import TABLE, read_tables
from lexlip.queries.query_language import Query, parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk
from lexlip.words.vocabulary import is_content_word
from tests.queries.saved_models import SENTENCES, saved
from tests.queries.tiny_languages import install, write
from tests.tiny import tiny_dense, tiny_model


@cache
def of_mini(encoder: QueryEncoder = "network") -> TextQueries:
    return TextQueries("mini", encoder)


def test_known_and_unknown_words(model_folder: Path) -> None:
    queries = TextQueries(model_folder)
    assert queries.unknown("the Quokka and a dog of Zürich") == ["Quokka", "Zürich"]
    assert queries.known("the Quokka and a Dog, a dog of Zürich, a cat") == ["dog", "cat"]
    assert queries.known("the of") == []
    assert of_mini().known("a giraffe eats") == ["giraffe", "eats"]  # of several pieces
    assert of_mini().unknown("a giraffe eats an okapi") == ["okapi"]


def test_only_a_word_of_the_vocabulary_has_a_column() -> None:
    queries = of_mini()
    assert queries.vocabulary.words[queries.column("dog")] == "dog"
    assert queries.column("treaty") is None  # one token, which is not in the vocabulary
    assert queries.vocabulary.words[queries.column("giraffe")] == "giraffe"  # several
    assert queries.column("okapi") is None
    assert queries.column("") is None


@pytest.mark.parametrize("encoder", ["network", "words"])
def test_neither_torch_nor_transformers_is_loaded(run_python, model_folder: Path, encoder: str) -> None:
    code = (
        "import sys; from lexlip.queries.text_queries import TextQueries;"
        f"TextQueries({str(model_folder)!r}, '{encoder}').encode('a dog');"
        "print([name for name in ('torch', 'torchvision', 'transformers', 'timm') if name in sys.modules])"
    )
    result = run_python("-c", code)
    assert (result.stdout, result.stderr) == ("[]\n", "")


@pytest.fixture
def model(model_folder: Path, tmp_path: Path) -> Path:
    """A model that may be damaged."""
    return Path(copytree(model_folder, tmp_path / "model"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), r"is damaged: .*No such file"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\0" * 100), "is damaged"),
        (lambda f: (f / "vocabulary.txt").unlink(), r"is damaged: .*vocabulary\.txt"),
        (lambda f: (f / "vocabulary.txt").write_text("zebra\n"), "'zebra' of the vocabulary cannot be made"),
        (lambda f: (f / "vocabulary.txt").write_text("dog\n"), "is damaged: .*1 words"),
        (lambda f: (f / "config.json").write_text("{}"), "is damaged: .*format"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), r"cannot read .*tokenizer\.json"),
        (lambda f: (f / "tokenizer.json").unlink(), r"cannot read .*tokenizer\.json"),
        (lambda f: (f / "tokenizer_config.json").unlink(), "is damaged: .*No such file"),
        (lambda f: (f / "keywords.safetensors").write_bytes(b"\0" * 9), r"is damaged: keywords\.safetensors"),
    ],
)
@pytest.mark.parametrize("encoder", ["network", "words"])
def test_damaged_folders(model: Path, damage, message: str, encoder) -> None:
    damage(model)
    with pytest.raises(ModelError, match=message) as caught:
        TextQueries(model, encoder)
    assert "\n" not in str(caught.value)


def test_weights_that_are_missing(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config["text_architecture"]["num_hidden_layers"] = 2
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"is damaged: .*layer\.1"):
        TextQueries(model)


def test_models_without_words(tmp_path: Path) -> None:
    tiny_dense().save(tmp_path)
    with pytest.raises(ModelError, match="holds a dense model, not a lexlip one"):
        TextQueries(tmp_path)


# ---- what is typed stays ----

CUTS = (24, None)
ENCODERS: tuple[QueryEncoder, ...] = ("network", "words")


@pytest.fixture(scope="module")
def mini() -> LexLIP:
    return LexLIP.from_pretrained("mini")


def drawn(words: Sequence[str], number: int, each: int, form: str = "") -> list[str]:
    rng = np.random.default_rng(each)
    texts = [rng.choice(words, each, replace=False) for _ in range(number)]
    return [form.format(*text) if form else " ".join(text) for text in texts]


def places(queries: csr_matrix, words: Sequence[str], texts: list[str]) -> list[int]:
    """The place of each text's lightest word among those of its query, last among ties; 0: it is gone."""
    column_of, found = {word: column for column, word in enumerate(words)}, []
    for text, row in zip(texts, quantize(queries), strict=True):
        weights = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        least = min(weights.get(column_of[word], 0) for word in text.split() if word in column_of)
        found.append(sum(weight >= least for weight in weights.values()) if least else 0)
    return found


@pytest.mark.parametrize("encoder", ENCODERS)
def test_each_word_alone_is_among_its_three_heaviest(mini: LexLIP, encoder: QueryEncoder) -> None:
    words = list(mini.vocabulary.words)
    assert all(map(is_content_word, words))
    queries = as_queries(mini, words, mini.encode_text(words, encoder), 24)
    assert set(places(queries, words, words)) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("form", "number", "last"),
    [
        ("{} {}", 2, 3),
        ("a {} with the {}", 2, 3),
        ("{}, {}!", 2, 3),
        ("{} {} {}", 3, None),
        ("there is a {} on the {} near my {}", 3, None),
        (" ".join(["{}"] * 24), 24, None),
        ("the " + " and the ".join(["{}"] * 9), 9, None),
    ],
)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_words_that_are_typed_together_stay(
    encoder: QueryEncoder, form: str, number: int, last: int | None
) -> None:
    queries = of_mini(encoder)
    words = queries.vocabulary.words
    for most in CUTS:
        texts = drawn(words, 8, number, form)
        rows = vstack([queries.encode_query(parse_query(text), most) for text in texts], format="csr")
        own = [re.sub(r"[^a-z0-9 ]", "", text) for text in texts]
        assert all(0 < place <= (last or len(words)) for place in places(rows, words, own))


def test_a_query_keeps_no_more_words_than_it_may() -> None:
    queries = of_mini()
    whole = queries.encode_query(parse_query("two dogs run on the beach"))
    for most in (1, 2, 5):
        kept = queries.encode_query(parse_query("two dogs run on the beach"), most)
        assert (kept != topk(whole, most)).nnz == 0
    assert queries.encode_query(parse_query(" ".join(drawn(queries.vocabulary.words, 30, 1))), 24).nnz == 24


def test_long_words_and_unknown_ones() -> None:
    """Words of several pieces, and words beside others that the model does not know."""
    queries = of_mini()
    words = queries.vocabulary.words
    split = [words[column] for column in queries.vocabulary.split]
    texts = [*split[:40], *drawn(split, 40, 2), *(f"{word} okapi" for word in split[:40])]
    rows = vstack([queries.encode_query(parse_query(text), 24) for text in texts], format="csr")
    assert set(places(rows, words, texts)) <= {1, 2, 3}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_word_that_is_weighed_once_changes_nothing(encoder: QueryEncoder) -> None:
    queries = of_mini(encoder)
    for text in [*drawn(queries.vocabulary.words, 20, 1), "two dogs in the snow"]:
        first, *rest = text.split()
        marked = queries.encode_query(parse_query(" ".join([f"{first}^1", *rest])), 24)
        plain = queries.encode_query(parse_query(text), 24)
        np.testing.assert_array_equal(marked.toarray(), plain.toarray())


def test_a_model_without_queries_of_words(model_folder: Path) -> None:
    """An older one: a word alone is a sentence, and stays among the three heaviest."""
    queries = TextQueries(model_folder)
    assert queries.keywords is None
    words = queries.vocabulary.words
    texts = [*words, *drawn(words, 20, 2)]
    rows = vstack([queries.encode_query(parse_query(text)) for text in texts], format="csr")
    assert set(places(rows, words, texts)) <= {1, 2, 3}
    sentence = queries.encode("dog").toarray()[0]
    dog = np.array(words) == "dog"
    np.testing.assert_array_equal(queries.encode_query(parse_query("dog")).toarray()[0][~dog], sentence[~dog])


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("companions", [0, 3])
def test_words_vectors_are_those_of_the_model(tmp_path: Path, companions: int, small: bool) -> None:
    model = tiny_model(companions=companions)
    size = len(model.vocabulary)
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(size, (size, 3), generator=generator) if companions else None
    model.bag_of_words.set_weights(torch.linspace(0.1, 3, size), columns)
    if companions:
        model.bag_of_words.values.data = torch.randn(size, 3, generator=generator)
    model.save(tmp_path, small)
    model = LexLIP.from_pretrained(tmp_path)
    queries = TextQueries(tmp_path, "words")
    found = np.concatenate([queries.encode(sentence).toarray() for sentence in SENTENCES])
    np.testing.assert_allclose(found, model.encode_text(SENTENCES, "words").toarray(), rtol=1e-5)


# ---- other languages ----


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TextQueries:
    """A model for which the package of other languages is installed."""
    saved(tmp_path / "model")
    write(tmp_path / "languages", tmp_path / "model")
    install(monkeypatch, tmp_path / "languages")
    return TextQueries(tmp_path / "model")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("a dog in the snow", "en"),
        ("dog", "en"),
        ("a zebra and a quokka", "en"),  # neither is known, and neither is foreign
        ("zebra", "en"),
        ("Hund", "und"),
        ("3 Hund", "und"),
        ("3", "en"),
        ("Hund Schnee", "und"),
        ("Hund zebra", "und"),
        ("Hund dog", "en"),  # a word is known
        ("-Hund", "und"),
        ("ein Hund im Schnee", "und"),
        ("un perro en la nieve", "und"),
        ("犬", "und"),
        ("كلب", "und"),
        ("Boot", "en"),  # is English, too
        ("neige", "und"),  # no list has it, and the encoder is sure
        ("the neige", "en"),
        ("neige dog", "en"),
        ("snov neige", "en"),  # a slip
        ("", "en"),
        ("?!", "en"),
    ],
)
def test_which_sentences_are_not_english(several: TextQueries, text: str, language: str) -> None:
    assert several.language_of(parse_query(text)) == language
    assert several.read(parse_query(text)).language == language
    assert several.read(parse_query(text, language="fr")).language == "fr"


def test_words_of_another_language_beside_english_ones(several: TextQueries, tmp_path: Path) -> None:
    (tmp_path / TABLE).write_text("en\tde\tfr\ndog\tHund\tchien\nsnow\tSchnee\tneige\n", encoding="utf-8")
    read_tables.cache_clear()
    for text, said in {
        "Hund dog": "dog dog",
        "Hund Hunde dog": "dog Hunde dog",  # the encoder is not sure of Hunde
        "chien dog": "dog dog",
        "Chien dog": "Chien dog",  # with a capital it is a name, as French has nouns without
        "perro dog": "perro dog",  # no table has it
        "cat, Hund": "cat, dog",
        "Hund zebra": "Hund zebra",  # none is English
        "a dog and a cat in the snow Hund": "a dog and a cat in the snow Hund",  # a long one
        "dog quokka": "dog quokka",
        "dog chat": "dog chat",  # is English, too
    }.items():
        assert several.in_english(text) == said
        query = several.read(parse_query(text, language="en"))
        assert several.known_and_unknown(query) == (several.known(said), several.unknown(said))
        np.testing.assert_array_equal(several.vector(query), several.vector(Query(said, said, language="en")))


def test_marks_and_negations_with_words_of_another_language(several: TextQueries, tmp_path: Path) -> None:
    (tmp_path / TABLE).write_text("en\tde\ndog\tHund\nsnow\tSchnee\n", encoding="utf-8")
    read_tables.cache_clear()
    for text, without in {
        "cat -Hund": ("dog", "dogs"),
        "cat -xyz": ("xyz",),
        "a cat without Hund": ("dog", "dogs"),
        "cat -dog": ("dog",),
    }.items():
        assert several.read(parse_query(text, language="en")).without == without
    query = several.read(parse_query("cat Hund^2 +Schnee", language="en"))
    assert (query.factors, query.added, several.unknown(query)) == ({"dog": 2.0}, {"snow": 1.0}, [])


def test_a_word_of_another_language_is_no_slip(several: TextQueries, tmp_path: Path) -> None:
    (tmp_path / TABLE).write_text("en\tde\ndogs\tHunde\nlaughing\tlachen\n", encoding="utf-8")
    read_tables.cache_clear()
    german, english = (Query("", "", language=code) for code in ("de", "en"))
    words = ("lacht", "Boot", "Hnud")
    assert [several.is_foreign_word(word, german) for word in words] == [True, True, False]
    assert [several.is_foreign_word(word, english) for word in words] == [True, False, False]


def test_english_stays_as_it_is(several: TextQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    alone = TextQueries(several.folder)
    for text in [*SENTENCES[:-1], "dog -snow +cat", "no dog in the snow", "boat^2 dog"]:
        ours, expected = several.read(parse_query(text)), alone.read(parse_query(text))
        assert ours == expected
        np.testing.assert_array_equal(several.vector(ours, 24), alone.vector(expected, 24))
        assert several.known_and_unknown(ours) == (alone.known(ours.plain), alone.unknown(ours.plain))


def test_a_foreign_sentence_is_encoded_by_the_other_encoder(several: TextQueries) -> None:
    query = several.read(parse_query("ein Hund im Schnee ohne Katze +Boot"))
    assert (query.sentence, query.without, query.added) == ("ein Hund im Schnee", ("cat",), {"boat": 1.0})
    vector = several.vector(query)
    words = {several.vocabulary.words[column] for column in np.flatnonzero(vector)}
    assert words == {"dog", "snow", "boat"}
    assert (several.unknown(query), several.unread(query)) == ([], "")
    known, unknown = several.known_and_unknown(query)
    assert (set(known), unknown) == ({"dog", "snow", "boat"}, [])
    long = several.read(parse_query("ein Hund " * 30))
    assert several.unread(long) == "ein Hund " * 10 + "ein Hund"  # of 40 tokens two are special


PACKAGE = Path(__file__).parents[2] / "languages/lexlip_languages/model"


ENGLISH_PHRASES = (
    *(
        "en route",
        "grand prix",
        "petits fours",
        "tapas bar",
        "a la carte",
        "bon appetit sign",
        "déjà vu café",
    ),
    *(
        "hot dog al pastor",
        "crème brûlée",
        "haute couture runway",
        "art nouveau door",
        "vis-à-vis",
    ),
    *(
        "Los Angeles",
        "San Francisco bridge",
        "Rio de Janeiro beach",
        "Côte d'Azur",
        "Notre Dame",
        "film noirs",
    ),
    *("Vincent van Gogh", "chili con carne", "cre\u0300me bru\u0302le\u0301e", "fencing, en garde!"),
)


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="lexlip-languages is not in this folder, but in a clone")
def test_words_that_are_english_too(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PACKAGE)
    queries = TextQueries("mini")
    for text, shown in {
        **{"chat noir": "fr", "le chat": "fr", "der Hut": "de", "rotes Auto": "de", "gato negro": "es"},
        **{"Vögel": "de", "Fußballspieler": "de", "Madchen": "de", "velo rouge": "fr", "puesta de sol": "es"},
        **{"une pizza sur la table": "fr", "kein Elefant": "de"},
        **{"3 Hunde": "de", "Vo\u0308gel": "de", "nin\u0303a": "es", "Ｈｕｎｄ": "de", "oeuf": "fr"},
        **{"Fussballspieler": "de", "Hund\u00adeleine": "de"},
        **{"un chat à la carte": "fr", "petit déjeuner": "fr", "la fontaine": "fr"},
        **{"deux pom-pom girls sont assises": "fr", "el perro de San Francisco": "es"},
        **{"el niño": "es", "jeune fille": "fr", "das Boot": "de", "un film noir": "fr"},
        **{"film -noir": "fr", "grand -prix": "fr", "Katze -dog": "de", "grand prix -dog": ""},
        **{"Mann hat keinen Hut": "de", "mesa sin comida": "es", "coche sin conductor": "es"},
        **{"Sin City": "", "a city of sin": "", "no hay perro": "es", "no hay": "", "jest": ""},
        **{"Kind lacht": "de", "Kind isst Banane": "de", "schoener Strand": "de", "voiture blanche": "fr"},
        **{"il n'y a pas de chat": "fr", "il y a un chat": "fr", "Schloß": "de", "lachende Frau": "de"},
        **{
            "spielende Kinder": "de",
            "dos perros": "es",
            "una dog": "",
            "les collars": "",
            "Jen eating pizza": "",
            "due date": "",
            "Ella Fitzgerald": "",
            "Lake Como 2019": "",
            "West Linn and Anna": "",
        },
        **{"Mann": "de", "Wald": "de", "rot": "", "Thomas Mann": "", "Marco": ""},  # English as names
        **{
            "chat": "",
            "punk rock": "",
            "jazz festival": "",
            "table": "",
            "film": "",
            "the chat": "",
            **dict.fromkeys(ENGLISH_PHRASES, ""),
        },
    }.items():
        query = queries.read(parse_query(text))
        assert (text, query.language, queries.shown_in(query)) == (text, "und" if shown else "en", shown)
    cap = queries.read(parse_query("Muetze"))
    assert {queries.vocabulary.words[column] for column in queries.held(cap)} == {"cap"}
    assert queries.vocabulary.words[int(np.argmax(queries.vector(cap, 24)))] in ("cap", "hat")


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="lexlip-languages is not in this folder, but in a clone")
def test_words_that_no_list_has(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PACKAGE)
    queries = TextQueries("mini")
    foreign = (
        "strand zonder mensen",
        "senza cane",
        "nessun cane",
        "gün batımı",
        "dziewczyna",
        "een man eet pizza",
        "Jan met zijn hond",
        "mulher bebendo café",
        "kobieta pije kawę",
        "koty",
        "gatti",
        "katter",
        "strand uten folk",
        "straat zonder auto's",
        "Dziewczyna na plaży",
        "bejzbol",
        "GÜN BATIMI",
        "flicka äter glass",
        "arabasız sokak",
    )
    for text in (
        "rua sem carros",
        "rua sem carros e bicicletas",
        "nie ma kota",
    ):  # neither Spanish nor French
        assert queries.shown_in(queries.read(parse_query(text))) == ""
    rare = ("kombucha", "Kowalski", "cosplay", "floristry", "hydrazide", "the bejzbol", "bejzbol dog")
    slips = ("buterfly", "bycicle", "girrl", "snowboardign", "13th", "qwxyzk", "Whiteowl2", "sady")
    names = ("Malmö bus", "Łódź street", "Björn on a bike", "garçon with tray", "gyōza", "jalapeño pizza")
    loans = ("müsli bowl", "façade", "phở soup", "tiramisù", "maría beach", "björn riding")
    for text in foreign:
        assert (text, queries.read(parse_query(text)).language) == (text, "und")
    files = ("IMG_1234", "img-1234")
    for text in (*rare, *slips, *names, *loans, *files):
        assert (text, queries.read(parse_query(text)).language) == (text, "en")


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="lexlip-languages is not in this folder, but in a clone")
def test_names_of_some_words_of_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PACKAGE)
    queries = TextQueries("mini")
    for text, language, english in (
        ("빨간 우산을 쓴 여자", "ko", ["umbrella", "woman"]),
        ("빨간 우산을 쓴 여자", "und", ["umbrella", "woman"]),
        ("собаку на снегу", "ru", ["dog", "snow"]),
        ("karda koşan köpek", "und", ["dog"]),
        ("menina com guarda-chuva vermelho", "und", ["girl"]),
        ("pes běží po pláži", "cs", []),  # of which the encoder knows more
    ):
        query = Query(text, text, language=language)
        assert (text, [queries.vocabulary.words[one] for one in queries.held(query)]) == (text, english)


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="lexlip-languages is not in this folder, but in a clone")
def test_an_english_phrase_is_not_said_to_be_another_language(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PACKAGE)
    queries = TextQueries("mini")
    for text in ("gambling den", "take over", "au revoir", "two dogs in snow"):
        assert queries.other_languages(queries.read(parse_query(text))) == ()
    assert queries.other_languages(queries.read(parse_query("grand prix"))) == ("fr",)


def test_english_words_need_no_list_of_other_languages(
    several: TextQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the list was read")

    monkeypatch.setattr("lexlip.queries.text_queries.english_phrase", read)
    monkeypatch.setattr("lexlip.queries.text_queries.elsewhere", read)
    query = several.read(parse_query("a dog in the snow"))
    assert (query.language, several.other_languages(query)) == ("en", ())
    monkeypatch.setattr("lexlip.queries.text_queries.word_tables", read)
    assert several.in_english("snow 2019") == "snow 2019"


def test_a_word_or_phrase_of_two_languages(several: TextQueries) -> None:
    assert several.other_languages(several.read(parse_query("Boot"))) == ("de", "nl")
    assert several.other_languages(several.read(parse_query("Chat noir"))) == ("fr",)
    for text in ("dog", "a boot", "Hund", "boot dog"):
        assert several.other_languages(several.read(parse_query(text))) == ()
    german = several.read(parse_query("Boot", language="de"))
    assert several.other_languages(german) == ()
    assert several.vocabulary.words[int(np.argmax(several.vector(german)))] == "boat"


def test_without_other_languages(several: TextQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    german = Query("Hund", "Hund", language="de")
    words = TextQueries(several.folder, "words")
    assert words.language_of(german) == "en"
    with pytest.raises(ModelError, match="need the network: leave out --query-encoder words"):
        words.vector(german)
    install(monkeypatch, None)
    alone = TextQueries(several.folder)
    assert (alone.language_of(german), alone.other_languages(Query("boot", "boot"))) == ("en", ())
    assert alone.lacks_languages() == ""  # it is for packaged models
    with pytest.raises(MissingPackage, match=f"needs lexlip-languages: {re.escape(how_to_install())}"):
        alone.vector(german)
    mini = TextQueries("mini")
    assert mini.lacks_languages() == how_to_install()
    install(monkeypatch, several.folder.with_name("languages"))
    other = TextQueries("mini")  # it is installed, and for another model
    assert (other.language_of(german), other.lacks_languages()) == ("en", "")
    with pytest.raises(ModelError, match="lexlip-languages knows other languages for"):
        other.vector(german)
