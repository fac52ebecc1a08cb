"""Engines that are asked over HTTP.

OpenSearch and Elasticsearch have weights as Lucene's FeatureField, which keeps nine significant bits. Solr
has them as frequencies of terms, Qdrant and Milvus as sparse vectors of float32: exact as long as scores stay
below 2^24. Vespa has whole numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from anserini_bridge.given_files import parse_json
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

VESPA_TIMEOUT = "10s"
"""Vespa's own is half a second, after which it answers from what it has seen."""

SOLR_SCHEMA = """\
<?xml version="1.0" encoding="UTF-8"?>
<schema name="{target}" version="1.6">
    <uniqueKey>key</uniqueKey>
    <field name="key" type="string" indexed="true" stored="true" required="true"/>
    <field name="id" type="string" indexed="{searched}" stored="true" docValues="{searched}"/>
    <field name="model" type="string" indexed="false" stored="true"/>
    <field name="scheme" type="string" indexed="false" stored="true"/>
    <field name="{field}" type="weighted" indexed="true" stored="{searched}"/>
    <field name="_version_" type="long" indexed="false" stored="false" docValues="true"/>{more}
    <fieldType name="string" class="solr.StrField"/>
    <fieldType name="long" class="solr.LongPointField"/>
    <fieldType name="weighted" class="solr.TextField" omitNorms="true" omitPositions="true">
        <analyzer type="index">
            <tokenizer class="solr.WhitespaceTokenizerFactory"/>
            <filter class="solr.DelimitedTermFrequencyTokenFilterFactory" delimiter="|"/>
        </analyzer>
        <analyzer type="query">
            <tokenizer class="solr.WhitespaceTokenizerFactory"/>
        </analyzer>
        <similarity class="org.apache.lucene.search.similarities.RawTFSimilarity"/>
    </fieldType>
    <similarity class="solr.SchemaSimilarityFactory"/>
</schema>
"""
"""Of an export, or with `more` fields of one whose documents are `searched` for more than words."""

SOLR_CONFIG = """\
<?xml version="1.0" encoding="UTF-8"?>
<config>
    <luceneMatchVersion>LATEST</luceneMatchVersion>
    <schemaFactory class="ClassicIndexSchemaFactory"/>
    <updateHandler class="solr.DirectUpdateHandler2">
        <updateLog/>
        <autoCommit>
            <maxTime>15000</maxTime>
            <openSearcher>false</openSearcher>
        </autoCommit>
    </updateHandler>
    <requestHandler name="/select" class="solr.SearchHandler"/>
</config>
"""
_SOLR_REASON = re.compile(r'"msg":\s*("(?:[^"\\]|\\.)*")')
_VESPA_SCHEMA = """\
schema {target} {{
    document {target} {{
        field id type string {{
            indexing: summary
        }}
        field model type string {{
            indexing: summary
        }}
        field scheme type string {{
            indexing: summary
        }}
        field {field} type weightedset<int> {{
            indexing: attribute
            attribute: fast-search
        }}
    }}
    rank-profile {field} {{
        first-phase {{
            expression: rawScore({field})
        }}
    }}
}}
"""
_VESPA_SERVICES = """\
<?xml version="1.0" encoding="utf-8" ?>
<services version="1.0">
    <container id="default" version="1.0">
        <search />
        <document-api />
    </container>
    <content id="photos" version="1.0">
        <min-redundancy>1</min-redundancy>
        <documents>
            <document type="{target}" mode="index" />
        </documents>
        <nodes>
            <node hostalias="node1" distribution-key="0" />
        </nodes>
    </content>
</services>
"""


class _LuceneServer(AskedEngine):
    """Both are installed with https, a user's password, and a certificate of an authority of their own."""

    bits = 9
    ending = ".ndjson"
    limit = "http.max_content_length"
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

    def reason(self, text: str) -> str:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            error = parse_json(text)["error"]
            return error if isinstance(error, str) else str(error.get("caused_by", error)["reason"])
        return text

    def found(self, answer: Any) -> list[Found]:
        return [found(hit["_source"], hit["_score"]) for hit in self.hits(answer)]

    def hits(self, answer: Any) -> Any:
        """Return the hits of an answer that is no error and covers all documents; see `found`."""
        if error := answer.get("error"):
            raise EngineError(f"refuses ({error.get('reason', error) if isinstance(error, dict) else error})")
        shards = answer["_shards"]
        if missing := shards["total"] - shards["successful"]:  # "failed" leaves out shards that no node has
            raise partial(f"{missing} of {shards['total']} shards did not answer")
        if answer.get("timed_out", False):
            raise partial("its own time ran out")
        return answer["hits"]["hits"]


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


