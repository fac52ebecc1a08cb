"""What is exported, what it costs, and that a failed export leaves the old one."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, write_json_vectors
from lexlip.errors import ConfigError, DataError
from lexlip.other_engines import export as module
from lexlip.other_engines.engine_contract import ENGINES
from lexlip.other_engines.export import export, fit
from lexlip.sparse.top_words import topk
from tests.other_engines.exported import WORDS, exported, ids_of, random_rows, write_index


def test_every_engine_gets_the_weights_of_the_index(tmp_path: Path) -> None:
    rows = random_rows(50)
    index = write_index(tmp_path / "index", rows)
    for name in set(ENGINES) - {"anserini"}:
        done = export(index, name, tmp_path / name)
        found = {one["id"]: one for one in exported(tmp_path / name, name)}
        assert sorted(found) == sorted(ids_of(50))
        assert len({one["key"] for one in found.values()}) == done.photos == 50
        for row, id in enumerate(ids_of(50)):
            expected = rows[row].toarray()[0]
            for number, weight in found[id]["words"].items():
                error = abs(weight - expected[number])
                nine_bits = name in ("opensearch", "elasticsearch")
                assert error <= (1 if nine_bits and expected[number] > 511 else 0)
            assert sorted(found[id]["words"]) == np.flatnonzero(expected).tolist()
            assert (found[id]["model"], found[id]["scheme"]) == ("tiny@1", "unit")
        assert (done.rounded > 0) == (name in ("opensearch", "elasticsearch"))
        assert (done.recall is None) == (done.rounded == 0)


def test_anserini_gets_what_pseudo_documents_are(tmp_path: Path) -> None:
    rows = random_rows(30)
    index = write_index(tmp_path / "index", rows)
    export(index, "anserini", tmp_path / "out")
    write_json_vectors(tmp_path / "pseudo.jsonl", ids_of(30), rows, WORDS)
    (file,) = (tmp_path / "out" / "documents").iterdir()
    assert sorted(file.read_text().splitlines()) == sorted(
        (tmp_path / "pseudo.jsonl").read_text().splitlines()
    )


NAMED = {
    "opensearch": ("my.photos-2", "Photos"),
    "elasticsearch": ("my.photos-2", "Photos"),
    "solr": ("My.Photos-2", "my photos"),
    "qdrant": ("My.Photos-2", "my photos"),
    "milvus": ("My_photos2", "my-photos"),
    "vespa": ("My_photos2", "my.photos"),
    "pgvector": ("order", "Photos"),
    "anserini": ("My.Photos-2", "../photos"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_index_has_the_name_that_was_asked_for(tmp_path: Path, engine: str) -> None:
    index = write_index(tmp_path / "index", random_rows(5))
    name, refused = NAMED[engine]
    export(index, engine, tmp_path / "photos")
    export(index, engine, tmp_path / "named", name=name)
    for file in (tmp_path / "photos").rglob("*"):
        if file.is_file() and file.name not in ("services.xml", "export.json"):
            where = str(file.relative_to(tmp_path / "photos")).replace("photos.sd", f"{name}.sd")
            said = re.sub(r"\bphotos\b(?! were exported)", name, file.read_text())
            assert (tmp_path / "named" / where).read_text() == said
    assert name in (tmp_path / "named" / "LOAD.txt").read_text()
    for bad in (refused, "", "_photos", "photos;rm", "photos\n", "é", "x" * 256):
        with pytest.raises(ConfigError, match=f"^{engine} takes no index named .*: use .*ASCII letters"):
            export(index, engine, tmp_path / "refused", name=bad)
    assert not (tmp_path / "refused").exists()


def test_vespa_ranks_by_the_weights(tmp_path: Path) -> None:
    """`rank: filter` would hide them."""
    export(write_index(tmp_path / "index", random_rows(5)), "vespa", tmp_path / "out")
    schema = (tmp_path / "out" / "application" / "schemas" / "photos.sd").read_text()
    assert "filter" not in schema
    assert re.search(r"weightedset<int> \{\s+indexing: attribute\s+attribute: fast-search\s+\}", schema)


def test_rounding_is_to_the_nearest_with_so_many_bits() -> None:
    weights = np.arange(1, 5000)
    for bits in (3, 9, 31):
        held = np.array([m << shift for m in range(2 ** min(bits, 13)) for shift in range(14)])
        held = np.unique(held[(held > 0) & (held < 9000)])
        nearest = np.abs(held[None, :] - weights[:, None]).min(axis=1)
        found = fit(weights, bits)
        assert np.isin(found, held).all()
        assert (np.abs(found - weights) == nearest).all()


def test_the_cost_is_that_of_brute_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bits, so that much is lost, and several batches."""
    rows = random_rows(250, seed=3)
    index = write_index(tmp_path / "index", rows)
    monkeypatch.setattr(module, "ROWS", 40)
    monkeypatch.setattr("lexlip.other_engines.servers._LuceneServer.bits", 3)
    done = export(index, "opensearch", tmp_path / "out")
    with ImpactSearcher(index) as searcher:
        ids = searcher.ids()
    order = [ids_of(250).index(id) for id in ids]
    exact = rows[order].toarray().astype(float)
    rounded = fit(rows[order].toarray(), 3).astype(float)
    sample = sorted(np.random.default_rng(0).choice(250, 200, replace=False).tolist())
    queries = topk(csr_matrix(exact[sample]), 16).toarray()
    kept = 0
    for query in queries:
        true, other = exact @ query, rounded @ query
        tenth = np.sort(true)[-10]
        first = np.argsort(-other, kind="stable")[:10]
        kept += int((true[first] >= tenth).sum())
    assert done.recall == kept / 2000
    assert 0.3 < done.recall < 1
    changed = rounded != exact
    assert done.rounded == changed.sum()
    assert done.relative_error == (np.abs(rounded - exact)[changed] / exact[changed]).max()


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", random_rows(5))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(
        DataError, match=r"mine holds other files, such as thesis.txt: give a new or an empty"
    ):
        export(index, "qdrant", tmp_path / "mine")
    with pytest.raises(DataError, match=r"is a file"):
        export(index, "qdrant", tmp_path / "mine" / "thesis.txt")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_failed_export_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = write_index(tmp_path / "index", random_rows(60))
    export(index, "qdrant", tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    write = module._write

    def full(path: Path, text: str) -> None:
        if path.name.startswith("documents"):
            raise OSError(28, "No space left on device", str(path))
        write(path, text)

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(DataError, match=r"cannot write .*out: No space left"):
        export(index, "milvus", tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["index", "out"]  # noqa: PTH208
    monkeypatch.undo()
    (tmp_path / ".out.exporting").mkdir()
    (tmp_path / ".out.exporting" / "documents-000009.json").write_text("of a killed export")
    export(index, "milvus", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "export.json").read_text())["engine"] == "milvus"
    assert not list((tmp_path / "out").glob("documents-000009*"))
    assert sorted(os.listdir(tmp_path)) == ["index", "out"]  # noqa: PTH208


def test_two_exports_to_one_folder(tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", random_rows(5))
    with (
        module._new_folder(tmp_path / "out"),
        pytest.raises(DataError, match=r"another process is exporting to .*out: wait until it has finished"),
    ):
        export(index, "qdrant", tmp_path / "out")
