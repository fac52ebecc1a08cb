"""Lucene's FeatureField is the oracle of OpenSearch and Elasticsearch; the others are asked themselves.

Qdrant's and Milvus's own engines do not belong to the project. Each runs in a Python of its own, which an
environment variable names:

    python -m venv qdrant && qdrant/bin/pip install qdrant-edge-py==0.9.0
    python -m venv milvus && milvus/bin/pip install milvus-lite==2.5.1 pymilvus
    LEXLIP_QDRANT_PYTHON=qdrant/bin/python LEXLIP_MILVUS_PYTHON=milvus/bin/python pytest tests/other_engines
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lexlip.other_engines.engine_contract import AskedEngine, Made, other_engine
from lexlip.other_engines.export import export, fit
from tests.other_engines.exported import SIZES, WORDS, check_hits, exported, queries, random_rows, write_index
from tests.other_engines.feature_index import FeatureIndex

HERE = Path(__file__).parent


@SIZES
def test_lucene_finds_the_scores_of_the_exported_integers(tmp_path: Path, documents: int, asked: int) -> None:
    index = write_index(tmp_path / "index", random_rows(documents))
    lucene = None
    for name in ("opensearch", "elasticsearch"):
        export(index, name, tmp_path / name)
        loaded = exported(tmp_path / name, name)
        assert len(loaded) == documents
        if lucene is None:
            lucene, first = FeatureIndex(loaded), loaded
        assert [one["words"] for one in loaded] == [
            one["words"] for one in first
        ]  # one index answers for both
        for query in queries(asked):
            engine = other_engine(name)
            examples = engine.examples(query, 10, Made("tiny@1", "unit", WORDS), "photos")
            assert json.loads(examples["query.json"]) == engine.request(query, 10, "photos").body
            for text in examples.values():
                hits = [(one["id"], score) for one, score in lucene.search(json.loads(text))]
                check_hits(hits, loaded, query)
            assert len(examples) == (2 if name == "opensearch" else 1)


def test_what_a_feature_field_holds() -> None:
    """511 is exact and 513 is not; every exported weight is."""
    given = [1, 255, 510, 511, 512, 513, 514, 515, 567, 1022, 1023, 1025, 4097]
    kept = [int(score) for _, score in sorted(lucene_values(given))]
    assert kept[:7] == [1, 255, 510, 511, 512, 512, 514]
    fitting = fit(np.array(given), 9).tolist()
    assert fitting == [1, 255, 510, 511, 512, 512, 514, 516, 568, 1022, 1024, 1024, 4096]
    assert [int(score) for _, score in sorted(lucene_values(fitting))] == fitting


def lucene_values(weights: list[int]) -> list[tuple[int, float]]:
    index = FeatureIndex([{"id": n, "words": {0: weight}} for n, weight in enumerate(weights)])
    body = {"size": 50, "query": {"rank_feature": {"field": "words.0", "linear": {}, "boost": 1}}}
    return [(one["id"], score) for one, score in index.search(body)]


def test_a_boost_multiplies(tmp_path: Path) -> None:
    index = FeatureIndex([{"id": 0, "words": {3: 511}}])
    for boost in (1, 999, 1000):
        feature = {"rank_feature": {"field": "words.3", "linear": {}, "boost": boost}}
        ((_, score),) = index.search({"size": 1, "query": {"bool": {"should": [feature]}}})
        assert score == 511 * boost


def test_a_linear_query_refuses_more_than_64() -> None:
    import jnius

    index = FeatureIndex([{"id": 0, "words": {3: 5}}])
    with pytest.raises(jnius.JavaException, match="64"):
        index.feature.newLinearQuery("words", "3", 64.5)
    index.feature.newLinearQuery("words", "3", 64.0)


def test_words_go_by_numbers_and_nothing_is_pruned(tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", random_rows(20))
    export(index, "elasticsearch", tmp_path / "e")
    settings = json.loads((tmp_path / "e" / "index.json").read_text())
    assert settings["mappings"]["properties"]["words"] == {
        "type": "sparse_vector",
        "index_options": {"prune": False},
    }
    assert (tmp_path / "e" / "vocabulary.txt").read_text().splitlines() == WORDS
    assert json.loads((tmp_path / "e" / "query.json").read_text())["query"]["sparse_vector"]["prune"] is False
    text = (tmp_path / "e" / "documents-000000.ndjson").read_text()
    assert all("." not in name for line in text.splitlines()[1::2] for name in json.loads(line)["words"])


@SIZES
@pytest.mark.parametrize("name", ["qdrant", "milvus"])
def test_the_engine_itself_finds_the_scores(tmp_path: Path, name: str, documents: int, asked: int) -> None:
    variable = f"LEXLIP_{name.upper()}_PYTHON"
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f"no {name}: {variable} names no Python that has it (see the head of {__file__})")
    export(write_index(tmp_path / "index", random_rows(documents)), name, tmp_path / "out")
    loaded = exported(tmp_path / "out", name)
    engine = other_engine(name)
    assert isinstance(engine, AskedEngine)
    requests = [engine.request(query, 10, "photos").body for query in queries(asked)]
    done = subprocess.run(
        [python, HERE / f"run_{name}.py", tmp_path / "out"],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    for query, hits in zip(queries(asked), answers, strict=True):
        check_hits(list(map(tuple, hits)), loaded, query)