class Solr(AskedEngine):
    """Solr: a word is a term whose frequency is its weight, and the score of a term is its frequency."""

    name = "solr"
    versions = "Solr 9.9 and later (RawTFSimilarity), as SolrCloud"
    root = "/solr"
    may_pass = (*AskedEngine.may_pass, 500)  # a shard whose leader has died answers so

    def settings(self, made: Made, target: str) -> dict[str, str]:
        schema = SOLR_SCHEMA.format(target=target, field=FIELD, searched="false", more="")
        return {"schema.xml": schema, "solrconfig.xml": SOLR_CONFIG}

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        rows = [
            {
                "key": document.key,
                **document.stored(made),
                FIELD: " ".join(f"{number}|{weight}" for number, weight in document.named.items()),
            }
            for document in documents
        ]
        return compact(rows)

    def commands(self, target: str, photos: int) -> list[str]:
        auth = "()  # with a password: AUTH=(-u 'USER:PASSWORD')"
        upload = f"/solr/admin/configs?action=UPLOAD&name={target}&overwrite=true&filePath="
        create = f"/solr/admin/collections?action=CREATE&name={target}&collection.configName={target}"
        return [
            *curl("http://localhost:8983", auth, '"error":|"partialResults":true'),
            "for file in schema.xml solrconfig.xml; do",
            f'    send POST "{upload}$file" "@$file"',
            "done",
            f"send POST '{create}&numShards=1&replicationFactor=1'",
            "for file in documents-*.json; do",
            f'    send POST /solr/{target}/update "@$file"',
            "done",
            f"send POST /solr/{target}/update '{compact({'commit': {}})}'",
            f"send POST /solr/{target}/select @query.json",
            'echo "$answer"',
            f"send POST /solr/{target}/select '{compact({'query': '*:*', 'limit': 0})}'",
            count(photos),
        ]

    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        terms = " ".join(f"{number}^{weight}" for number, weight in query.items())
        body = {
            "query": f"{FIELD}:({terms})",
            "limit": k,
            "fields": ["id", "model", "scheme", "score"],
            "params": {"shards.tolerant": False, "omitHeader": False},
        }
        return Request(f"/solr/{target}/select", body)

    def found(self, answer: Any) -> list[Found]:
        self.check_whole(answer)
        return [found(hit, hit["score"]) for hit in answer["response"]["docs"]]

    def check_whole(self, answer: Any) -> None:
        """Check that an answer is no error and covers all documents; see `found`."""
        if error := answer.get("error"):
            raise EngineError(f"refuses (code {error.get('code')}: {error.get('msg', '')})")
        if answer["responseHeader"].get("partialResults", False):
            raise partial("partialResults")

    def reason(self, text: str) -> str:
        said = _SOLR_REASON.search(text)
        return str(json.loads(said[1])) if said else text


class Qdrant(AskedEngine):
    """Qdrant: a collection with one named sparse vector and no dense one."""

    name = "qdrant"
    versions = "Qdrant 1.10 and later"
    limit = "service.max_request_size_mb"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        index = {"on_disk": False, "datatype": "float32"}
        return {"collection.json": pretty({"vectors": {}, "sparse_vectors": {FIELD: {"index": index}}})}

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        points = [
            {
                "id": document.key,
                "vector": {FIELD: {"indices": document.numbers, "values": document.weights}},
                "payload": document.stored(made),
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
                **document.stored(made),
                FIELD: {number: float(weight) for number, weight in document.named.items()},
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


class Vespa(AskedEngine):
    """Vespa: an application package with a weighted set of whole numbers of 32 bits, searched by `wand`."""

    name = "vespa"
    versions = "Vespa 8"
    bits = 31
    ending = ".jsonl"
    names = "[A-Za-z][A-Za-z0-9_]*"
    named = "ASCII letters, digits and '_', the first a letter"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {
            f"application/schemas/{target}.sd": _VESPA_SCHEMA.format(target=target, field=FIELD),
            "application/services.xml": _VESPA_SERVICES.format(target=target),
        }

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        lines = []
        for document in documents:
            fields = {**document.stored(made), FIELD: document.named}
            lines.append(compact({"put": f"id:lexlip:{target}::{document.key}", "fields": fields}))
        return "\n".join(lines) + "\n"

    def commands(self, target: str, photos: int) -> list[str]:
        auth = "()  # with certificates: AUTH=(--cert FILE --key FILE)"
        counted = {"yql": f"select * from {target} where true", "hits": 0, "timeout": VESPA_TIMEOUT}
        return [
            *curl("http://localhost:8080", auth, '"errors":|"degraded":'),
            'vespa deploy --wait 300 application || stop "vespa deploy"',
            "for file in documents-*.jsonl; do",
            '    answer=$(vespa feed --target "$URL" "$file") || stop "$file"',
            '    loaded="\\"feeder.ok.count\\": $(grep -c . "$file"),"',
            '    grep -q "$loaded" <<< "$answer" || stop "$file"',
            "done",
            "send POST /search/ @query.json",
            'echo "$answer"',
            f"send POST /search/ '{compact(counted)}'",
            count(photos),
        ]

    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        pairs = ",".join(f"[{number},{weight}]" for number, weight in query.items())
        body = {
            "yql": f"select id, model, scheme from {target}"
            f" where ({{targetHits:{k}}}wand({FIELD},[{pairs}]))",
            "hits": k,
            "ranking": FIELD,
            "timeout": VESPA_TIMEOUT,
        }
        return Request("/search/", body)

    def found(self, answer: Any) -> list[Found]:
        root = answer["root"]
        if errors := root.get("errors"):
            code, message = errors[0].get("code"), errors[0].get("message", errors[0].get("summary", ""))
            raise EngineError(f"refuses (code {code}: {message})")
        if degraded := root.get("coverage", {}).get("degraded"):
            raise partial(", ".join(name for name, true in degraded.items() if true) or "degraded")
        return [found(hit["fields"], hit["relevance"]) for hit in root.get("children", [])]
