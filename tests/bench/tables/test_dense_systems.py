"""A dense model's rows, against brute force in numpy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from lexlip.bench.tables import dense_systems as module
from lexlip.bench.tables.dense_systems import UNTRAINED, dense_systems, without_weights
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.row import Row
from lexlip.data import Scenes
from lexlip.measure.pool import PoolVectors, encode_pool
from lexlip.measure.recalls import recall_at_k
from tests.bench.tables.test_systems import POOL, VECTORS, size_of, timed
from tests.measure.pools import make_pool, pool_of
from tests.search.engines.vectors import unit
from tests.tiny import tiny_dense

BY_BRUTE_FORCE = ("none, one by one", "none, 256 together")


def rows_of(vectors: PoolVectors, **settings: Any) -> dict[tuple[str, str], Row]:
    """The rows by system, and by what it keeps of a photo."""
    systems, _ = dense_systems(vectors, TableSettings(**settings))
    return {(system.row.model, system.row.documents): system.row for system in systems}


def recalls(ids: Sequence[str], scores: np.ndarray, relevant: Sequence[set[str]]) -> dict[str, float]:
    """Recalls of the best ten by scores, [queries, documents]."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return recall_at_k([[ids[column] for column in best] for best in order], relevant)


def in_8_bits(rows: np.ndarray) -> np.ndarray:
    """Vectors after each dimension was rounded to one of 255 steps between its least and its greatest."""
    least = rows.min(axis=0)
    step = (rows.max(axis=0) - least) / 255
    codes = np.floor(np.clip((rows - least) / step, 0, 255)).clip(max=255)
    return least + (codes + 0.5) * step


