"""LOAD.txt, run by bash and curl: loads an export into a stand-in for each engine, or stops with a reason.

Pyserini's own commands need the internet since 2.4, and a whole JDK; older ones want any key of OpenAI:

    python -m venv pyserini && pyserini/bin/pip install pyserini==1.2.0 torch
    export LEXLIP_PYSERINI_PYTHON=$PWD/pyserini/bin/python OPENAI_API_KEY=none JAVA_HOME=/usr/lib/jvm/JDK
    python -m pytest tests/other_engines/test_export_loading.py -m "slow or not slow"
"""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import find_anserini, find_java
from anserini_bridge.jvm import java_class, start_jvm
from lexlip.other_engines.export import export
from tests.other_engines.exported import best, exported, parsed, random_rows, write_index
from tests.other_engines.stand_in import READ, Refused, answer, basic, serving

PHOTOS = 45  # in three files
PASSWORDS = {"opensearch": basic("admin", "PASSWORD"), "elasticsearch": basic("elastic", "PASSWORD")}
HOSTS = {
    "opensearch": "https://localhost:9200",
    "elasticsearch": "https://localhost:9200",
    "qdrant": "http://localhost:6333",
    "milvus": "http://localhost:19530",
    "vespa": "http://localhost:8080",
}
FAILED = {
    "opensearch": {"errors": True, "items": [{"index": {"error": {"reason": "of the test"}}}]},
    "elasticsearch": {"errors": True, "items": [{"index": {"error": {"reason": "of the test"}}}]},
    "qdrant": {"status": {"error": "of the test"}, "time": 0.1},
    "milvus": {"code": 1100, "message": "of the test"},
    "vespa": {"feeder.ok.count": 19, "feeder.error.count": 0, "said": "of the test"},
}
"""What an engine answers with the status 200 when it has not taken documents."""

VESPA = """\
#!/bin/bash
if [ "$*" = "deploy --wait 300 application" ]; then [ -f application/services.xml ]; exit; fi
[ "$1 $2" = "feed --target" ] && curl -sS --fail-with-body --data-binary "@$4" "$3/feed"
"""
"""In the place of Vespa's command line."""


class Server:
    """What was loaded and asked.

    Args:
        engine: which one.
        fault: what the second file of documents is answered with: "413", "200" or nothing.
    """

    def __init__(self, engine: str, fault: str) -> None:
        self.engine, self.fault = engine, fault
        self.documents: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.files = 0

    def answer(self, method: str, path: str, body: str) -> Any:
        """The JSON of an answer.

        Raises:
            Refused: the engine's documentation has no such request.
        """
        self.asked.append(f"{method} {path}")
        for asked, reply in REPLIES[self.engine].items():
            if asked == f"{method} {path}":
                return reply(self, body)
        raise Refused(404, f"{method} {path} is unknown")

    def make(self, body: str) -> Any:
        assert json.loads(body)
        return {"acknowledged": True, "result": True, "status": "ok", "code": 0, "data": {}}

    def take(self, body: str) -> Any:
        self.files += 1
        if self.files == 2 and self.fault == "413":
            raise Refused(413, "too large")
        if self.files == 2 and self.fault == "200":
            return FAILED[self.engine]
        self.documents += (found := parsed(body, self.engine))
        return {
            "opensearch": {"errors": False},
            "elasticsearch": {"errors": False},
            "qdrant": {"result": {"operation_id": self.files, "status": "completed"}, "status": "ok"},
            "milvus": {"code": 0, "cost": 1, "data": {"upsertCount": len(found)}},
            "vespa": {"feeder.ok.count": len(found), "feeder.error.count": 0},
        }[self.engine]

    def find(self, body: str) -> Any:
        asked = json.loads(body)
        if self.engine == "vespa" and asked["hits"] == 0:
            assert asked == {"yql": "select * from photos where true", "hits": 0, "timeout": "10s"}
            return {"root": {"fields": {"totalCount": len(self.documents)}, "coverage": {"coverage": 100}}}
        path = {"qdrant": "/collections/photos/points/query", "vespa": "/search/"}
        path |= {"milvus": "/v2/vectordb/entities/search"}
        query, k = READ[self.engine](path.get(self.engine, "/photos/_search"), asked)
        return answer(self.engine, best(self.documents, query, k))

    def count(self, body: str) -> Any:
        if self.engine == "qdrant":
            assert json.loads(body) == {"exact": True}
            return {"result": {"count": len(self.documents)}, "status": "ok"}
        if self.engine == "milvus":
            asked = {"collectionName": "photos", "filter": "", "outputFields": ["count(*)"]}
            assert json.loads(body) == asked
            return {"code": 0, "cost": 0, "data": [{"count(*)": len(self.documents)}]}
        return {"count": len(self.documents), "_shards": {"total": 1, "successful": 1, "failed": 0}}


