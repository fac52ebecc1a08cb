import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.bench.clocks import Timed
from lexlip.bench.tables import TABLES
from lexlip.bench.tables import dense_systems as of_dense
from lexlip.bench.tables import systems as module
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.row import IndexSize, Row
from lexlip.bench.tables.system import System
from lexlip.bench.tables.systems import bm25, impact, measure_systems
from lexlip.data import Scenes, Source, open_source
from lexlip.data.source import Concat
from lexlip.errors import DataError
from lexlip.measure.bm25_recall import draw, draw_documents
from lexlip.measure.pool import CaptionedPool, PoolVectors
from lexlip.measure.recalls import recall_at_k
from lexlip.models.contract import Encoder
from lexlip.models.lexlip import LexLIP
from lexlip.search.engines.exact import exact_engine
from lexlip.sparse.top_words import topk
from tests.measure.pools import WORDS, make_pool, pool_of
from tests.tiny import tiny_dense, tiny_model

VECTORS = make_pool()
POOL = VECTORS.pool


def size_of(system: System) -> IndexSize:
    assert system.row.index is not None
    return system.row.index


def timed(system: System) -> Timed:
    assert system.timed is not None
    return system.timed


def recall(row: Row, way: str, k: str = "R@10") -> float:
    """A recall in percent, by "t2i" or "i2t"."""
    recalls: dict[str, float] = getattr(row, way)
    return recalls[k]


def build_bm25(pool: CaptionedPool, settings: TableSettings | None = None) -> System:
    with ExitStack() as stack:
        system = bm25(stack, pool, settings or TableSettings())
        assert timed(system).seconds(5) > 0
    return system


def test_one_caption_finds_its_photo_by_the_other() -> None:
    """Whichever is drawn: both captions of 0 share a word, those of 1 none; 2 is no query."""
    texts = ["red dog", "dog runs", "blue car", "fast train", "green dog", "green dog"]
    system = build_bm25(pool_of([0, 0, 1, 1, 2, 2], texts, photos=4, text_queries=4))
    assert (system.row.model, system.row.documents, system.row.photos) == ("BM25", "captions", 3)
    assert timed(system).queries == 2
    assert (recall(system.row, "t2i", "R@5"), recall(system.row, "i2t", "R@5")) == (50, 50)
    assert size_of(system).accounted == 3 * 2  # each caption has two words


def test_queries_are_all_captions_of_their_photos_but_the_drawn_ones() -> None:
    system = build_bm25(POOL)
    assert system.row.photos == 20  # ten that are queries, and every third of thirty others
    assert timed(system).queries == 10 * 2
    assert recall(system.row, "t2i") > 50
    assert build_bm25(POOL).row.t2i == system.row.t2i
    drawn = {recall(build_bm25(POOL, TableSettings(seed=seed)).row, "t2i", "R@1") for seed in range(5)}
    assert drawn != {recall(system.row, "t2i", "R@1")}


def test_sizes_of_bm25() -> None:
    system = build_bm25(POOL)
    size = size_of(system)
    assert 0 < size.megabytes_without_ids < size.megabytes < 0.1
    assert system.row.photo_bytes == pytest.approx(1e6 * size.megabytes / 20)
    assert build_bm25(POOL, TableSettings(synthetic=1000)).row.photos == system.row.photos


def test_a_photo_with_one_caption_is_found_but_is_no_query() -> None:
    system = build_bm25(pool_of([0, 1, 1], ["dog", "red dog", "a dog"], photos=4, text_queries=3))
    assert (system.row.photos, timed(system).queries) == (2, 1)
    with pytest.raises(DataError, match="no photo has a second caption to search with"):
        build_bm25(pool_of([0, 1], ["dog", "cat"], photos=4, text_queries=2))


def build_impact(
    vectors: PoolVectors = VECTORS, topks: Sequence[int | None] = (None, 4, 2), **changes: Any
) -> list[System]:
    with ExitStack() as stack:
        systems = impact(stack, vectors, WORDS, TableSettings(topks=topks, **changes))
        assert all(timed(system).seconds(number) > 0 for system in systems for number in (1, 30))
    return systems


@pytest.fixture(scope="module")
def systems() -> list[System]:
    return build_impact()


def test_a_row_for_each_number_of_words(systems: list[System]) -> None:
    assert [s.row.model for s in systems] == ["LexLIP"] * 3
    assert [s.row.documents for s in systems] == ["all", "top-4", "top-2"]
    assert {(s.row.photos, timed(s).queries, timed(s).least) for s in systems} == {(40, 30, 1)}


