"""Marks, filters, pages and paths on the command line."""

import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from lexlip.models.language_model import how_to_install
from lexlip.models.word_table import TABLE, read_tables
from tests.cli.conftest import ALL, Run, as_json, error, search
from tests.queries.tiny_languages import install, write


def refused(lexlip: Run, *arguments: object) -> str:
    result = lexlip("search", *arguments, code=2)
    assert result.stdout == ""
    return str(result.stderr.splitlines()[-1])


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def test_marks(indexed: Run) -> None:
    marked = search(indexed, "two dogs^2 +beach -quokka")
    assert (marked["query"], marked["without"]) == ("two dogs^2 +beach -quokka", ["quokka"])
    assert search(indexed, "--", "-quokka two dogs")["terms"] == search(indexed, "two dogs")["terms"]
    assert "quokka" in indexed("search", "two dogs -quokka").stderr


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("two dogs^-1", "'dogs^-1' at character 5 of the query needs a number from 0 to 100 after ^"),
        ("dogs +hot-dog", "'+hot-dog' at character 6 of the query is not understood"),
    ],
)
def test_a_wrong_mark_names_its_place(indexed: Run, query: str, says: str) -> None:
    assert says in refused(indexed, query)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-dog"], "No such option '-d'; if '-dog' is of the query, begin"),
        (["-dog snow"], "No such option '-d'; if '-dog snow' is of the query, begin"),
        (["-kitten"], "'itten' is not a valid integer; if '-kitten' is of the query, begin"),
        (["two", "dogs", "-cat"], "No such option '-c'; if '-cat' is of the query, begin"),
        (["dogs", "--nothing"], "No such option '--nothing'."),
        (["dogs", "-k", "many"], "'many' is not a valid integer."),
    ],
)
def test_a_query_that_looks_like_an_option(indexed: Run, arguments: list[str], says: str) -> None:
    said = refused(indexed, *arguments)
    assert says in said
    advice = "begin the query with -- and a word to look for: -- photo -dog"
    assert said.endswith(advice) == ("begin" in says)


def test_a_query_needs_a_word_to_look_for(indexed: Run) -> None:
    for query in ("-dog", "-dog -cat"):
        said = indexed("search", "--", query).stdout.splitlines()[-1]
        advice = 'begin it with a word to look for, as in "photo -dog"'
        assert said == f"the query only leaves words out: {advice}"
    assert "try other words" in indexed("search", "quokka -dog", "--query-encoder", "words").stdout


def test_words_without_quotes_are_one_query(indexed: Run) -> None:
    whole = search(indexed, "two dogs play -cat beach^2", "-k", 3)
    assert whole["without"] == ["cat"]
    for given in (
        ("-k", 3, "--", "two", "dogs", "play", "-cat", "beach^2"),
        ("two", "dogs", "-k", 3, "play", "--", "-cat", "beach^2"),
    ):
        answer = search(indexed, *given)
        assert {**answer, "ms": {}} == {**whole, "ms": {}}
    assert "the query is empty" in refused(indexed, "", " ")
    assert "only one" in refused(indexed, "two", "dogs", "--similar", "3.jpg")


def test_a_negation_is_read_as_a_mark_and_said(indexed: Run) -> None:
    notes = indexed("search", "a boat without dogs").stderr
    assert "note: 'without dogs' is read as -dogs -dog; in double quotes it is text" in notes
    assert "is read as" not in indexed("search", 'a boat "without dogs"').stderr
    assert "only leaves words out" in indexed("search", "no", "dogs").stdout
    assert search(indexed, "no dgos on a boat")["unknown"] == ["dgos"]


def test_a_mistyped_word_gets_the_words_that_were_meant(indexed: Run) -> None:
    answer = search(indexed, "two dgos on a baot")
    assert (answer["unknown"], answer["foreign"]) == (["dgos", "baot"], False)
    assert {word: near[0] for word, near in answer["meant"].items()} == {"dgos": "dogs", "baot": "boat"}
    assert "note: did you mean boat by baot?" in indexed("search", "a", "baot").stderr
    assert search(indexed, "xyzzy")["meant"] == {}


