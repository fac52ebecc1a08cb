from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.data import decode
from lexlip.encoders.image import to_pixels
from lexlip.errors import ModelError
from lexlip.models.one_transformer import CE
from lexlip.retrieval.answer import Hit
from lexlip.search import rerank as module
from lexlip.search.hybrid import Fusion
from lexlip.search.rerank import Reranker
from tests.search.indexes import Indexed

QUERY = "two dogs play in the snow"


@pytest.fixture(scope="module")
def hits(indexed: Indexed) -> list[Hit]:
    """What a first stage might find: all six photos."""
    paths = [indexed.photos / f"{number}.jpg" for number in range(6)]
    return [Hit(n + 1, path.name, str(path), 0.9 - n / 10, {"dog": 1.0}) for n, path in enumerate(paths)]


@pytest.fixture(scope="module")
def probabilities(hits: list[Hit], cross_encoder: Path) -> dict[str, float]:
    """What the cross-encoder says, one photo at a time, in which nothing is folded."""
    model, found = CE.from_pretrained(cross_encoder), {}
    for hit in hits:
        pixels = to_pixels(decode(Path(hit.path).read_bytes(), 32), model.config.image)
        [odds] = model.score_pairs(model.embed_photos(pixels[None]), [QUERY], np.array([[0, 0]]))
        found[hit.id] = float(1 / (1 + np.exp(-odds)))
    return found


def test_hits_are_ordered_by_probability(
    hits: list[Hit], cross_encoder: Path, probabilities: dict[str, float]
) -> None:
    found = Reranker(cross_encoder)(QUERY, hits)
    assert [hit.id for hit in found] == sorted(probabilities, key=lambda id: -probabilities[id])
    assert [hit.rank for hit in found] == [1, 2, 3, 4, 5, 6]
    before = {hit.id: hit for hit in hits}
    for hit in found:
        assert hit.probability == pytest.approx(probabilities[hit.id], rel=1e-3)
        assert replace(hit, rank=0, probability=None) == replace(before[hit.id], rank=0)


def test_those_behind_the_first_k_stay_where_they_are(
    hits: list[Hit], cross_encoder: Path, probabilities: dict[str, float]
) -> None:
    found = Reranker(cross_encoder, k=4)(QUERY, hits)
    first = sorted((hit.id for hit in hits[:4]), key=lambda id: -probabilities[id])
    assert [hit.id for hit in found] == [*first, "4.jpg", "5.jpg"]
    assert [hit.probability is None for hit in found] == [False] * 4 + [True] * 2
    assert [hit.rank for hit in found] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("fusion", ["add", "norm_add"])
def test_fused_with_the_first_stage_s_score(
    hits: list[Hit], cross_encoder: Path, probabilities: dict[str, float], fusion: Fusion
) -> None:
    found = Reranker(cross_encoder, fusion=fusion, weight=0.4)(QUERY, hits)
    columns = [np.array([hit.score for hit in hits]), np.array([probabilities[hit.id] for hit in hits])]
    if fusion == "norm_add":
        columns = [(column - column.min()) / (column.max() - column.min()) for column in columns]
    fused = 0.4 * columns[0] + 0.6 * columns[1]
    assert [hit.id for hit in found] == [hits[row].id for row in np.argsort(-fused)]


def test_photos_that_cannot_be_read_are_last_of_the_candidates(
    hits: list[Hit], cross_encoder: Path, probabilities: dict[str, float], tmp_path: Path
) -> None:
    (tmp_path / "text.jpg").write_text("text")
    names = {0: "gone.jpg", 2: "text.jpg"}
    bad = [replace(hits[row], path=str(tmp_path / name)) for row, name in names.items()]
    found = Reranker(cross_encoder, k=5)(QUERY, [bad[0], hits[1], bad[1], *hits[3:]])
    readable = sorted(("1.jpg", "3.jpg", "4.jpg"), key=lambda id: -probabilities[id])
    assert [hit.id for hit in found] == [*readable, "0.jpg", "2.jpg", "5.jpg"]
    assert [hit.probability is None for hit in found] == [False] * 3 + [True] * 3
    nothing = Reranker(cross_encoder)(QUERY, bad)
    assert [(hit.id, hit.rank, hit.probability) for hit in nothing] == [
        ("0.jpg", 1, None),
        ("2.jpg", 2, None),
    ]
    assert Reranker(cross_encoder)(QUERY, []) == []


def test_many_photos_are_encoded_in_batches(
    hits: list[Hit], cross_encoder: Path, probabilities: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    found = Reranker(cross_encoder)(QUERY, hits)
    assert {hit.id: hit.probability for hit in found} == pytest.approx(probabilities, rel=1e-3)


def test_a_first_stage_cannot_rerank(model_folder: Path) -> None:
    with pytest.raises(ModelError, match="is a first stage and cannot rerank"):
        Reranker(model_folder)