LUCENE = {
    "PUT /photos": Server.make,
    "POST /photos/_bulk?filter_path=errors,items.*.error": Server.take,
    "POST /photos/_refresh": lambda server, body: {"_shards": {"total": 1, "successful": 1, "failed": 0}},
    "POST /photos/_search": Server.find,
    "GET /photos/_count": Server.count,
}
REPLIES: dict[str, dict[str, Any]] = {
    "opensearch": LUCENE,
    "elasticsearch": LUCENE,
    "qdrant": {
        "PUT /collections/photos": Server.make,
        "PUT /collections/photos/points?wait=true": Server.take,
        "POST /collections/photos/points/query": Server.find,
        "POST /collections/photos/points/count": Server.count,
    },
    "milvus": {
        "POST /v2/vectordb/collections/create": Server.make,
        "POST /v2/vectordb/entities/upsert": Server.take,
        "POST /v2/vectordb/entities/search": Server.find,
        "POST /v2/vectordb/entities/query": Server.count,
    },
    "vespa": {"POST /feed": Server.take, "POST /search/": Server.find},
}


def listening(server: Server) -> AbstractContextManager[str]:
    """Gives the address of a server."""

    def reply(method: str, path: str, headers: Any, body: str) -> str:
        secret = PASSWORDS.get(server.engine)
        if secret is not None and headers["Authorization"] != secret:
            raise Refused(401, "who are you?")
        text = json.dumps(server.answer(method, path, body), separators=(",", ":"))
        return text.replace('feeder.ok.count":', 'feeder.ok.count": ')  # as Vespa's command has it

    return serving(reply)


