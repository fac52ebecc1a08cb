"""Weights and facts as documents, and back."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge.sparse_rows import Rows
from lexlip.data import Unreadable, open_source
from lexlip.data.facts import Facts
from lexlip.other_engines.engine_contract import Made
from lexlip.retrieval.given_words import TAKEN
from lexlip.search_servers.photo_documents import (
    About,
    TextFacts,
    documents,
    facts_of,
    metadata_of,
    photo_of,
    rows_of,
    vector,
    with_facts,
)
from tests.conftest import write_photos

MADE = Made("tiny@1", "unit", ())
TEXT = TextFacts(
    text=[["Exit 12", 0, 0, 9, 0, 9, 9, 0, 9], ["to the SnowMan", 0, 0, 9, 0, 9, 9, 0, 1000]], text_failed=""
)


def test_weights_come_back(photos: Path) -> None:
    row = Rows.of(csr_matrix(np.array([0, 3, 2**18 - 1])))
    ((_, document),) = documents(open_source(photos), row, [(0, Facts())], MADE, {})
    assert vector(document["words"], 3) == {1: 3, 2: 2**18 - 1}
    again = rows_of([vector(document["words"], 3), {}], 3)
    assert (again.csr().toarray() == [[0, 3, 2**18 - 1], [0, 0, 0]]).all()


@pytest.mark.parametrize(
    "words", [{"9": 1}, {"-1": 1}, {"x": 1}, {"1": -1}, {"1": 1.5}, [1], None, {"1": True}, {"1": 2**31}]
)
def test_words_that_cannot_be_are_refused(words: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        vector(words, 9)


def test_facts_come_back(tmp_path: Path) -> None:
    write_photos(tmp_path / "x" / "Été 2019" / "SnowMan")
    source = open_source(tmp_path / "x")
    facts = Facts(
        *(30, 20, "2019-07-01T12:30:00", "A B", ("in the file",), ("Key", "Wörd")),
        *(99, "d" * 32, 2**64 - 1, "1 2 3", (48.5, -11.25)),
    )
    rows = Rows.of(csr_matrix(np.array([[1, 0, 600]])))
    ((_, document),) = documents(source, rows, [(2, facts)], MADE, {facts.digest: TEXT})
    id, stored = facts_of(document)
    photo = photo_of(id, stored, f"{stored['root']}/{stored['file']}")
    assert (photo.id, photo.path) == ("Été 2019/SnowMan/2.jpg", source.path(2))
    assert photo.captions == (*source.items[2].captions, "in the file")
    for name in ("width", "height", "taken", "camera", "keywords", "size", "digest", "fingerprint", "place"):
        assert getattr(photo, name) == getattr(facts, name)
    assert document["folders"] == ["Été 2019/SnowMan", "Été 2019"]
    assert document["given"]["folder"] == ["ete 2019 snowman", "ete 2019 snow man"]
    assert {"key", "wörd", "file"} <= set(document["said"])
    assert [line.text for line in photo.text] == ["Exit 12", "to the SnowMan"]
    assert document["given"] == {
        name: [" ".join(words) for words in texts] for name, texts in photo.given.items()
    }
    assert {"july 2019", "1 7 2019", "1st july 2019"} <= set(document["given"][TAKEN])
    assert document["given"]["text"] == ["exit 12 to the snowman", "exit 12 to the snow man"]
    changed = with_facts(document, {"captions": ["other words"]})
    assert changed["given"]["caption"][0] == "other words"
    assert "man" not in changed["said"]
    assert (changed["words"], changed["id"]) == (document["words"], document["id"])


def test_a_date_in_a_name_comes_before_that_of_the_file(
    photos: Path, local_clock: Callable[[str], None]
) -> None:
    """Both are by the clock of where they are indexed, an hour before that of UTC in 1970."""
    local_clock("Europe/Berlin")
    (photos / "0.jpg").rename(photos / "IMG_20190704_153012.jpg")
    source = open_source(photos)
    ids = [item.id for item in source.items]
    rows = Rows.of(csr_matrix(np.ones((6, 1))))
    known = [(number, Facts(state="7 5000000000 1")) for number in range(6)]
    found = [document["modified"] for _, document in documents(source, rows, known, MADE, {})]
    named = int(datetime(2019, 7, 4, 15, 30, 12, tzinfo=UTC).timestamp())
    assert found == [named if id.startswith("IMG") else 3605 for id in ids]


@pytest.mark.parametrize(
    "text", ["x", [[]], [["x", 1]], [["x", *[1001] * 8]], [[1, *[0] * 8]], {"x": 1}, 0.5]
)
def test_text_that_cannot_be_is_refused(photos: Path, text: object) -> None:
    row = Rows.of(csr_matrix(np.array([1])))
    ((_, document),) = documents(open_source(photos), row, [(0, Facts())], MADE, {})
    facts_of(document)
    with pytest.raises((ValueError, TypeError)):
        facts_of({**document, "facts": {**document["facts"], "text": text}})


def test_what_an_index_says_of_itself_comes_back() -> None:
    how = {"scheme": "unit", "scale": 1000}
    metadata = metadata_of("tiny@1", how, None, ("ab", 7), "2026-01-01T00:00:00+00:00", {"listed": 1.5})
    about = About(metadata, True, {"a.jpg": Unreadable(1, 2, "broken")})
    assert About.of(about.stored(), "") == about
