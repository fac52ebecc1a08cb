"""Qdrant's and Milvus's own engines answer exports with the scores of the exported integers.

Each runs in a Python of its own, which an environment variable names, as they do not belong to the project:

    python -m venv qdrant && qdrant/bin/pip install qdrant-edge-py==0.9.0
    python -m venv milvus && milvus/bin/pip install milvus-lite==2.5.1 pymilvus
    LEXLIP_QDRANT_PYTHON=qdrant/bin/python LEXLIP_MILVUS_PYTHON=milvus/bin/python pytest tests/other_engines
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lexlip.other_engines.engine_contract import AskedEngine, other_engine
from lexlip.other_engines.export import export
from tests.other_engines.exported import SIZES, check_hits, exported, queries, random_rows, write_index

HERE = Path(__file__).parent


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
