import math
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import ImpactSearcher, UnknownId
from lexlip.data import decode
from lexlip.errors import ModelError
from lexlip.models.contract import QueryEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.search.stages.impact import ImpactStage, suggest
from lexlip.sparse.quantize import Scheme, quantize
from tests.reference.short_query import plain_query
from tests.search.indexes import Indexed, index_words, is_open
from tests.tiny import CAPTIONS

IDS = [f"{number}.jpg" for number in range(6)]
HITS = csr_matrix([[0.5, 0.4, 0.1, 0.0, 0.6], [0.5, 0.2, 0.3, 0.0, 0.0], [0.5, 0.0, 0.5, 0.2, 0.0]])
FREQUENCIES = np.array([900, 10, 200, 3, 5])
SCALES: dict[Scheme, float] = {"unit": 1000, "paper": 100}


@pytest.fixture(scope="module")
def indexes(
    indexed: Indexed, tmp_path_factory: pytest.TempPathFactory, model_folder: Path
) -> dict[str, Path]:
    """The index of words as usual, and with the paper's whole weights."""
    paper = tmp_path_factory.mktemp("paper") / "index"
    return {"unit": indexed.words, "paper": index_words(model_folder, indexed.photos, paper, scheme="paper")}


@pytest.fixture
def stage(indexed: Indexed) -> Iterator[ImpactStage]:
    with closing(ImpactStage(indexed.words)) as stage:
        yield stage


def brute_force(index: Path, queries: csr_matrix, scheme: Scheme) -> np.ndarray:
    """Scores of the six photos, [n, 6], over the stored vectors."""
    with ImpactSearcher(index) as searcher:
        stored = searcher.vectors(IDS)
    whole = quantize(queries, scheme).astype(np.int64)
    scores: np.ndarray = (whole @ stored.T).toarray() / SCALES[scheme] ** 2
    return scores


@pytest.mark.parametrize("scheme", ["unit", "paper"])
@pytest.mark.parametrize("kept", [None, 3])
def test_scores_are_those_of_brute_force(indexes: dict[str, Path], scheme: Scheme, kept: int | None) -> None:
    with closing(ImpactStage(indexes[scheme], query_topk=kept)) as stage:
        queries = [stage.encode(caption) for caption in CAPTIONS]
        ids, scores = stage.search(queries, 4)
    asked = vstack([query.csr() for query in queries], format="csr")
    for found, points, row in zip(ids, scores, brute_force(indexes[scheme], asked, scheme), strict=True):
        of = dict(zip(IDS, row, strict=True))
        assert points.tolist() == pytest.approx(sorted(row[row > 0], reverse=True)[:4])
        assert points.tolist() == pytest.approx([of[id] for id in found])


def test_a_sentence_keeps_its_heaviest_words_and_its_own(indexed: Indexed, model_folder: Path) -> None:
    queries = TextQueries(model_folder)
    typed = queries.typed.of(CAPTIONS[0])
    for kept in (None, 2):
        with closing(ImpactStage(indexed.words, query_topk=kept)) as stage:
            found = stage.encode(CAPTIONS[0]).csr().toarray()[0]
        sentence = queries.encode(CAPTIONS[0]).toarray()[0]
        np.testing.assert_allclose(found, plain_query(sentence, *typed, most=kept), rtol=1e-5)


@pytest.mark.parametrize("kept", [None, 24])
@pytest.mark.parametrize("encoder", ["network", "words"])
def test_typed_words_are_among_the_heaviest(
    indexed: Indexed, encoder: QueryEncoder, kept: int | None
) -> None:
    with closing(ImpactStage(indexed.words, query_encoder=encoder, query_topk=kept)) as stage:
        words = stage.queries.vocabulary.words
        for word, other in pairwise(words):
            assert word in list(stage.terms(stage.encode(word)))[:3]
            assert {word, other} <= {*list(stage.terms(stage.encode(f"the {word}, {other}")))[:3]}


def test_what_each_word_adds(stage: ImpactStage) -> None:
    for caption in CAPTIONS:
        query = stage.encode(caption)
        (ids,), (scores,) = stage.search([query], 3)
        terms = stage.terms(query)
        assert list(terms.values()) == sorted(terms.values(), reverse=True)
        for id, score, words in zip(ids, scores, stage.matches(query, ids), strict=True):
            assert sum(words.values()) == pytest.approx(score)
            assert list(words.values()) == sorted(words.values(), reverse=True)
            weights = stage.weights(id)
            assert words == pytest.approx({word: terms[word] * weights[word] for word in words})
            assert words.keys() == terms.keys() & weights.keys()


def test_a_picture_searches_with_all_of_its_words(stage: ImpactStage, indexed: Indexed) -> None:
    photo = decode((indexed.photos / "2.jpg").read_bytes(), stage.encoder.config.image.size)
    vector = stage.encoder.encode_image([photo])
    (ids,), (scores,) = stage.search([vector], 6)
    assert len(stage.terms(vector)) == quantize(vector, "unit").nnz
    of = dict(zip(IDS, brute_force(indexed.words, vector, "unit")[0], strict=True))
    assert scores.tolist() == pytest.approx([of[id] for id in ids])


