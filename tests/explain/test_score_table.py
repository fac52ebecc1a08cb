from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anserini_bridge import ImpactSearcher
from lexlip.errors import DataError
from lexlip.explain.score_table import check_words, score_table
from lexlip.queries.text_queries import TextQueries
from lexlip.search.photo_search import PhotoSearch
from lexlip.sparse.quantize import quantize, scale_of
from tests.search.indexes import Indexed, index_words

ALL = "two dogs play with a white cat on the boat near the beach"  # shares a word with every photo


@pytest.mark.parametrize("scheme", ["unit", "paper"])
def test_the_products_add_up_to_the_score_of_a_search(
    indexed: Indexed, model_folder: Path, tmp_path: Path, scheme: Any
) -> None:
    index = index_words(model_folder, indexed.photos, tmp_path / "index", scheme=scheme)
    with PhotoSearch(index) as search:
        answer = search.text(ALL)
        tables = [score_table(search, ALL, hit.id) for hit in answer.hits]
    with ImpactSearcher(index) as searcher:
        stored, words = searcher.vectors([hit.id for hit in answer.hits]).toarray(), searcher.vocabulary
    scale = scale_of(scheme)
    assert len(tables) == 6
    for hit, table, row in zip(answer.hits, tables, stored, strict=True):
        assert (table.id, table.path, table.score) == (hit.id, hit.path, hit.score)  # not one bit differs
        assert {shared.word: shared.product for shared in table.rows} == hit.words
        assert [shared.word for shared in table.rows] == list(hit.words)
        for shared in table.rows:
            assert shared.query == answer.terms[shared.word]
            assert shared.photo == row[words.index(shared.word)] / scale
        assert table.words == {words[c]: row[c] / scale for c in np.flatnonzero(row)}
        assert list(table.words.values()) == sorted(table.words.values(), reverse=True)
        # as printed, with all digits, the sum is exact
        products = [round(shared.product * 10 ** (2 * table.digits)) for shared in table.rows]
        assert sum(products) == round(table.score * scale**2)
        for shared in table.rows:
            assert round(shared.query, table.digits) == shared.query


def test_brute_force(indexed: Indexed, model_folder: Path) -> None:
    query = quantize(TextQueries(model_folder).encode(ALL)).toarray()[0]
    with PhotoSearch(indexed.words, query_topk=None) as search, ImpactSearcher(indexed.words) as searcher:
        table = score_table(search, ALL, "3.jpg")
        (stored,) = searcher.vectors(["3.jpg"]).toarray()
    assert table.score == int(query.astype(np.int64) @ stored) / 1e6
    assert len(table.rows) == np.count_nonzero(query * stored)


def test_a_picture_as_query(indexed: Indexed) -> None:
    path = indexed.photos / "2.jpg"
    with PhotoSearch(indexed.words) as search:
        hit = search.image(path).hits[0]
        with Image.open(path) as picture:
            encoded = search.stage.encoder.encode_image([picture.convert("RGB")])
        assert score_table(search, encoded, hit.id).score == pytest.approx(hit.score, abs=0.01)


def test_marks_count(indexed: Indexed) -> None:
    query = "a dog +boat^2 cat^0 -beach"
    with PhotoSearch(indexed.words) as search:
        hit = search.text(query, 1, content_only=True).hits[0]
        table = score_table(search, query, hit.id)
        assert (table.score, {row.word: row.product for row in table.rows}) == (hit.score, hit.words)
        assert all(row.product == pytest.approx(row.query * row.photo) for row in table.rows)


def test_a_photo_by_its_path_and_one_that_is_not_there(indexed: Indexed) -> None:
    path = str((indexed.photos / "4.jpg").resolve())
    with PhotoSearch(indexed.words) as search:
        assert score_table(search, "a dog", path) == score_table(search, "a dog", "4.jpg")
        with pytest.raises(DataError, match=r"holds no photo with the id or path 'x\.jpg'"):
            score_table(search, "a dog", "x.jpg")


def test_nothing_shared(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words, query_encoder="words") as search:
        table = score_table(search, "quokka", "0.jpg")
    assert (table.score, table.rows) == (0, [])
    assert table.words
    assert table.to_dict()["rows"] == []


def test_other_kinds_of_index(indexed: Indexed) -> None:
    check_words(indexed.words)
    with pytest.raises(DataError, match=r"^there are no words .*dense, which was made with cls"):
        check_words(indexed.dense)
    with pytest.raises(DataError, match=r"^there are no words .*bm25, which was made with bm25"):
        check_words(indexed.bm25)
    for index in (indexed.dense, indexed.bm25):
        with PhotoSearch(index) as search, pytest.raises(DataError, match="no words to explain"):
            score_table(search, "a dog", "1.jpg")


def test_of_two_indexes_the_words_are_explained(indexed: Indexed) -> None:
    with PhotoSearch(indexed.words) as alone, PhotoSearch(indexed.words, also=indexed.bm25) as fused:
        assert score_table(fused, ALL, "0.jpg") == score_table(alone, ALL, "0.jpg")
