"""Compare an index with OpenSearch and Solr: the same documents and queries, asked in turns.

    lexlip bench engine --docs 1000000 --work-dir WORK --engine lexlip-single …       # documents and queries
    lexlip export opensearch --index WORK/lexlip --output opensearch
    lexlip export solr --index WORK/lexlip --output solr
    make servers
    python tools/studies/servers_in_turns.py WORK opensearch solr http://127.0.0.1:19201 http://127.0.0.1:18981

Each is loaded, merged to one segment a shard, and asked with all words of a query and with its heaviest half.
Prints a line of JSON for each: seconds to load and to merge, megabytes, queries/s, milliseconds, how often
the scores are those of our index, and with half of the words the share of the true ten that are found. Our
index is searched in this process, without HTTP; what it and each server take is taken on the same cores.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from scipy.sparse import csr_matrix, load_npz

from anserini_bridge import ImpactSearcher, folder_megabytes
from lexlip.other_engines.engine_contract import AskedEngine, Made
from lexlip.other_engines.servers import OpenSearch, Solr
from lexlip.sparse.top_words import topk

K = 10
QUERIES = 200
ROUNDS = 3
NAME = "in-turns"
ROUNDED = 0.002  # of a score in OpenSearch, whose weights have nine bits

Query = Mapping[int, int]
Search = Callable[[Query], tuple[list[str], list[float]]]
"""Returns the ids and the scores of the K best documents."""


@dataclass
class Figures:
    """What is measured of one system with queries of one length."""

    answers: list[tuple[list[str], list[float]]] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)  # the fastest of all rounds, of each query


class Server:
    """An engine that answers over one connection."""

    def __init__(self, engine: AskedEngine, address: str, name: str) -> None:
        self.engine, self.name = engine, name
        self._connection = HTTPConnection(str(urlsplit(address).netloc), timeout=3600)

    def send(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Return the JSON of an answer."""
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        text = response.read()
        if response.status >= 400:
            sys.exit(f"{method} {path} answers {response.status}: {text[:500]!r}")
        return json.loads(text)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def search(self, query: Query) -> tuple[list[str], list[float]]:
        """Ask as `lexlip search --server` does."""
        request = self.engine.request(query, K, self.name)
        found = self.engine.found(self.send("POST", request.path, json.dumps(request.body).encode()))
        return [hit.id for hit in found], [hit.score for hit in found]


def load_opensearch(address: str, name: str, export: Path, shards: int) -> tuple[Server, dict[str, float]]:
    """Load an export into shards, each on a node of its own, without replicas."""
    server = Server(OpenSearch(), address, name)
    settings = json.loads((export / "index.json").read_text())
    settings["settings"] = {
        "number_of_shards": shards,
        "number_of_replicas": 0,
        "index.routing.allocation.total_shards_per_node": 1,
    }
    server.send("PUT", f"/{name}", json.dumps(settings).encode())
    clock = time.perf_counter()
    for file in sorted(export.glob("documents-*.ndjson")):
        if server.send("POST", f"/{name}/_bulk?filter_path=errors", file.read_bytes())["errors"]:
            sys.exit(f"{file}: documents were refused")
    server.send("POST", f"/{name}/_refresh")
    loaded = time.perf_counter()
    server.send("POST", f"/{name}/_forcemerge?max_num_segments=1")
    merged = time.perf_counter()
    path = f"/{name}/_stats/segments?include_segment_file_sizes=true"  # its store still has those before
    for _ in range(60):  # a search may hold them, too
        server.send("POST", f"/{name}/_refresh")
        segments = server.send("GET", path)["_all"]["primaries"]["segments"]
        if segments["count"] == shards:
            break
        time.sleep(1)
    size = sum(file["size_in_bytes"] for file in segments["file_sizes"].values())
    _check_merged(segments["count"], shards)
    return server, {"load_s": loaded - clock, "merge_s": merged - loaded, "mb": size / 1e6}


def load_solr(address: str, name: str, export: Path, shards: int) -> tuple[Server, dict[str, float]]:
    """Load an export into shards, without replicas."""
    server = Server(Solr(), address, name)
    upload = f"/solr/admin/configs?action=UPLOAD&overwrite=true&name={name}&filePath="
    for file in Solr().settings(Made("", "", []), name):
        server.send("POST", f"{upload}{file}", (export / file).read_bytes())
    create = f"/solr/admin/collections?action=CREATE&name={name}&collection.configName={name}"
    server.send("POST", f"{create}&numShards={shards}", b"")
    clock = time.perf_counter()
    for documents in sorted(export.glob("documents-*.json")):
        server.send("POST", f"/solr/{name}/update", documents.read_bytes())
    server.send("POST", f"/solr/{name}/update?commit=true", b"{}")
    loaded = time.perf_counter()
    server.send("POST", f"/solr/{name}/update", b'{"optimize":{"maxSegments":1}}')
    merged = time.perf_counter()
    told = server.send("GET", f"/solr/admin/collections?action=COLSTATUS&collection={name}&segments=true")
    segments = [
        segment
        for shard in told[name]["shards"].values()
        for segment in shard["leader"]["segInfos"]["segments"].values()
    ]
    size = sum(segment["sizeInBytes"] for segment in segments)
    _check_merged(len(segments), shards)
    return server, {"load_s": loaded - clock, "merge_s": merged - loaded, "mb": size / 1e6}


