"""What `lexlip search` prints, beside what it says in JSON."""

from pathlib import Path

import pytest

from lexlip.retrieval.answer import Ends
from tests.cli.conftest import ALL, Run, search


def test_text(indexed: Run, library: Path) -> None:
    answer = search(indexed, ALL, "-k", 3)
    result = indexed("search", ALL, "-k", 3)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("query words: " + f"{next(iter(answer['terms']))}:")
    assert lines[0].endswith(f" … {len(answer['terms']) - 10} more")
    for number, hit in enumerate(answer["hits"]):
        assert lines[1 + 2 * number] == f"{hit['rank']:3d}  {hit['score']:.3f}  {hit['path']}"
        word, weight = next(iter(hit["words"].items()))
        assert lines[2 + 2 * number].startswith(f"            {word}:{weight:.3f}")
    assert len(lines) == 7
    assert result.stderr.startswith("encode ")


def test_unknown_words_are_named(indexed: Run) -> None:
    result = indexed("search", "the Quokka and a dog of Zürich")
    assert result.stderr.splitlines()[0] == (
        "note: not in the vocabulary: Quokka, Zürich; hits fit the other words, or what the model guesses"
    )
    assert "note" not in indexed("search", "A dog, with the cat!").stderr
    none = "photo shares a word with the query; try other words"
    alone = ("quokka", "--query-encoder", "words")
    result = indexed("search", *alone)
    assert result.stdout == f"query words: none\nno {none}\n"
    assert result.stderr.splitlines()[0] == "note: not in the vocabulary: quokka"
    filtered = indexed("search", *alone, "--caption", "dogs").stdout.splitlines()
    says = "no photo that fits the filters shares a word with the query; try other words, or fewer filters"
    assert filtered[1:] == [says]


def test_the_end_of_a_long_sentence_is_not_read(indexed: Run) -> None:
    long = ALL + " and" * 40 + " a red bike"
    result = indexed("search", long)
    (note,) = [line for line in result.stderr.splitlines() if line.startswith("note: too long")]
    assert note.startswith("note: too long for the model, which did not read the end: and and ")
    answer = search(indexed, long)
    assert note.endswith(f": {answer['unread']}")
    (note,) = [line for line in indexed("search", long * 9).stderr.splitlines() if "too long" in line]
    assert (note[-2:], len(note) < 200) == (" …", True)
    assert answer["unread"].endswith("and a red bike")
    shorter = search(indexed, long.removesuffix(answer["unread"]))
    assert shorter["unread"] == ""
    assert shorter["terms"] == answer["terms"]
    assert "too long" not in indexed("search", ALL).stderr


def test_json_holds_all_that_the_text_says(indexed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the list, with the words of what comes behind it."""
    from lexlip.search.stages.impact import ImpactStage

    monkeypatch.setattr(
        ImpactStage, "ends", lambda self, query, encoded, ids, scores, allowed: Ends(None, scores[2])
    )
    answer, text = search(indexed, ALL), indexed("search", ALL).stdout
    words = ", ".join(f"'{word}'" for word in answer["below"])
    assert answer["below"]
    assert f"---  from here on, photos share only {words} and the like" in text
    lines = [line.split()[0] for line in text.splitlines() if not line.startswith(" " * 12)]
    assert lines.index("---") - 1 == answer["above"] == 3
