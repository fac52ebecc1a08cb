from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import ImpactSearcher
from lexlip.data import decode
from lexlip.errors import ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.queries.text_queries import TextQueries
from lexlip.search.stages.impact import ImpactStage
from lexlip.sparse.quantize import Scheme, quantize
from lexlip.sparse.topk import topk
from tests.search.indexes import Indexed, index_words, is_open
from tests.tiny import CAPTIONS

IDS = [f"{number}.jpg" for number in range(6)]
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
    for found, points, row in zip(
        ids, scores, brute_force(indexes[scheme], vstack(queries, format="csr"), scheme), strict=True
    ):
        of = dict(zip(IDS, row, strict=True))
        assert points.tolist() == pytest.approx(sorted(row[row > 0], reverse=True)[:4])
        assert points.tolist() == pytest.approx([of[id] for id in found])


def test_a_sentence_keeps_its_heaviest_words(indexed: Indexed, model_folder: Path) -> None:
    whole = TextQueries(model_folder).encode(CAPTIONS[0])
    for kept in (None, 2):
        with closing(ImpactStage(indexed.words, query_topk=kept)) as stage:
            assert (stage.encode(CAPTIONS[0]) != topk(whole, kept)).nnz == 0


def test_what_each_word_adds(stage: ImpactStage) -> None:
    queries = [stage.encode(caption) for caption in CAPTIONS]
    ids, scores = stage.search(queries, 3)
    for row, found in enumerate(stage.find(queries, 3)):
        assert (found.ids, found.scores.tolist()) == (ids[row], scores[row].tolist())
        assert list(found.terms.values()) == sorted(found.terms.values(), reverse=True)
        for score, words in zip(found.scores, found.words, strict=True):
            assert sum(words.values()) == pytest.approx(score)
            assert list(words.values()) == sorted(words.values(), reverse=True)
            assert words.keys() <= found.terms.keys()


def test_a_picture_searches_with_all_of_its_words(stage: ImpactStage, indexed: Indexed) -> None:
    photo = decode((indexed.photos / "2.jpg").read_bytes(), stage.encoder.config.image.size)
    vector = stage.encoder.encode_image([photo])
    [found] = stage.find([vector], 6)
    assert len(found.terms) == quantize(vector, "unit").nnz
    of = dict(zip(IDS, brute_force(indexed.words, vector, "unit")[0], strict=True))
    assert found.scores.tolist() == pytest.approx([of[id] for id in found.ids])


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
        assert (stage.encode("two dogs") != expected).nnz == 0


def test_another_model_leaves_nothing_open(indexed: Indexed, other_model: Path) -> None:
    with pytest.raises(ModelError, match="give the model that made it"):
        ImpactStage(indexed.words, str(other_model))
    assert not is_open(indexed.words)


def test_what_it_says_about_itself(stage: ImpactStage, indexed: Indexed, model_folder: Path) -> None:
    assert stage.index == indexed.words
    assert (stage.metadata.kind, stage.metadata.documents) == ("impact", 6)
    assert stage.metadata.extra["model"] == str(model_folder)
