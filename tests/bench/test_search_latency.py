from pathlib import Path

import numpy as np
import pytest

from anserini_bridge import ImpactSearcher, read_metadata
from lexlip.bench.search_latency import STAGES, grow, measure_latency
from lexlip.data import open_source
from lexlip.indexing.impact import index_photos
from lexlip.sparse.quantize import Scheme
from tests.conftest import write_photos
from tests.search.indexes import index_words
from tests.tiny import CAPTIONS, tiny_balanced


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Six photos, of four words each."""
    folder = tmp_path_factory.mktemp("indexed")
    return index_words(model_folder, write_photos(folder / "photos"), folder / "index", topk_words=4)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.bench.latency.WARM_UP", 0.01)


def test_a_grown_index_has_its_own_documents_and_mixtures_of_two(index: Path, tmp_path: Path) -> None:
    grow(index, tmp_path / "grown", 5000)
    with ImpactSearcher(index) as small, ImpactSearcher(tmp_path / "grown") as large:
        assert len(large) == 5000
        assert (large.vectors(small.ids()) != small.vectors(small.ids())).nnz == 0
        mixed = large.vectors([f"synthetic/{number}" for number in range(100)])
        known = small.vectors(small.ids())
    assert mixed.nnz / 100 <= 4
    lengths = np.sqrt(mixed.multiply(mixed).sum(axis=1)).A1
    np.testing.assert_allclose(lengths[lengths > 0], 1000, atol=2)
    words = [set(row.indices) for row in known]
    for row in mixed:
        assert any(set(row.indices) <= one | other for one in words for other in words)


def test_a_grown_index_is_of_the_same_model_and_settings(index: Path, tmp_path: Path) -> None:
    grow(index, tmp_path / "grown", 3)  # fewer than there are
    one, other = read_metadata(index), read_metadata(tmp_path / "grown")
    assert (other.encoder, other.topk, other.quantization, other.extra) == (
        *(one.encoder, one.topk, one.quantization, one.extra),
    )
    assert other.documents == one.documents == 6


@pytest.mark.parametrize("scheme", ["balanced", "paper"])
def test_a_grown_index_keeps_its_quantization(scheme: Scheme, tmp_path: Path) -> None:
    """A mixture has the mean of two weights, or one of them, as whole numbers, whatever its length is."""
    model, photos = tiny_balanced(), open_source(write_photos(tmp_path / "photos"))
    index_photos(model, "tiny", photos, 0.0, tmp_path / "index", scheme=scheme, workers=0)
    grow(tmp_path / "index", tmp_path / "grown", 50)
    assert read_metadata(tmp_path / "grown").quantization["scheme"] == scheme
    with ImpactSearcher(tmp_path / "index") as small, ImpactSearcher(tmp_path / "grown") as large:
        real = small.vectors(small.ids()).toarray()
        mixed = large.vectors([f"synthetic/{number}" for number in range(44)]).toarray()
    assert 0 < mixed.max() <= real.max()


def test_milliseconds_of_each_stage(index: Path) -> None:
    report = measure_latency(index, CAPTIONS, ["network", "words"], query_topk=2, k=3)
    conditions = report["conditions"]
    assert {key: conditions[key] for key in ("documents", "queries", "k", "query_topk")} == {
        **{"documents": 6, "queries": 6, "k": 3, "query_topk": 2},
    }
    assert {"cpu", "cores"} < conditions.keys()
    for stages in report["encoders"].values():
        assert 0 < stages.pop("terms") <= 2
        assert tuple(stages) == STAGES
        for values in stages.values():
            assert 0 < values["p50"] <= values["p95"] <= values["p99"] <= values["max"]
        assert stages["total"]["max"] <= sum(stages[stage]["max"] for stage in STAGES[:-1]) + 1e-6


def test_one_encoder_and_all_words_of_a_query(index: Path) -> None:
    report = measure_latency(index, CAPTIONS, ["words"])
    assert list(report["encoders"]) == ["words"]
    assert report["conditions"]["query_topk"] is None
