"""OpenSearch and Elasticsearch: weights as Lucene's FeatureField, which keeps nine significant bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lexlip.other_engines.engine_contract import (
    FIELD,
    AskedEngine,
    Document,
    Found,
    Made,
    Request,
    compact,
    found,
    pretty,
)

LARGEST = 64
"""The largest weight of `neural_sparse`: Lucene's linear feature query refuses more."""

DIVISOR = 16
"""A weight of up to 1000 is sent as a 16th, which floats hold exactly, and the score is multiplied again."""


class _LuceneServer(AskedEngine):
    bits = 9
    ending = ".ndjson"
    host = "http://localhost:9200"

    def _mapping(self, field: dict[str, Any]) -> str:
        keyword = {"type": "keyword", "index": False, "doc_values": False}
        properties = {"id": keyword, "model": keyword, "scheme": keyword, FIELD: field}
        return pretty({"mappings": {"dynamic": "strict", "properties": properties}})

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        lines = []
        for document in documents:
            lines.append(compact({"index": {"_id": document.key}}))
            weights = {str(n): weight for n, weight in zip(document.numbers, document.weights, strict=True)}
            lines.append(
                compact({"id": document.id, "model": made.model, "scheme": made.scheme, FIELD: weights})
            )
        return "\n".join(lines) + "\n"

    def commands(self, target: str, host: str) -> list[str]:
        return [
            f"curl --fail-with-body -X PUT {host}/{target} -H 'Content-Type: application/json'"
            " --data-binary @index.json",
            "for file in documents-*.ndjson; do curl --fail-with-body --silent"
            f" -X POST '{host}/{target}/_bulk?filter_path=errors,items.*.error'"
            " -H 'Content-Type: application/x-ndjson' --data-binary @$file; done",
            f"curl --fail-with-body -X POST {host}/{target}/_refresh",
            f"curl --fail-with-body -X POST {host}/{target}/_search -H 'Content-Type: application/json'"
            " --data-binary @query.json",
        ]

    def _search(self, query: dict[str, Any], k: int, target: str) -> Request:
        body = {"size": k, "track_total_hits": False, "_source": ["id", "model", "scheme"], "query": query}
        return Request(f"/{target}/_search", body)

    def found(self, answer: Any) -> list[Found]:
        return [found(hit["_source"], hit["_score"]) for hit in answer["hits"]["hits"]]


class OpenSearch(_LuceneServer):
    """OpenSearch: `rank_features`, asked by features in a `bool`, which needs no plugin."""

    name = "opensearch"
    versions = "OpenSearch 2.11 and later; query-neural-sparse.json 3.0 and later"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {"index.json": self._mapping({"type": "rank_features"})}

    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        features = [
            {"rank_feature": {"field": f"{FIELD}.{number}", "linear": {}, "boost": weight}}
            for number, weight in query.items()
        ]
        return self._search({"bool": {"should": features}}, k, target)

    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        tokens = {str(number): weight / DIVISOR for number, weight in query.items()}
        sparse = {"neural_sparse": {FIELD: {"query_tokens": tokens, "boost": DIVISOR}}}
        files = super().examples(query, k, made, target)
        if max(tokens.values(), default=0) <= LARGEST:
            files["query-neural-sparse.json"] = pretty(self._search(sparse, k, target).body)
        return files


class Elasticsearch(_LuceneServer):
    """Elasticsearch: `sparse_vector`, without the pruning that is on by default."""

    name = "elasticsearch"
    versions = "Elasticsearch 8.19 and 9.1, and later; from 8.15 on without the index_options of index.json"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {"index.json": self._mapping({"type": "sparse_vector", "index_options": {"prune": False}})}

    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        vector = {str(number): weight for number, weight in query.items()}
        return self._search(
            {"sparse_vector": {"field": FIELD, "query_vector": vector, "prune": False}}, k, target
        )

    def key_header(self, key: str) -> dict[str, str]:
        return {"Authorization": f"ApiKey {key}"}