def _check_merged(segments: int, shards: int) -> None:
    if segments != shards:
        sys.exit(f"{segments} segments in {shards} shards: they were not merged")


def ask(searches: Mapping[str, Search], queries: Sequence[Query]) -> dict[str, Figures]:
    """Ask all queries of each system, ROUNDS times, the systems in turns."""
    figures = {name: Figures(ms=[np.inf] * len(queries)) for name in searches}
    for _ in range(ROUNDS):
        for name, search in searches.items():
            of, answers = figures[name], []
            for number, query in enumerate(queries):
                clock = time.perf_counter()
                answers.append(search(query))
                of.ms[number] = min(of.ms[number], 1000 * (time.perf_counter() - clock))
            of.answers = answers
    return figures


def compare(
    index: Path, whole: csr_matrix, exports: tuple[Path, Path], addresses: tuple[str, str]
) -> Iterator[dict[str, Any]]:
    """Load, ask, yield the figures of each system and length of queries, and delete.

    Args:
        index: ours.
        whole: queries, whole weights [n, V].
        exports: of the index, for OpenSearch and for Solr.
        addresses: of both.
    """
    half = topk(whole, int(np.diff(whole.indptr).max()) // 2)
    (opensearch, solr), (at_opensearch, at_solr) = exports, addresses
    loads = {
        "OpenSearch, one node": lambda: load_opensearch(at_opensearch, f"{NAME}-1", opensearch, 1),
        "OpenSearch, three nodes": lambda: load_opensearch(at_opensearch, f"{NAME}-3", opensearch, 3),
        "Solr, two nodes": lambda: load_solr(at_solr, NAME, solr, 2),
    }
    with ImpactSearcher(index) as searcher:

        def search_here(query: Query) -> tuple[list[str], list[float]]:
            row = csr_matrix((list(query.values()), list(query), [0, len(query)]), (1, whole.shape[1]))
            ids, scores = searcher.search(row, K)
            return ids[0], scores[0].tolist()

        searches: dict[str, Search] = {"our index, in this process": search_here}
        disk = {"our index, in this process": {"mb": folder_megabytes(index)}}
        servers = {}
        for name, load in loads.items():
            servers[name], disk[name] = load()
            searches[name] = servers[name].search
            print(json.dumps({"system": name, **disk[name]}), file=sys.stderr, flush=True)
        truth: Figures | None = None
        for rows in (whole, half):
            queries = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in rows]
            figures = ask(searches, queries)
            ours = next(iter(figures.values()))
            truth = truth or ours
            for name, of in figures.items():
                p50, p99 = np.percentile(of.ms, [50, 99]).tolist()
                both = zip(of.answers, ours.answers, strict=True)
                equal = [np.allclose(one[1], two[1], rtol=ROUNDED) for one, two in both]
                both = zip(of.answers, truth.answers, strict=True)
                kept = [len({*one[0]} & {*two[0]}) / len(two[0]) for one, two in both]
                row = {"system": name, "words": max(map(len, queries)), **disk[name]}
                row |= {"queries_per_second": 1000 / np.mean(of.ms), "p50_ms": p50, "p99_ms": p99}
                yield row | {"equal": float(np.mean(equal)), "recall@10": float(np.mean(kept))}
    servers["OpenSearch, one node"].send("DELETE", f"/{NAME}-1,{NAME}-3")
    admin = "/solr/admin"
    servers["Solr, two nodes"].send("POST", f"{admin}/collections?action=DELETE&name={NAME}", b"")
    servers["Solr, two nodes"].send("POST", f"{admin}/configs?action=DELETE&name={NAME}", b"")
    for server in servers.values():
        server.close()


def main() -> None:
    """Print a line of JSON for each system and length of queries."""
    work, *exports = map(Path, sys.argv[1:4])
    queries: csr_matrix = load_npz(work / "corpus/queries.npz")[:QUERIES]
    opensearch, solr = exports
    at_opensearch, at_solr = sys.argv[4:]
    for row in compare(work / "lexlip", queries, (opensearch, solr), (at_opensearch, at_solr)):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