def test_another_language_is_told(indexed: Run) -> None:
    note = "note: this does not look like English, which the model knows: say it in English"
    for sentence in ("ein Vogel fliegt über die Wiese", "два человека", "una casa en la montaña"):
        assert note in indexed("search", sentence).stderr
        assert search(indexed, sentence)["foreign"]
        assert search(indexed, sentence)["meant"] == {}
    assert note not in indexed("search", "two dogs").stderr


def test_pages(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    first = search(lexlip, ALL, "-k", 4)
    second = search(lexlip, ALL, "-k", 4, "--cursor", first["cursor"])
    assert ids(first) + ids(second) == ids(search(lexlip, ALL))
    assert "of another query" in refused(lexlip, "two dogs", "--cursor", first["cursor"])
    lexlip("index", "photos", "--topk", 5)
    assert "have changed since this page: search again" in refused(lexlip, ALL, "--cursor", first["cursor"])


def test_why_no_photo_meets_a_filter(indexed: Run) -> None:
    for option, value, says in (
        ("--folder", "nowhere", "no photo is in the folder nowhere; the index has no folders"),
        ("--after", "2014", "no photo of this index has a date; of 6 only the file has one"),
    ):
        for asked in ((ALL,), ("--similar", "3.jpg")):
            assert indexed("search", *asked, option, value).stdout.splitlines()[-1] == says
    assert "there is no such date" in refused(indexed, ALL, "--after", "2014-13")


def test_photos_that_their_files_date(indexed: Run, library: Path) -> None:
    told = "note: 6 hits dated by the file alone"
    for asked in (("--after", "2014"), ("--before", "2090"), ("--sort", "date")):
        done = indexed("search", ALL, *asked, "--file-dates", "-f", "paths")
        assert told in done.stderr.splitlines()
        assert len(done.stdout.splitlines()) == 6
        assert "of the file" not in indexed("search", ALL, *asked).stderr
    days = sorted(date.fromtimestamp(photo.stat().st_mtime).isoformat() for photo in library.glob("*.jpg"))
    of_files = f"{days[0]} to {days[-1]}, 6 of 6 by the file alone"
    says = f"no photo of this index has such a date; they were taken from {of_files}"
    assert indexed("search", ALL, "--before", "2014", "--file-dates").stdout.splitlines()[-1] == says


def test_a_photo_that_its_name_dates(lexlip: Run, photos: Path) -> None:
    (photos / "3.jpg").rename(photos / "IMG-20190704-WA0003.jpg")
    lexlip("index", "photos")
    found = lexlip(
        "search", ALL, "--after", "2019-07-04", "--file-dates", "--before", "2019-07-04", "-f", "paths"
    )
    assert found.stdout == f"{photos}/IMG-20190704-WA0003.jpg\n"
    assert "note: 1 hit dated by the file alone" in found.stderr.splitlines()


def test_what_is_no_search_for_similar_photos(indexed: Run) -> None:
    assert "no photo with the id 'x.jpg'" in refused(indexed, "--similar", "x.jpg")
    assert "only one" in refused(indexed, "two dogs", "--similar", "3.jpg")
    assert "is for sentences" in refused(indexed, "--similar", "3.jpg", "--query-topk", 3)


def test_paths_for_other_commands(indexed: Run, library: Path) -> None:
    expected = [str(library / id) for id in ids(search(indexed, ALL))]
    assert indexed("search", ALL, "-f", "paths").stdout.splitlines() == expected
    ended = indexed("search", ALL, "-f", "paths", "-0").stdout
    assert ended == "".join(f"{path}\0" for path in expected)
    assert "give -f paths too" in refused(indexed, ALL, "-0")
    assert "not both" in refused(indexed, ALL, "-f", "paths", "--json")


def test_paths_in_a_pipe(lexlip: Run, photos: Path, model_folder: Path) -> None:
    (photos / "a new\nline.jpg").write_bytes((photos / "0.jpg").read_bytes())
    lexlip("index", "photos", "--model", model_folder)
    command = f"{sys.executable} -m lexlip search '{ALL}' -f paths -0 | xargs -0 ls"
    listed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert listed.count("line.jpg") == 1


# ---- other languages ----


@pytest.fixture
def several(indexed: Run, tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line with the package of other languages."""
    write(tmp_path / "languages", model_folder)
    install(monkeypatch, tmp_path / "languages")
    return indexed


def test_a_sentence_in_another_language(several: Run) -> None:
    answer = search(several, "ein Hund im Schnee ohne Katze")
    assert (set(answer["terms"]), answer["language"]) == ({"dog", "snow"}, "und")
    assert (answer["unknown"], answer["foreign"], answer["meant"], answer["install"]) == ([], False, {}, "")
    assert (answer["without"], answer["negations"]) == (["cat"], {"ohne Katze": ["cat"]})
    assert search(several, "dog snow")["language"] == "en"
    marked = search(several, "ein Hund -Katze Schnee^2")
    assert (set(marked["terms"]), marked["without"]) == ({"dog", "snow"}, ["cat"])
    lines = several("search", "Schnee ohne Hund").stderr.splitlines()
    assert "note: 'ohne Hund' is read as -dog -dogs; in double quotes it is text" in lines
    page = search(several, "ein Hund", "-k", "1")
    again = search(several, "ein Hund", "-k", "1", "--cursor", page["cursor"])
    assert [hit["rank"] for hit in again["hits"]] == [2]


@pytest.fixture
def with_table(several: Run, tmp_path: Path) -> Run:
    (tmp_path / TABLE).write_text("en\tde\ndog\tHund\nsnow\tSchnee\ncat\tKatze\n", encoding="utf-8")
    read_tables.cache_clear()
    return several


def test_words_are_shown_in_the_language_of_the_sentence(with_table: Run) -> None:
    answer = search(with_table, "ein Hund im Schnee ohne Katze")
    assert (answer["shown_in"], set(answer["terms"])) == ("de", {"dog", "snow"})
    assert answer["translations"].items() >= {"dog": "Hund", "snow": "Schnee", "cat": "Katze"}.items()
    shown = with_table("search", "ein Hund im Schnee ohne Katze")
    assert "Hund:" in shown.stdout
    assert "dog" not in shown.stdout
    assert "note: 'ohne Katze' is read as -Katze; in double quotes it is text" in shown.stderr.splitlines()
    mistyped = with_table("search", "ein Hund im Schnee mit Huind").stderr.splitlines()
    assert "note: did you mean Hund by Huind?" in mistyped
    english = search(with_table, "dog snow")
    assert (english["shown_in"], english["translations"]) == ("", {})


def test_explained_in_another_language(with_table: Run, model_folder: Path) -> None:
    model = "--model", str(model_folder)
    told = as_json(with_table, "explain", "Hund im Schnee", *model)
    assert (set(told["words"]), set(told["held"]), told["language"]) == (
        {"dog", "snow"},
        {"dog", "snow"},
        "und",
    )
    assert told["translations"] == {"dog": "Hund", "snow": "Schnee"}
    rows = with_table("explain", "Hund im Schnee", *model).stdout.splitlines()[1:]
    assert {row.split()[0] for row in rows} == {"Hund*", "Schnee*"}
    boat = as_json(with_table, "explain", "boot", "--language", "de", *model)
    assert (list(boat["words"]), boat["language"]) == (["boat"], "de")
    first = search(with_table, "Hund")["hits"][0]
    table = as_json(with_table, "explain", "Hund", "--hit", first["id"], "--index", ".lexlip")
    assert table["score"] == pytest.approx(search(with_table, "Hund", "--content-only")["hits"][0]["score"])
    assert table["translations"]["dog"] == "Hund"
    picture = as_json(with_table, "explain", "photos/0.jpg", "--language", "de", *model)
    own = {"dog": "Hund", "snow": "Schnee", "cat": "Katze"}
    assert picture["translations"] == {word: own[word] for word in picture["words"] if word in own}
    says = "words are shown in en, de, and not in 'cs'"
    assert error(with_table("explain", "photos/0.jpg", "--language", "cs", *model, code=2)) == says


def test_a_slip_of_a_foreign_word_in_names_is_forgiven(several: Run, library: Path) -> None:
    shutil.copytree(library, "own")
    Path("own", "0.jpg").rename("own/Bahnhofstraße Jürgen.jpg")
    own = ("--index", "own.lexlip")
    several("index", "own", *own)
    for text, word in {"bahnhofstrase": "name:bahnhofstrasse", "Jürgen mit Hund": "name:jurgen"}.items():
        found = {hit["id"]: hit["words"] for hit in search(several, text, *own)["hits"]}
        assert word in found["Bahnhofstraße Jürgen.jpg"]


def test_a_word_of_two_languages(several: Run) -> None:
    english = search(several, "boot")
    assert (english["language"], english["other_languages"]) == ("en", ["de", "nl"])
    assert "note: 'boot' is said in another language, too: --language de or nl" in (
        several("search", "boot").stderr.splitlines()
    )
    german = search(several, "boot", "--language", "DE")
    assert (german["language"], german["other_languages"]) == ("de", [])
    assert search(several, "boot", "--language", "deu") == {**german, "ms": ANY}
    assert list(german["terms"]) == ["boat"]
    assert search(several, "boot", "--language", "en") == {**english, "ms": ANY}


def test_what_has_no_other_languages(several: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in ("d", "xx", "xx-AT", "en_GB.UTF-8"):
        says = f"'{code}' is not the code of a language, such as de"
        assert says in refused(several, "boot", "--language", code)
    for option in (("--similar", "0.jpg"), ("--image", "photos/0.jpg")):
        assert "--language is for sentences, not for" in refused(several, *option, "--language", "de")
    german = "zwei Hunde spielen im Schnee", "--model", "mini"  # packaged
    assert not search(several, *german[:1], "--language", "en")["foreign"]  # as whoever asks says
    install(monkeypatch, None)
    says = f"Error: this needs lexlip-languages: {how_to_install()}"
    assert refused(several, "boot", "--language", "de") == says
    answer = search(several, *german)
    assert (answer["foreign"], answer["install"]) == (True, how_to_install())
    note = "this does not look like English, which the model knows: say it in English, or "
    assert several("search", *german).stderr.splitlines()[0] == (f"note: {note}{how_to_install()}")


def test_captions_in_another_language(several: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{number}.jpg\tein Hund im Schnee\n" for number in range(3))
    Path("captions.de.tsv").write_text(rows)
    asked = ["evaluate", "captions.de.tsv", "--images", "photos", "--engine", "exact"]
    report = as_json(several, *asked, "--language", "de", "--pool", "photos")
    assert (report["images"], report["captions"], report["words@10"]) == (6, 3, None)
    assert as_json(several, *asked, "--language", "en") == as_json(several, *asked)
    says = "--query-encoder words knows English only: leave it or --language out"
    assert error(several(*asked, "--language", "de", "--query-encoder", "words", code=2)) == says
    says = "--language es: bm25 knows en, de, fr, cs"
    assert error(several(*asked[:-2], "--model", "bm25", "--language", "es", code=2)) == says
    says = "--language is for one first stage, not for --also: leave it out"
    assert error(several(*asked, "--language", "de", "--also", "mini", code=2)) == says
    install(monkeypatch, None)
    says = f"this needs lexlip-languages: {how_to_install()}"
    assert error(several(*asked, "--language", "de", code=2)) == says
