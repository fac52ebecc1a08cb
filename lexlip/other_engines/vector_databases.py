"""Qdrant and Milvus: sparse vectors of float32, exact as long as scores stay below 2^24."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    pretty,
)


class Qdrant(AskedEngine):
    """Qdrant: a collection with one named sparse vector and no dense one."""

    name = "qdrant"
    versions = "Qdrant 1.10 and later"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        index = {"on_disk": False, "datatype": "float32"}
        return {"collection.json": pretty({"vectors": {}, "sparse_vectors": {FIELD: {"index": index}}})}

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        points = [
            {
                "id": document.key,
                "vector": {FIELD: {"indices": document.numbers, "values": document.weights}},
                "payload": {"id": document.id, "model": made.model, "scheme": made.scheme},
            }
            for document in documents
        ]
        return compact({"points": points})

    def commands(self, target: str, photos: int) -> list[str]:
        api = f"/collections/{target}"
        auth = "()  # with a key: AUTH=(-H 'api-key: KEY')"
        return [
            *curl("http://localhost:6333", auth, '"status":\\{"error"'),
            f"send PUT {api} @collection.json",
            "for file in documents-*.json; do",
            f"    send PUT '{api}/points?wait=true' \"@$file\"",
            "done",
            f"send POST {api}/points/query @query.json",
            'echo "$answer"',
            f"send POST {api}/points/count '{{\"exact\": true}}'",
            count(photos),
        ]

    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        vector = {"indices": list(query), "values": [float(weight) for weight in query.values()]}
        body = {"query": vector, "using": FIELD, "limit": k, "with_payload": True}
        return Request(f"/collections/{target}/points/query", body)

    def found(self, answer: Any) -> list[Found]:
        if isinstance(answer["status"], dict):
            raise EngineError(f"refuses ({answer['status']['error']})")
        return [found(point["payload"], point["score"]) for point in answer["result"]["points"]]

    def key_header(self, key: str) -> dict[str, str]:
        return {"api-key": key}


class Milvus(AskedEngine):
    """Milvus: an inverted index that drops nothing, through its HTTP API."""

    name = "milvus"
    versions = "Milvus 2.5.4 and later (inverted_index_algo), HTTP API v2"
    names = "[A-Za-z][A-Za-z0-9_]*"
    named = "ASCII letters, digits and '_', the first a letter"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        def text(name: str, length: int, **more: Any) -> dict[str, Any]:
            given = {"fieldName": name, "dataType": "VarChar", **more}
            return given | {"elementTypeParams": {"max_length": str(length)}}

        fields = [
            text("key", 36, isPrimary=True),
            text("id", 32_766),  # as long as an index allows
            text("model", 512),
            text("scheme", 16),
            {"fieldName": FIELD, "dataType": "SparseFloatVector"},
        ]
        index = {
            "fieldName": FIELD,
            "indexName": FIELD,
            "metricType": "IP",
            "params": {"index_type": "SPARSE_INVERTED_INDEX", "inverted_index_algo": "DAAT_MAXSCORE"},
        }
        schema = {"autoId": False, "enableDynamicField": False, "fields": fields}
        return {
            "collection.json": pretty({"collectionName": target, "schema": schema, "indexParams": [index]})
        }

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        rows = [
            {
                "key": document.key,
                "id": document.id,
                "model": made.model,
                "scheme": made.scheme,
                FIELD: {
                    str(n): float(weight)
                    for n, weight in zip(document.numbers, document.weights, strict=True)
                },
            }
            for document in documents
        ]
        return compact({"collectionName": target, "data": rows})

    def commands(self, target: str, photos: int) -> list[str]:
        api = "send POST /v2/vectordb"
        auth = "()  # with a password: AUTH=(-H 'Authorization: Bearer USER:PASSWORD')"
        counted = compact({"collectionName": target, "filter": "", "outputFields": ["count(*)"]})
        return [
            *curl("http://localhost:19530", auth, '"code":[^0]'),
            f"{api}/collections/create @collection.json",
            "for file in documents-*.json; do",
            f'    {api}/entities/upsert "@$file"',
            "done",
            f"{api}/entities/search @query.json",
            'echo "$answer"',
            "# this count may lag behind by some seconds",
            f"{api}/entities/query '{counted}'",
            count(photos),
        ]

    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        body = {
            "collectionName": target,
            "data": [{str(number): float(weight) for number, weight in query.items()}],
            "annsField": FIELD,
            "limit": k,
            "outputFields": ["id", "model", "scheme"],
            "searchParams": {"metricType": "IP", "params": {"drop_ratio_search": 0}},
        }
        return Request("/v2/vectordb/entities/search", body)

    def found(self, answer: Any) -> list[Found]:
        if answer["code"] != 0:
            raise EngineError(f"refuses (code {answer['code']}: {answer.get('message', '')})")
        return [found(row, row["distance"]) for row in answer["data"]]