def bash(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run LOAD.txt as it says, with the test's own commands first on the PATH."""
    path = os.pathsep.join([str(folder.parent / "bin"), os.environ["PATH"]])
    own = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(
        ["bash", "LOAD.txt"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**own, "PATH": path},
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an index of 45 photos is exported to, 20 in a file."""
    if shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("LOAD.txt needs bash and curl")
    monkeypatch.setattr("lexlip.other_engines.engine_contract.OtherEngine.batch", 20)
    write_index(tmp_path / "index", random_rows(PHOTOS))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vespa").write_text(VESPA)
    (tmp_path / "bin" / "vespa").chmod(0o755)
    return tmp_path / "out"


def load(folder: Path, server: Server, auth: str | None = None) -> subprocess.CompletedProcess[str]:
    """Export, fill in where the server is, and load."""
    export(folder.parent / "index", server.engine, folder)
    assert len(list(folder.glob("documents-*"))) == 3
    script = (folder / "LOAD.txt").read_text()
    with listening(server) as url:
        assert f"URL={HOSTS[server.engine]}\n" in script
        script = script.replace(HOSTS[server.engine], url)
        if auth is not None:
            script = re.sub("^AUTH=.*", f"AUTH={auth}", script, flags=re.MULTILINE)
        (folder / "LOAD.txt").write_text(script)
        return bash(folder)


@pytest.mark.parametrize("engine", REPLIES)
def test_all_is_loaded_and_counted(folder: Path, engine: str) -> None:
    server = Server(engine, "")
    done = load(folder, server)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.documents == exported(folder, engine)
    *_, hits, counted = done.stdout.splitlines()
    (first, score), *_ = best(server.documents, *query_of(folder, engine))
    assert json.dumps(first["id"]) in hits
    assert f":{int(score)}" in hits
    assert counted.startswith(f"{PHOTOS} photos were exported, and the server counts: {{")
    assert f":{PHOTOS}" in counted


def query_of(folder: Path, engine: str) -> tuple[dict[int, int], int]:
    """The query of query.json, and how many hits it asks for."""
    body = json.loads((folder / "query.json").read_text())
    paths = {"qdrant": "/collections/photos/points/query", "vespa": "/search/"}
    paths |= {"milvus": "/v2/vectordb/entities/search"}
    return READ[engine](paths.get(engine, "/photos/_search"), body)


@pytest.mark.parametrize("engine", REPLIES)
@pytest.mark.parametrize("fault", ["413", "200"])
def test_the_first_file_that_fails_stops_it(folder: Path, engine: str, fault: str) -> None:
    server = Server(engine, fault)
    done = load(folder, server)
    assert done.returncode == 1
    assert ("too large" if fault == "413" else "of the test") in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("stopped at ")
    assert "documents-000001" in last
    assert server.files == 2
    assert "counts" not in done.stdout
    assert ("413" in done.stderr) == (fault == "413")


def test_a_wrong_password_stops_it(folder: Path) -> None:
    server = Server("opensearch", "")
    done = load(folder, server, "()")
    assert done.returncode == 1
    assert "who are you?" in done.stdout
    assert done.stderr.splitlines()[-1] == "stopped at PUT /photos @index.json"
    assert not server.asked


def test_nobody_listens(folder: Path) -> None:
    export(folder.parent / "index", "milvus", folder)
    script = (folder / "LOAD.txt").read_text().replace("localhost:19530", "127.0.0.1:1")
    (folder / "LOAD.txt").write_text(script)
    done = bash(folder)
    assert done.returncode == 1
    assert "curl: (7)" in done.stderr
    assert "stopped at POST /v2/vectordb/collections/create" in done.stderr


def test_pgvector_stops_at_the_first_file_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.other_engines.own_loaders.Pgvector.batch", 20)
    export(folder.parent / "index", "pgvector", folder)
    psql = folder.parent / "bin" / "psql"
    psql.write_text('#!/bin/bash\necho "$@" >> ../asked\n[[ "$*" != *000001* ]]\n')
    psql.chmod(0o755)
    done = bash(folder)
    assert done.returncode == 1
    assert "stopped at --command \\copy \"photos\" FROM 'documents-000001.tsv'" in done.stderr
    assert len((folder.parent / "asked").read_text().splitlines()) == 3
    psql.write_text('#!/bin/bash\necho "$@" >> ../asked\n')
    done = bash(folder)
    assert done.returncode == 0
    assert f"{PHOTOS} photos were exported, and the server counts:" in done.stdout
    *_, counted = (folder.parent / "asked").read_text().splitlines()
    assert counted.endswith('--tuples-only --command SELECT count(*) FROM "photos"')


def topics(folder: Path) -> dict[str, int]:
    """The one query of topics.tsv, read by Anserini: how often a word stands there is its weight."""
    start_jvm()
    reader = java_class("io.anserini.search.topicreader.TopicReader")
    kind = "io.anserini.search.topicreader.TsvIntTopicReader"
    found = reader.getTopicsWithStringIdsFromFileWithTopicReaderClass(str(folder / "topics.tsv"), kind)
    (topic,) = found.entrySet().toArray()
    assert topic.getKey() == "1"
    return Counter(topic.getValue().get("title").split(" "))


def check_hits(folder: Path, query: dict[str, int], hits: list[tuple[str, int]]) -> None:
    """Compare hits with brute force over the exported documents."""
    with (folder / "documents" / "documents-000000.jsonl").open(encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    scores = {
        one["id"]: sum(weight * one["vector"].get(word, 0) for word, weight in query.items())
        for one in documents
    }
    assert len(documents) == PHOTOS
    assert [score for _, score in hits] == sorted(scores.values(), reverse=True)[:10]
    assert all(scores[id] == score > 0 for id, score in hits)


def test_anserini_reads_the_topics_and_finds_the_scores(folder: Path) -> None:
    """By its searcher: SearchCollection of Anserini 2.3 asks api.github.com before it opens a folder."""
    export(folder.parent / "index", "anserini", folder)
    command = [find_java().path / "bin" / "java", "-cp", find_anserini(), "io.anserini.index.IndexCollection"]
    command += ["-collection", "JsonVectorCollection", "-generator", "DefaultLuceneDocumentGenerator"]
    command += ["-input", folder / "documents", "-index", folder / "photos", "-impact", "-pretokenized"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    query = topics(folder)
    assert len(query) == 16
    searcher = java_class("io.anserini.search.SimpleImpactSearcher")(str(folder / "photos"))
    weights = java_class("java.util.HashMap")()
    for word, weight in query.items():
        weights.put(word, java_class("java.lang.Integer")(weight))
    hits = searcher.search(weights, 10)
    searcher.close()
    check_hits(folder, query, [(hit.docid, round(hit.score)) for hit in hits])


@pytest.mark.slow
def test_pyserini_loads_and_searches(folder: Path) -> None:
    """In run.txt an id with spaces is several columns."""
    python = os.environ.get("LEXLIP_PYSERINI_PYTHON")
    if python is None:
        pytest.skip(
            f"no Pyserini: LEXLIP_PYSERINI_PYTHON names no Python with it (see the head of {__file__})"
        )
    command = folder.parent / "bin" / "python"
    command.write_text(f'#!/bin/bash\nexec "{python}" "$@"\n')
    command.chmod(0o755)
    export(folder.parent / "index", "anserini", folder)
    done = bash(folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    run = (folder / "run.txt").read_text(encoding="utf-8")
    assert run in done.stdout
    lines = [line.split(" ") for line in run.splitlines()]
    hits = [(" ".join(columns[2:-3]), round(float(columns[-2]))) for columns in lines]
    check_hits(folder, topics(folder), hits)
