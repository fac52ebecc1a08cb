import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_corpus import literal
from skips import needs_anserini, needs_limits

from anserini_bridge import BadVectors, BridgeError, CorruptIndex, IndexNotFound
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index

pytestmark = needs_anserini

TEXTS = {
    "a.jpg": "Two dogs are playing in the snow",
    "b.jpg": "A brown dog jumps over a fence",
    "c.jpg": "The snow, the snow!",
    "ü 😀.jpg": "a zebra",
    "e.jpg": "It is the",
}
WORDS = {  # by hand: Porter stems, without stop words
    "a.jpg": ["two", "dog", "plai", "snow"],
    "b.jpg": ["brown", "dog", "jump", "over", "fenc"],
    "c.jpg": ["snow", "snow"],
    "ü 😀.jpg": ["zebra"],
    "e.jpg": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_bm25_index(tmp_path / "ö", list(TEXTS), list(TEXTS.values()))
    return tmp_path / "ö"


def bm25(query: list[str], id: str, k1: float = 0.9, b: float = 0.4) -> float:
    """Lucene's formula; Lucene rounds the lengths of long documents, not of short ones like these."""
    holding = [words for words in WORDS.values() if words]
    mean = sum(map(len, holding)) / len(holding)
    counts, score = Counter(WORDS[id]), 0.0
    for word in query:
        documents = sum(word in words for words in WORDS.values())
        idf = math.log(1 + (len(holding) - documents + 0.5) / (documents + 0.5))
        norm = k1 * (1 - b + b * len(WORDS[id]) / mean)
        score += idf * counts[word] / (counts[word] + norm)
    return score


def test_what_each_word_added_to_a_score(folder: Path) -> None:
    query = "Dogs, in the SNOW! snow a dog: a dog zebras"
    with Bm25Searcher(folder) as searcher:
        (ids,), (scores,) = searcher.search([query])
        found = searcher.contributions(query, ids)
        assert searcher.contributions(query, []) == []
    assert set(ids) == {"a.jpg", "b.jpg", "c.jpg", "ü 😀.jpg"}
    words = dict(zip(ids, map(set, found), strict=True))
    assert words["a.jpg"] == {"Dogs", "SNOW", "snow", "dog"}
    assert (words["c.jpg"], words["ü 😀.jpg"]) == ({"SNOW", "snow"}, {"zebras"})
    for shares, score in zip(found, scores, strict=True):
        assert sum(shares.values()) == pytest.approx(score, abs=1e-3)  # Anserini rounds scores
        assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_scores_are_those_of_the_formula(folder: Path) -> None:
    with Bm25Searcher(folder) as searcher:
        assert len(searcher) == 5
        ids, scores = searcher.search(["Dogs in the snow", "zebras 😀", "the"], k=10)
    expected = {id: bm25(["dog", "snow"], id) for id in TEXTS}
    best = sorted((id for id in TEXTS if expected[id]), key=lambda id: -expected[id])
    assert ids == [best, ["ü 😀.jpg"], []]
    np.testing.assert_allclose(scores[0], [expected[id] for id in best], rtol=1e-3)
    np.testing.assert_allclose(scores[1], [bm25(["zebra"], "ü 😀.jpg")], rtol=1e-3)
    assert scores[2].tolist() == []


def test_parameters(folder: Path) -> None:
    with Bm25Searcher(folder, k1=0, b=0) as searcher:
        ids, scores = searcher.search(["snow"])
    assert ids == [["a.jpg", "c.jpg"]]  # how often a word occurs does not count; in the order of ids
    np.testing.assert_allclose(*scores[0], rtol=1e-3)


def test_no_more_than_k_and_any_number_of_threads(folder: Path) -> None:
    queries = ["dog", "snow"] * 600
    with Bm25Searcher(folder) as searcher:
        one, two = searcher.search(queries, k=1), searcher.search(queries, k=1, threads=2)
        assert searcher.search([]) == ([], [])
        assert searcher.seconds(queries) > 0
    assert one[0] == two[0] == [["a.jpg"], ["c.jpg"]] * 600


def test_a_query_is_text_and_no_formula(folder: Path) -> None:
    with Bm25Searcher(folder) as searcher:
        assert searcher.search(['dog AND (snow* -the "'])[0][0][0] == "a.jpg"
        assert searcher.search(["", " ", "!?", "id:a.jpg"])[0] == [[], [], [], []]


def test_a_query_of_any_length_and_its_batch(folder: Path) -> None:
    """Lucene's own limit is 1,024 words."""
    long = " ".join(["dog", "snow", *(f"word{number}" for number in range(3000))])
    with Bm25Searcher(folder) as searcher:
        ids, scores = searcher.search(["zebra", long, "snow dog", "zebra \ud83d"])
        assert list(searcher.contributions(long, ["a.jpg"])[0]) == ["dog", "snow"]
    assert (ids[0], ids[1], ids[3]) == (["ü 😀.jpg"], ids[2], ["ü 😀.jpg"])
    np.testing.assert_array_equal(scores[1], scores[2])


def test_a_batch_that_fails_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anserini_bridge.bm25._MOST_CLAUSES", 2)
    with (
        Bm25Searcher(folder) as searcher,
        pytest.raises(BridgeError, match=r"\(IndexSearcher\$TooManyClauses: maxClauseCount is set to 2\)"),
    ):
        searcher.search(["dog", "dog snow zebra"])


def test_postings_count_the_distinct_words_of_a_document(folder: Path) -> None:
    with Bm25Searcher(folder) as searcher:
        assert searcher.postings == sum(len(set(words)) for words in WORDS.values())


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def test_an_index_of_ids_alone(tmp_path: Path, folder: Path) -> None:
    write_bm25_index(tmp_path / "ids", list(TEXTS), None)
    with Bm25Searcher(tmp_path / "ids") as searcher:
        assert (len(searcher), searcher.postings) == (5, 0)
    assert size(tmp_path / "ids") < size(folder)


def test_many_batches_in_one_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anserini_bridge.bm25._BATCH", 7)
    numbers = [f"word{number}" for number in range(50)]
    write_bm25_index(tmp_path / "many", numbers, numbers)
    with Bm25Searcher(tmp_path / "many") as searcher:
        assert searcher.search(["word49 word3"])[0] == [["word3", "word49"]]
    assert len(list((tmp_path / "many").glob("*.si"))) == 1


def test_what_cannot_be_indexed(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(BadVectors, match=r"^there are 2 ids for 1 texts: give one id per text$"):
        write_bm25_index(tmp_path / "new", ["a", "b"], ["dog"])
    with pytest.raises(BadVectors, match=r"^the text of 'b' is blank: leave the document out$"):
        write_bm25_index(tmp_path / "new", ["a", "b"], ["dog", " \n"])
    with pytest.raises(IndexNotFound, match=r"holds other files: give a new or an empty folder$"):
        write_bm25_index(folder, ["a"], ["dog"])
    assert not (tmp_path / "new").exists()


def test_nothing_is_left_of_an_index_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("anserini_bridge.bm25.json.dumps", fail)
    with pytest.raises(KeyboardInterrupt):
        write_bm25_index(tmp_path / "new", ["a"], ["dog"])
    assert not (tmp_path / "new").exists()


_FULL_DISK = """
import resource, sys
from anserini_bridge import BridgeError
from anserini_bridge.bm25 import write_bm25_index
texts = [f"dog {number}" for number in range(5000)]
write_bm25_index(sys.argv[1] + "/before", ["a"], ["dog"])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, most))  # as a full disk
try:
    write_bm25_index(sys.argv[1] + "/new", texts, texts)
except BridgeError as error:
    print(error, end="")
"""


@needs_limits
def test_a_full_disk_is_no_success(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """Anserini writes the texts when it closes, and only logs an error there."""
    done = run_python(_FULL_DISK, tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1]  # after what Anserini logged
    assert told.startswith(f"the texts at {tmp_path / 'new'} are incomplete (")
    assert told.endswith("): is the disk full?")
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_searched(tmp_path: Path, folder: Path) -> None:
    message = f"^there is no folder {literal(tmp_path / 'nowhere')}: write a BM25 index there first$"
    with pytest.raises(IndexNotFound, match=message):
        Bm25Searcher(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorruptIndex):
        Bm25Searcher(tmp_path / "empty")


def test_anserinis_log_does_not_reach_the_screen(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    code = """
import sys
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
write_bm25_index(sys.argv[1], ["a"], ["dog"])
with Bm25Searcher(sys.argv[1]) as searcher:
    print(searcher.search(["dog"])[0])
"""
    done = run_python(code, tmp_path / "quiet")
    assert (done.stdout, done.stderr) == ("[['a']]\n", "")


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("en", "Two dogs are playing in the snow", "a dog that plays"),
        ("de", "Zwei Hunde mit den Bällen in der Stadt", "ein Hund und die Städte"),
        ("fr", "Un chien saute dans l'eau", "les chiens et de l'eau"),
        ("cs", "Dva muži jsou na sněhu", "muž ve sněhu"),
    ],
)
def test_languages_have_stop_words_and_stems_of_their_own(
    tmp_path: Path, language: str, text: str, query: str
) -> None:
    stop = {"en": "in the", "de": "und mit der", "fr": "dans les", "cs": "jsou na"}
    write_bm25_index(tmp_path / "one", ["a", "b"], [text, "zebra"], language)
    with Bm25Searcher(tmp_path / "one", language=language) as searcher:
        ids, _ = searcher.search([query, stop[language]])
    assert ids == [["a"], []]


def test_a_language_without_analyzer(tmp_path: Path) -> None:
    message = "^there is no analyzer for the language 'xx': give one of en, de, fr, cs$"
    with pytest.raises(BridgeError, match=message):
        write_bm25_index(tmp_path / "new", ["a"], ["dog"], "xx")
    with pytest.raises(BridgeError, match=message):
        Bm25Searcher(tmp_path, language="xx")
    assert not (tmp_path / "new").exists()


def test_threads_search_their_own_indexes(folder: Path, tmp_path: Path) -> None:
    write_bm25_index(tmp_path / "other", ["other.jpg"], ["a zebra in the snow"])
    searchers = {"ü 😀.jpg": Bm25Searcher(folder), "other.jpg": Bm25Searcher(tmp_path / "other")}

    def search(expected: str) -> None:
        for _ in range(200):
            assert searchers[expected].search(["zebra"])[0] == [[expected]]

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(search, expected) for expected in [*searchers, *searchers]]:
            one.result()