def test_marks_change_the_words_of_a_query(stage: ImpactStage) -> None:
    plain = stage.encode("two dogs").csr()
    column = {word: stage.queries.column(word) for word in ("two", "dogs", "beach", "quokka", "dogs beach")}
    assert column["quokka"] is None
    assert column["dogs beach"] is None
    assert (stage.encode(parse_query("two dogs")).csr() != plain).nnz == 0
    dense = plain.toarray()[0]
    top = dense.max()
    expected = dense.copy()
    expected[column["dogs"]] *= 2
    expected[column["two"]] = 0
    expected[column["beach"]] = 0.5 * top
    query = parse_query("two dogs", ["dogs^2", "two^0", "+beach^0.5", "+quokka", "quokka^2"])
    marked = stage.encode(query).csr()
    np.testing.assert_allclose(marked.toarray()[0], expected, rtol=1e-6)
    assert (marked.dtype, marked.indices.dtype, marked.has_sorted_indices) == (np.float32, np.int32, True)
    alone = stage.encode(parse_query("+beach -dogs")).csr()
    assert alone.toarray()[0].nonzero()[0].tolist() == [column["beach"]]
    assert stage.encode(parse_query("-dogs")).csr().nnz == 0
    assert stage.unknown(parse_query("a zebra +quokka dogs -zebra")) == ["zebra", "quokka"]


def test_allowed_photos_and_words_that_are_left_out(stage: ImpactStage, indexed: Indexed) -> None:
    query = stage.encode(" ".join(CAPTIONS))
    (every,), (scores,) = stage.search([query], 6)
    weights = {id: stage.weights(id) for id in every}
    held = {id for id in every if "dogs" in weights[id] or "cat" in weights[id]}
    assert stage.holding(["dogs", "cat", "quokka"]) == held
    for some, without in ((None, ["dogs", "cat"]), (every[::2], []), (every[::2], ["cat"]), ([], [])):
        gone = {id for id in every for word in without if word in weights[id]}
        there = [(id, score) for id, score in zip(every, scores, strict=True) if id not in gone]
        expected = [(id, score) for id, score in there if some is None or id in some]
        (ids,), (points,) = stage.search([query], 6, stage.allow(some, without))
        assert list(zip(ids, points, strict=True)) == expected
    assert stage.allow(None, ["quokka"]) is None
    assert stage.holding([]) == frozenset()


def test_a_photo_is_most_like_itself(stage: ImpactStage) -> None:
    (ids,), (scores,) = stage.search([stage.like("3.jpg")], 6)
    assert scores[ids.index("3.jpg")] == pytest.approx(scores[0], abs=0.005)
    with pytest.raises(UnknownId):
        stage.like("x")


def test_the_model_is_loaded_when_a_picture_wants_it_and_once(
    stage: ImpactStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stage.unknown("two dogs and a quokka") == ["quokka"]
    encoder = stage.encoder
    assert isinstance(encoder, LexLIP)
    monkeypatch.setattr(LexLIP, "from_pretrained", pytest.fail)
    assert stage.encoder is encoder


def test_words_of_a_sentence_by_one_learned_weight_each(indexed: Indexed, model_folder: Path) -> None:
    expected = TextQueries(model_folder, "words").encode("two dogs")
    with closing(ImpactStage(indexed.words, query_encoder="words")) as stage:
        assert (stage.encode("two dogs").csr() != expected).nnz == 0


def test_another_model_leaves_nothing_open(indexed: Indexed, other_model: Path) -> None:
    with pytest.raises(ModelError, match="give the model that made it"):
        ImpactStage(indexed.words, str(other_model))
    assert not is_open(indexed.words)


# ---- words to search on with ----


def test_words_count_by_weight_and_rarity() -> None:
    """By the formula: mean weight times log((1 + N) / (1 + df)), of words in at least two hits."""
    value = {
        column: HITS[:, [column]].sum() / 3 * math.log(1001 / (1 + FREQUENCIES[column]))
        for column in range(3)
    }
    assert suggest(HITS, FREQUENCIES, 1000, [], 9) == sorted(value, key=lambda column: -value[column])


def test_words_of_the_query_are_left_out() -> None:
    assert suggest(HITS, FREQUENCIES, 1000, [1, 4], 9) == [2, 0]
    assert suggest(HITS, FREQUENCIES, 1000, [], 1) == [1]
    assert suggest(HITS, FREQUENCIES, 1000, [], 0) == []


def test_one_hit_or_none() -> None:
    assert suggest(HITS[2], FREQUENCIES, 1000, [0], 9) == [3, 2]
    assert suggest(HITS[:0], FREQUENCIES, 1000, [], 9) == []


def test_words_of_all_photos_tell_nothing() -> None:
    assert suggest(HITS[:, [0]], np.array([50]), 50, [], 9) == []
