"""Exports in a real OpenSearch of three nodes and a real SolrCloud of two, which `make servers` starts.

make test-servers
"""

import json
import signal
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

import lexlip
from anserini_bridge import ImpactSearcher, ImpactWriter
from lexlip.bench.distractors import recombined
from lexlip.cli.options import DEFAULT_MODEL
from lexlip.errors import DataError
from lexlip.other_engines.export import fit
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.quantize import quantize
from tests.other_engines.exported import check_hits, exported, queries, random_rows, write_index
from tests.other_engines.real_servers import KINDS, Place, dying, load, place
from tools.servers import peers

pytestmark = pytest.mark.servers

FILE = 1000  # documents in one


def counted(printed: str, documents: int) -> bool:
    """Whether the last that LOAD.txt prints is that all were loaded."""
    _, _, said = printed.rpartition(f"{documents} photos were exported, and the server counts: ")
    answer = json.loads(said)
    return documents == (answer["count"] if "count" in answer else answer["response"]["numFound"])


@KINDS
def test_a_load_is_found_with_the_scores_of_brute_force(tmp_path: Path, kind: str) -> None:
    """Some weights are above 511, and one document has no word."""
    with place(kind) as there:
        folder = there.export(write_index(tmp_path / "index", random_rows(20_000)), tmp_path / "out")
        done = load(folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert counted(done.stdout, 20_000)
        documents = exported(folder, kind)
        for query in queries(100):
            check_hits([(hit.id, hit.score) for hit in there.server.search(query, 10)], documents, query)
        assert {hit.model for hit in there.server.search(query, 10)} == {"tiny@1"}
        assert len(set(there.holders())) == 2
        again = load(folder)
        assert again.returncode == 1
        assert "already" in again.stdout + again.stderr


@pytest.fixture(scope="module")
def photos_index(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Makes an index of 100,000 documents: photos, and mixtures of them, with weights of nine bits."""
    made: list[Path] = []

    def make(photos: Path) -> Path:
        if not made:
            folder = tmp_path_factory.mktemp("photos")
            lexlip.index(photos, folder / "real")
            with ImpactSearcher(folder / "real") as searcher:
                ids, told = searcher.ids(), searcher.metadata
                real, words = searcher.vectors(ids), list(searcher.vocabulary)
            mixed = vstack(list(recombined(real, 100_000 - len(ids))))
            rows = csr_matrix(vstack([real, mixed]))
            rows.data = fit(np.maximum(1, np.rint(rows.data)).astype(np.int64), 9)
            settings = {"quantization": told.quantization, "topk": told.topk, "normalize": True}
            with ImpactWriter(folder / "all", words, encoder=told.encoder, **settings) as writer:
                writer.add(ids + [f"mixed/{number}.jpg" for number in range(mixed.shape[0])], rows)
            made.append(folder / "all")
        return made[0]

    return make


@KINDS
def test_photos_are_found_with_the_scores_of_our_index(
    shared: Path, tmp_path: Path, photos_index: Callable[[Path], Path], kind: str
) -> None:
    """By 200 captions, each with 24 words."""
    tar = shared / "coco" / "val-0000.tar"
    index = photos_index(tar)
    with tarfile.open(tar) as archive:
        files = [name for name in archive.getnames() if name.endswith(".json")][:200]
        captions = [json.load(archive.extractfile(name))["captions"][0] for name in files]  # type: ignore[arg-type]
    model = TextQueries(DEFAULT_MODEL)
    rows = vstack([quantize(model.encode_query(parse_query(one), SENTENCE_TOPK)) for one in captions]).tocsr()
    with ImpactSearcher(index) as searcher:
        ids, scores = searcher.search(rows, 100)
    with place(kind) as there:
        done = load(there.export(index, tmp_path / "out"))
        assert (done.returncode, done.stderr) == (0, "")
        assert counted(done.stdout, 100_000)
        for number, (ours, weights) in enumerate(zip(ids, scores, strict=True)):
            row = rows[number]
            query = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
            hits = there.server.search(query, 100)
            assert [hit.score for hit in hits] == weights.tolist()
            above = {id for id, weight in zip(ours, weights, strict=True) if weight > weights[-1]}
            assert {hit.id for hit in hits if hit.score > weights[-1]} == above


def bad(kind: str, file: Path) -> None:
    """Let a file of documents hold one that the server refuses."""
    text = file.read_text()
    if kind == "opensearch":
        text = text.replace('"words":{"', '"words":{"7":-1,"', 1)
    else:
        text = text.replace('"words":"', '"words":"7|many ', 1)
    file.write_text(text)


@KINDS
def test_a_document_that_is_refused_stops_the_load(tmp_path: Path, kind: str) -> None:
    with place(kind) as there:
        folder = there.export(write_index(tmp_path / "index", random_rows(3 * FILE)), tmp_path / "out")
        (name,) = [path.name for path in folder.glob("documents-000001*")]
        bad(kind, folder / name)
        done = load(folder)
        assert done.returncode == 1
        assert name in done.stderr.splitlines()[-1]
        reason = "must be a positive normal float" if kind == "opensearch" else "Unable to parse"
        assert reason in done.stdout
        assert "counts" not in done.stdout


@pytest.mark.parametrize(("megabytes", "status"), [(101, 413), (60, 429)])
def test_too_much_at_once_stops_the_load(tmp_path: Path, megabytes: int, status: int) -> None:
    """More than 100 MB are refused, and more than a tenth of the heap, for which there may be room later."""
    with place("opensearch") as there:
        folder = there.export(write_index(tmp_path / "index", random_rows(3 * FILE)), tmp_path / "out")
        large = folder / "documents-000001.ndjson"
        large.write_text(large.read_text().replace('"id":"', f'"id":"{"x" * (megabytes << 20)}', 1))
        done = load(folder)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].endswith("@documents-000001.ndjson")
        assert f"error: {status}" in done.stderr


class Asking:
    """Searches again and again in a thread, and keeps what is answered otherwise than at first."""

    def __init__(self, there: Place) -> None:
        self.there, self.query = there, queries(1)[0]
        self.truth = self.hits()
        self.errors: list[str] = []
        self.wrong: list[list[tuple[str, float]]] = []
        self.answers = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def hits(self) -> list[tuple[str, float]]:
        return sorted((hit.id, hit.score) for hit in self.there.server.search(self.query, 10))

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                hits = self.hits()
                self.answers += 1
                if hits != self.truth:
                    self.wrong.append(hits)
            except DataError as error:
                self.errors.append(str(error))

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._over.set()
        self._thread.join()

    def wait_for(self, more: int) -> None:
        """Wait until so many more searches have ended."""
        wanted = self.answers + len(self.errors) + more
        while self.answers + len(self.errors) < wanted:
            assert self._thread.is_alive()
            self._over.wait(0.05)


@KINDS
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_node_that_dies_leaves_whole_answers_or_errors(tmp_path: Path, kind: str, replicas: int) -> None:
    with place(kind) as there, dying(peers(kind)[-1]) as node:
        index = write_index(tmp_path / "index", random_rows(2000))
        done = load(there.export(index, tmp_path / "out", shards=3, replicas=replicas))
        assert done.returncode == 0, done.stderr
        assert node.name in there.holders()
        with Asking(there) as asking:
            asking.wait_for(20)
            assert not asking.errors
            node.end(signal.SIGKILL)
            asking.wait_for(50)
        assert not asking.wrong
        if replicas:
            assert asking.hits() == asking.truth
        else:
            part = "answered for only a part of its documents" if kind == "opensearch" else "error (50"
            assert part in asking.errors[-1]
            with pytest.raises(DataError):
                asking.hits()


@KINDS
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_node_that_dies_during_a_load(tmp_path: Path, kind: str, replicas: int) -> None:
    """With replicas all documents arrive; without them the load stops."""
    with place(kind) as there, dying(peers(kind)[-1]) as node:
        index = write_index(tmp_path / "index", random_rows(20 * FILE))
        folder = there.export(index, tmp_path / "out", shards=3, replicas=replicas)
        script = (folder / "LOAD.txt").read_text()
        sent = script.index("done\n", script.index("for file in documents-"))
        kill = f"    if [[ $file == *000007* ]]; then kill -9 {node.pid()}; fi\n"
        (folder / "LOAD.txt").write_text(script[:sent] + kill + script[sent:])
        done = load(folder)
        if replicas:
            assert (done.returncode, done.stderr) == (0, "")
            assert counted(done.stdout, 20 * FILE)
        else:
            assert done.returncode == 1
            assert "documents-0000" in done.stderr.splitlines()[-1]