@pytest.mark.parametrize("row", range(3))
def test_recalls_are_those_of_brute_force(systems: list[System], row: int) -> None:
    kept = (None, 4, 2)[row]
    with exact_engine(POOL.image_ids, topk(VECTORS.images, kept)) as engine:
        found, _ = engine.search(VECTORS.query_captions(), 10)
    assert systems[row].row.t2i == recall_at_k(found, POOL.relevant_images)
    with exact_engine(POOL.text_ids, topk(VECTORS.captions, kept)) as engine:
        found, _ = engine.search(VECTORS.query_images, 10)
    assert systems[row].row.i2t == recall_at_k(found, POOL.relevant_texts)


def test_sizes_of_words(systems: list[System]) -> None:
    whole, four, two = map(size_of, systems)
    assert whole.megabytes > four.megabytes > two.megabytes
    assert whole.megabytes - whole.megabytes_without_ids == pytest.approx(
        two.megabytes - two.megabytes_without_ids
    )
    assert 0 < two.megabytes_without_ids < two.megabytes
    assert whole.accounted == pytest.approx(3 * VECTORS.images.nnz / 40)
    assert four.accounted == pytest.approx(3 * topk(VECTORS.images, 4).nnz / 40)
    assert systems[1].row.photo_bytes == pytest.approx(1e6 * four.megabytes / 40)


def test_synthetic_words_are_in_both_pools(systems: list[System]) -> None:
    [larger] = build_impact(topks=(4,), synthetic=5000)
    assert larger.row.photos == 5040
    assert size_of(larger).megabytes > size_of(systems[1]).megabytes
    for way in ("t2i", "i2t"):
        assert recall(larger.row, way) < recall(systems[1].row, way)


def test_the_paper_s_quantisation_and_several_threads(systems: list[System]) -> None:
    assert build_impact(threads=2)[1].row.t2i == systems[1].row.t2i
    assert build_impact(scheme="paper")[1].row.t2i != systems[1].row.t2i


def test_a_photo_without_words() -> None:
    images = VECTORS.images.toarray()
    images[3] = 0
    vectors = replace(VECTORS, images=csr_matrix(images))
    [system] = build_impact(vectors, [4])
    assert system.row.photos == 40
    assert size_of(system).accounted == pytest.approx(3 * topk(vectors.images, 4).nnz / 40)
    assert np.isfinite(size_of(system).megabytes)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_nothing_is_left(temporary: Path) -> None:
    build_bm25(POOL)
    build_impact()
    assert list(temporary.iterdir()) == []


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed is measured with one query and a short time."""
    plain = module.queries_per_second
    monkeypatch.setattr(
        module, "queries_per_second", lambda timed, rounds, progress: plain(timed, rounds, duration=0.001)
    )


def measure(
    model: LexLIP,
    queries: Source | None = None,
    others: Sequence[Source] = (),
    dense: Encoder | None = None,
    **changes: Any,
) -> tuple[list[Row], list[str]]:
    settings = TableSettings(**{"topks": [None, 4], "rounds": 1, "workers": 0, **changes})
    return measure_systems(TABLES["2"], model, dense, queries or Scenes(8, seed=0), others, settings)


@pytest.mark.usefixtures("quick")
def test_all_systems(model: LexLIP) -> None:
    rows, notes = measure(model, others=[Scenes(4, seed=1)], dense=tiny_dense(), synthetic=50)
    assert [(row.model, row.documents) for row in rows] == [
        ("BM25", "captions"),
        *(("cls, one by one", "dense"), ("cls, 256 together", "dense"), ("cls, one by one", "int8")),
        *(("cls, HNSW", "dense"), ("LexLIP", "all"), ("LexLIP", "top-4")),
    ]
    assert [row.photos for row in rows] == [12, *[62] * 6]
    for row in rows:
        assert row.qps is not None
        assert row.qps > 0
        for way in ("t2i", "i2t"):
            assert 0 <= recall(row, way, "R@1") <= recall(row, way, "R@5") <= recall(row, way) <= 100
    assert notes[0] == (
        "Measured with the 8 photos and 40 captions of 8 drawn scenes of seed 0 in a pool of 12 photos and"
        " 60 captions, and 50 synthetic vectors beside each."
    )
    assert notes[-1] == TABLES["2"].paper
    text = " ".join(notes)
    assert "the 32 others are queries" in text
    assert "The other systems ask with the same 32 captions, as in the paper" in text
    assert "cannot be in BM25's pool, which has 12." in text
    assert "Synthetic vectors are not photos." in text
    assert "no dense model" not in text
    assert "IVF-PQ is left out: it learns from 256 photos and as many captions at least." in notes


def test_all_systems_ask_with_the_same_captions(model: LexLIP, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of five captions of each photo; the fifth is BM25's document."""
    asked, searched = [], []

    def remember(timed: Sequence[Timed], rounds: int, progress: bool) -> list[float]:
        asked.extend(one.queries for one in timed)
        return [1.0] * len(timed)

    for place, name in ((of_dense, "dense_systems"), (module, "impact")):
        plain = getattr(place, name)

        def watch(*arguments: Any, plain: Any = plain) -> Any:
            searched.extend(given for given in arguments if isinstance(given, PoolVectors))
            return plain(*arguments)

        monkeypatch.setattr(place, name, watch)
    monkeypatch.setattr(module, "queries_per_second", remember)
    dense, scenes, others = tiny_dense(), Scenes(8, seed=0), Scenes(4, seed=1)
    measure(model, scenes, [others], dense, seed=3)
    assert asked == [32] * 7
    t2i, i2t = draw(CaptionedPool.of(Concat([scenes, others]), queries=8), np.random.default_rng(3))
    assert [vectors.model for vectors in searched] == [dense, model]
    for vectors in searched:
        pool = vectors.pool
        assert (pool.image_ids, pool.text_ids) == (t2i.ids, i2t.ids)
        assert pool.texts[: pool.text_queries] == t2i.queries
        assert (pool.relevant_images, pool.relevant_texts) == (t2i.relevant, i2t.relevant)


