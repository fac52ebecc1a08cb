"""How Solr is to hold weights: as frequencies of terms, which `lexlip export solr` writes, or as payloads.

    lexlip export solr --index INDEX --output out
    make servers
    python tools/studies/solr_weights.py out QUERIES.txt http://127.0.0.1:18981

Both are loaded into two shards of that Solr, and asked the sentences of a file. Prints for each whether its
scores are those of the first, queries/s, milliseconds and megabytes.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lexlip.cli.options import DEFAULT_MODEL
from lexlip.other_engines.engine_contract import Made
from lexlip.other_engines.servers import Solr
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.quantize import quantize

K = 10
ROUNDS = 3  # the last one counts
_FREQUENCIES = ' omitPositions="true"', 'DelimitedTermFrequencyTokenFilterFactory" delimiter="|"'
_PAYLOADS = "", 'DelimitedPayloadTokenFilterFactory" delimiter="|" encoder="integer"'

Query = Mapping[int, int]


def frequencies(query: Query) -> dict[str, Any]:
    """Return the request of `lexlip search --server`."""
    body: dict[str, Any] = Solr().request(query, K, "").body
    return body


def not_counting(query: Query) -> dict[str, Any]:
    """Return the same, which lets Lucene leave out documents that cannot be among the K best."""
    return {**frequencies(query), "params": {"minExactCount": K}}


def payloads(query: Query) -> dict[str, Any]:
    """Return the request for a field of payloads: a query of its own for each word."""
    words = [
        {
            "boost": {
                "b": weight,
                "query": f"{{!payload_score f=words func=max includeSpanScore=false}}{number}",
            }
        }
        for number, weight in query.items()
    ]
    return {**frequencies(query), "query": {"bool": {"should": words}}}


class Collection:
    """A collection in two shards, of the documents of an export."""

    def __init__(self, url: str, name: str, settings: Mapping[str, str], export: Path) -> None:
        self.url, self.name = url, name
        for file, text in settings.items():
            self._post(
                f"/admin/configs?action=UPLOAD&overwrite=true&name={name}&filePath={file}", text.encode()
            )
        create = f"/admin/collections?action=CREATE&name={name}&collection.configName={name}&numShards=2"
        self._post(create, b"")
        for documents in sorted(export.glob("documents-*.json")):
            self._post(f"/{name}/update", documents.read_bytes())
        self._post(f"/{name}/update", b'{"optimize": {"maxSegments": 1}}')
        if wrong := [count for count in self._segments() if count != 1]:
            raise SystemExit(f"Solr has not merged {name}: a shard has {wrong[0]} segments")

    def _post(self, path: str, body: bytes) -> Any:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as response:
            return json.load(response)

    def search(self, body: Mapping[str, Any]) -> list[float]:
        """Return the scores of the hits."""
        docs = self._post(f"/{self.name}/select", json.dumps(body).encode())["response"]["docs"]
        return [hit["score"] for hit in docs]

    def megabytes(self) -> float:
        """Return the size of Lucene's files in all shards."""
        return sum(shard["info"]["core"]["sizeInGB"] for shard in self._shards()) * 2**30 / 1e6

    def _segments(self) -> list[int]:
        """Return the number of segments of each shard."""
        return [shard["info"]["numSegments"] for shard in self._shards()]

    def _shards(self) -> list[Any]:
        told = self._post(f"/admin/collections?action=COLSTATUS&collection={self.name}&coreInfo=true", b"")
        return [shard["leader"]["segInfos"] for shard in told[self.name]["shards"].values()]

    def delete(self) -> None:
        """Delete it and its settings."""
        self._post(f"/admin/collections?action=DELETE&name={self.name}", b"")
        self._post(f"/admin/configs?action=DELETE&name={self.name}", b"")


def compare(export: Path, queries: Sequence[Query], address: str) -> list[dict[str, Any]]:
    """Load an export in both ways, ask it, and return a row of figures for each way to ask."""
    settings = Solr().settings(Made("", "", []), "weights")
    other = settings["schema.xml"]
    for there, here in zip(_FREQUENCIES, _PAYLOADS, strict=True):
        other = other.replace(there, here)
    one = Collection(f"{address}/solr", "frequencies", settings, export)
    two = Collection(f"{address}/solr", "payloads", {**settings, "schema.xml": other}, export)
    ways: list[tuple[str, Collection, Callable[[Query], dict[str, Any]]]] = [
        ("frequencies", one, frequencies),
        ("frequencies, minExactCount", one, not_counting),
        ("payloads", two, payloads),
    ]
    try:
        rows = {name: _ask(collection, way, queries) for name, collection, way in ways * ROUNDS}
        sizes = {name: collection.megabytes() for name, collection, _ in ways}
    finally:
        one.delete()
        two.delete()
    truth = rows["frequencies"].pop("scores")
    return [
        {"way": name, "equal": row.pop("scores", truth) == truth, **row, "megabytes": sizes[name]}
        for name, row in rows.items()
    ]


def _ask(
    collection: Collection, way: Callable[[Query], dict[str, Any]], queries: Sequence[Query]
) -> dict[str, Any]:
    scores, ms = [], []
    for query in queries:
        clock = time.perf_counter()
        scores.append(collection.search(way(query)))
        ms.append(1000 * (time.perf_counter() - clock))
    p50, p99 = np.percentile(ms, [50, 99]).tolist()
    return {"scores": scores, "queries_per_second": 1000 / np.mean(ms), "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    """Print a line of JSON for each way."""
    export, sentences = Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
    model = TextQueries(DEFAULT_MODEL)
    rows = [quantize(model.encode_query(parse_query(one), SENTENCE_TOPK)) for one in sentences]
    queries = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in rows]
    for row in compare(export, queries, sys.argv[3]):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