def as_compared(vectors: Any, metric: str = "cosine") -> np.ndarray:
    rows: np.ndarray = vectors.toarray() if metric == "dot" else unit(vectors)
    return rows


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of k-means wait for each other at every step, on a busy machine for long."""
    monkeypatch.setenv("LEXLIP_CORES", "1")


@dataclass
class Written:
    """What was in the folder of each index when its size was measured."""

    files: list[dict[str, int]] = field(default_factory=list)
    indexes: list[Any] = field(default_factory=list)
    ids: list[list[str]] = field(default_factory=list)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    seen, plain = Written(), module.folder_megabytes

    def watch(folder: Path) -> float:
        loaded = module.FaissIndex.load(folder)
        seen.files.append({path.name: path.stat().st_size for path in folder.iterdir()})
        seen.indexes.append(loaded.vectors)
        seen.ids.append(loaded.ids)
        return plain(folder)

    monkeypatch.setattr(module, "folder_megabytes", watch)
    return seen


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_recalls_are_those_of_brute_force(metric: Any) -> None:
    """A graph of so few documents misses none."""
    vectors = make_pool(metric=metric)
    photos, captions = as_compared(vectors.images, metric), as_compared(vectors.captions, metric)
    asking, shown = captions[: POOL.text_queries], photos[POOL.image_queries]
    rows = rows_of(vectors)
    assert list(rows) == [
        *((name, "dense") for name in BY_BRUTE_FORCE),
        *(("none, one by one", "int8"), ("none, HNSW", "dense")),
    ]
    for (_, documents), row in rows.items():
        kept = in_8_bits if documents == "int8" else np.asarray
        assert row.t2i == recalls(POOL.image_ids, asking @ kept(photos).T, POOL.relevant_images)
        assert row.i2t == recalls(POOL.text_ids, shown @ kept(captions).T, POOL.relevant_texts)
    if metric == "dot":
        assert rows[BY_BRUTE_FORCE[0], "dense"].t2i != rows_of(VECTORS)[BY_BRUTE_FORCE[0], "dense"].t2i


def test_recalls_of_a_model_are_those_of_brute_force() -> None:
    vectors = encode_pool(tiny_dense(), Scenes(40, seed=0), workers=0, queries=12)
    photos, captions, pool = unit(vectors.images), unit(vectors.captions), vectors.pool
    rows = rows_of(vectors)
    assert {name for name, _ in rows} == {"cls, one by one", "cls, 256 together", "cls, HNSW"}
    for name, documents in (
        ("cls, one by one", "dense"),
        ("cls, 256 together", "dense"),
        ("cls, HNSW", "dense"),
    ):
        row = rows[name, documents]
        assert row.t2i == recalls(
            pool.image_ids, captions[: pool.text_queries] @ photos.T, pool.relevant_images
        )
        assert row.i2t == recalls(pool.text_ids, photos[pool.image_queries] @ captions.T, pool.relevant_texts)


def test_recalls_of_lists_are_those_of_the_vectors_in_the_nearest(written: Written) -> None:
    """As the index that was measured keeps them: its file is read again."""
    vectors = make_pool(photos=900, queries=300)
    rows = rows_of(vectors)
    row, whole = rows["none, IVF-PQ", "PQ"], rows[BY_BRUTE_FORCE[0], "dense"]
    index, ids, pool = written.indexes[-1], written.ids[-1], vectors.pool
    assert (index.nprobe, index.nlist, index.pq.M) == (16, 64, 20)
    index.make_direct_map()
    kept, centres = index.reconstruct_n(0, 900), index.quantizer.reconstruct_n(0, 64)
    place = np.empty(900, np.int64)
    for number in range(64):
        lists = index.invlists
        size = lists.list_size(number)
        place[faiss.rev_swig_ptr(lists.get_ids(number), size) if size else []] = number
    asking = unit(vectors.query_captions())
    nearest = np.argsort(-(asking @ centres.T), axis=1)[:, :16]
    scores = asking @ kept.T
    scores[(place[None, :, None] != nearest[:, None, :]).all(axis=2)] = -np.inf
    assert row.t2i == recalls(ids, scores, pool.relevant_images)
    assert row.i2t is not None
    assert whole.i2t is not None
    assert row.i2t["R@10"] == pytest.approx(whole.i2t["R@10"], abs=10)


def test_what_learns_needs_enough_photos_and_captions() -> None:
    says = "IVF-PQ is left out: it learns from 256 photos and as many captions at least."
    for photos, queries, captions, synthetic, left_out in (
        *((255, 255, 2, 0, True), (255, 255, 2, 1, False)),
        *((256, 256, 1, 0, False), (256, 10, 1, 0, True)),  # every third of others has a caption, too
    ):
        vectors = make_pool(photos, queries, captions)
        systems, notes = dense_systems(vectors, TableSettings(synthetic=synthetic))
        assert ("none, IVF-PQ" in [system.row.model for system in systems]) is not left_out
        assert (says in notes) is left_out


def test_sizes_are_those_of_the_files(written: Written) -> None:
    vectors = make_pool(photos=900, queries=300)
    one, many, int8, graph, lists = dense_systems(vectors, TableSettings())[0]
    assert len(written.files) == 4
    for system, files in zip((one, int8, graph, lists), written.files, strict=True):
        size = size_of(system)
        assert set(files) == {"vectors.faiss", "ids.json"}
        assert system.row.photos == 900
        assert system.row.photo_bytes == pytest.approx(sum(files.values()) / 900)
        assert size.megabytes == pytest.approx(sum(files.values()) / 1e6)
        assert size.megabytes_without_ids == pytest.approx(files["vectors.faiss"] / 1e6)
    assert many.row.index == one.row.index
    assert [size_of(system).accounted for system in (one, many, int8, graph, lists)] == [80, 80, *[None] * 3]
    per_photo = [1e6 * size_of(system).megabytes_without_ids / 900 for system in (one, int8, graph)]
    assert per_photo[0] == pytest.approx(4 * 20, rel=0.01)
    assert per_photo[1] == pytest.approx(20, rel=0.02)
    assert per_photo[2] > 4 * 20 + 2 * 4 * 32  # the vectors, and at the lowest level 64 links of 4 bytes


def test_what_is_timed() -> None:
    one, many, int8, graph = dense_systems(VECTORS, TableSettings())[0]
    systems = (one, many, int8, graph)
    assert [timed(system).queries for system in systems] == [30] * 4
    assert [timed(system).least for system in systems] == [1, 256, 1, 1]
    assert min(timed(system).seconds(7) for system in systems) > 0


def test_brute_force_stands_beside_the_paper_s_clip() -> None:
    systems, _ = dense_systems(VECTORS, TableSettings())
    assert [system.row.in_paper for system in systems] == [
        *(("CLIP, one by one", "dense"), ("CLIP, 256 together", "dense")),
        *(("CLIP, one by one", "int8"), ("CLIP, HNSW", "dense")),
    ]


def test_synthetic_vectors_are_in_both_pools() -> None:
    few, many = (rows_of(VECTORS, synthetic=number) for number in (0, 1000))
    for key, row in few.items():
        assert many[key].photos == 1040
        for way in ("t2i", "i2t"):
            assert getattr(many[key], way)["R@10"] < getattr(row, way)["R@10"]
    assert list(many) == [*few, ("none, IVF-PQ", "PQ")]


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dense_systems(VECTORS, TableSettings())
    assert list(tmp_path.iterdir()) == []


def test_without_weights_there_is_size_and_speed() -> None:
    pool = pool_of([0] * 7, ["a"] * 7, photos=2, text_queries=7)
    (one, many), notes = without_weights(pool, TableSettings(synthetic=10))
    assert (one.row.model, many.row.model) == ("CLIP, one by one", "CLIP, 256 together")
    assert (one.row.photos, size_of(one).accounted, timed(one).queries) == (12, 2048, 7)
    assert size_of(one).megabytes_without_ids == pytest.approx(12 * 2048 / 1e6, rel=0.01)
    assert (one.row.t2i, one.row.i2t, many.row.t2i, many.row.i2t) == (None, None, None, None)
    assert timed(one).seconds(7) > 0
    assert notes == [UNTRAINED]