def test_recalls_of_the_same_captions_are_those_of_brute_force() -> None:
    others = draw_documents(POOL, np.random.default_rng(0)).others
    [system] = build_impact(VECTORS.part(others), [None])
    asked = [row for row in others if row < 30]
    with exact_engine(POOL.image_ids, VECTORS.images) as engine:
        found, _ = engine.search(VECTORS.captions[asked], 10)
    assert system.row.t2i == recall_at_k(found, [{POOL.image_ids[POOL.owners[row]]} for row in asked])
    with exact_engine([POOL.text_ids[row] for row in others], VECTORS.captions[others]) as engine:
        found, _ = engine.search(VECTORS.images[:10], 10)
    right = [{POOL.text_ids[row] for row in others if POOL.owners[row] == photo} for photo in range(10)]
    assert system.row.i2t == recall_at_k(found, right)


@pytest.mark.usefixtures("quick")
def test_without_a_dense_model(model: LexLIP) -> None:
    rows, notes = measure(model)
    _, one, many, *_ = rows
    assert one.index is not None
    assert (one.t2i, one.photos, one.index.accounted) == (None, 8, 2048)
    assert one.qps is not None
    assert many.qps is not None
    text = " ".join(notes)
    assert "CLIP has no recall here, as no dense model was given (--dense)" in text
    assert "Synthetic" not in text
    assert "lower bound" in text


@pytest.mark.usefixtures("quick")
def test_without_faiss_the_other_systems_are_measured(model: LexLIP, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = measure(model, dense=tiny_dense())
    monkeypatch.setitem(sys.modules, "faiss", None)
    for dense in (tiny_dense(), None):
        rows, notes = measure(model, dense=dense)
        others = [row for row in whole if row.model in ("BM25", "LexLIP")]
        assert [(row.model, row.documents, row.t2i, row.i2t) for row in rows] == [
            (row.model, row.documents, row.t2i, row.i2t) for row in others
        ]
        assert (
            "The rows of dense vectors are left out: this needs faiss: pip install 'lexlip[dense]'." in notes
        )
        assert "Faiss" not in " ".join(notes)


@pytest.mark.usefixtures("quick")
def test_without_a_second_caption(model: LexLIP, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    rows, notes = measure(model, open_source(photos))
    assert rows[0] == Row(model="BM25", documents="captions")
    says = "BM25 cannot be measured: no photo has a second caption to search with; the other systems ask"
    assert f"{says} with all captions." in notes
    assert rows[-1].index is not None
    assert [skip.id for skip in rows[-1].skipped] == ["photos/bad.jpg"]


def test_indexes_are_closed_whatever_happens(
    model: LexLIP, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "impact", fail)
    with pytest.raises(KeyboardInterrupt):
        measure(model)
    assert list(temporary.iterdir()) == []
