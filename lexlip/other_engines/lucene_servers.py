"""OpenSearch and Elasticsearch: weights as Lucene's FeatureField, which keeps nine significant bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lexlip.other_engines.engine_contract import (
    FIELD,
    AskedEngine,
    Document,
    EngineError,
    Found,
    Made,
    Request,
    compact,
    count,
    curl,
    found,
    partial,
    pretty,
)

LARGEST_WEIGHT = 64
"""The largest weight of `neural_sparse`: Lucene's linear feature query refuses more."""

DIVISOR = 16
"""A weight of up to 1000 is sent as a 16th, which floats hold exactly, and the score is multiplied again."""


class _LuceneServer(AskedEngine):
    """Both are installed with https, a user's password, and a certificate of an authority of their own."""

    bits = 9
    ending = ".ndjson"
    names = "[a-z0-9_.-]+"
    named = "lower-case ASCII letters, digits, '.', '_' and '-', the first a letter or a digit"
    user: ClassVar[str]
    authority: ClassVar[str]

    def _mapping(self, field: dict[str, Any]) -> str:
        keyword = {"type": "keyword", "index": False, "doc_values": False}
        properties = {"id": keyword, "model": keyword, "scheme": keyword, FIELD: field}
        return pretty({"mappings": {"dynamic": "strict", "properties": properties}})

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        lines = (
            f"{compact({'index': {'_id': one.key}})}\n{compact({**one.stored(made), FIELD: one.named})}\n"
            for one in documents
        )
        return "".join(lines)

    def commands(self, target: str, photos: int) -> list[str]:
        auth = (
            f"(-u '{self.user}:PASSWORD')"
            f"  # without a password: AUTH=(); for a certificate of its own add --cacert {self.authority}"
        )
        return [
            *curl("https://localhost:9200", auth, '"errors":true'),
            f"send PUT /{target} @index.json",
            "for file in documents-*.ndjson; do",
            f"    send POST '/{target}/_bulk?filter_path=errors,items.*.error' \"@$file\"",
            "done",
            f"send POST /{target}/_refresh",
            f"send POST /{target}/_search @query.json",
            'echo "$answer"',
            f"send GET /{target}/_count",
            count(photos),
        ]

    def _search(self, query: dict[str, Any], k: int, target: str) -> Request:
        body = {"size": k, "track_total_hits": False, "_source": ["id", "model", "scheme"], "query": query}
        return Request(f"/{target}/_search", body)

    def found(self, answer: Any) -> list[Found]:
        if error := answer.get("error"):
            raise EngineError(f"refuses ({error.get('reason', error) if isinstance(error, dict) else error})")
        shards = answer.get("_shards", {})
        if failed := shards.get("failed", 0):
            raise partial(f"{failed} of {shards['total']} shards failed")
        if answer.get("timed_out", False):
            raise partial("its own time ran out")
        return [found(hit["_source"], hit["_score"]) for hit in answer["hits"]["hits"]]


class OpenSearch(_LuceneServer):
    """OpenSearch: `rank_features`, asked by features in a `bool`, which needs no plugin."""

    name = "opensearch"
    user, authority = "admin", "root-ca.pem"
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
        if max(tokens.values(), default=0) <= LARGEST_WEIGHT:
            files["query-neural-sparse.json"] = pretty(self._search(sparse, k, target).body)
        return files


class Elasticsearch(_LuceneServer):
    """Elasticsearch: `sparse_vector`, without the pruning that is on by default."""

    name = "elasticsearch"
    user, authority = "elastic", "http_ca.crt"
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
