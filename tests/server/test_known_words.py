from pathlib import Path

import pytest

from lexlip.models.word_table import TABLE
from lexlip.search.photo_search import PhotoSearch
from lexlip.server.known_words import LIKE, SHOWN, KnownWords
from tests.queries.tiny_languages import install
from tests.search.indexes import Indexed


def test_words_that_find_the_same_photos_are_told_once(library: Indexed) -> None:
    with PhotoSearch(library.words) as photos:
        told = [word["word"] for word in KnownWords(photos).telling(20)]
        found = [{hit.id for hit in photos.words({word: 1.0}, SHOWN).hits} for word in told]
        for number, ids in enumerate(found):
            assert all(len(ids & other) <= LIKE * len(ids) for other in found[:number])


def test_what_was_worked_out_is_kept(library: Indexed) -> None:
    with PhotoSearch(library.words) as photos:
        known = KnownWords(photos)
        assert known.telling(5) is known.telling(5)
        assert known._counts() is known._counts()


def test_an_index_that_is_fused_with_captions_has_the_same_words(library: Indexed) -> None:
    with PhotoSearch(library.words) as alone, PhotoSearch(library.words, captions=True) as fused:
        assert KnownWords(fused).telling(5) == KnownWords(alone).telling(5)
        assert KnownWords(fused).find("", "", 50) == KnownWords(alone).find("", "", 50)


def test_words_as_they_are_shown(library: Indexed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with PhotoSearch(library.words) as photos:
        known = KnownWords(photos)
        english = known.find("", "", 2)
        assert [one["shown"] for one in english] == [one["word"] for one in english]
        first, second = (one["word"] for one in english)
        (tmp_path / TABLE).write_text(f"en\tde\n{first}\tÄpfel\n{second}\tÄpfel\n", encoding="utf-8")
        install(monkeypatch, tmp_path / "model")
        apples = [{**english[0], "shown": "Äpfel"}]
        assert known.find("ap", "", 5, "de") == known.find("", "Äpfle", 5, "de-AT") == apples
        assert known.find("", "", 2, "cs") == known.find("", "", 2) == english


def test_captions_have_no_words_of_a_vocabulary(library: Indexed) -> None:
    with PhotoSearch(library.bm25) as photos:
        known = KnownWords(photos)
        assert known.find("", "", 10) == known.find("", "dog", 10) == known.telling(10) == []
