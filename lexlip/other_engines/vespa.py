"""Vespa: an application package with a weighted set of whole numbers, searched by `wand`."""

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
    partial,
)

TIMEOUT = "10s"
"""Vespa's own is half a second, after which it answers from what it has seen."""

_SCHEMA = """\
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
_SERVICES = """\
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


class Vespa(AskedEngine):
    """Vespa: scores are whole numbers of 32 bits."""

    name = "vespa"
    versions = "Vespa 8"
    bits = 31
    ending = ".jsonl"
    names = "[A-Za-z][A-Za-z0-9_]*"
    named = "ASCII letters, digits and '_', the first a letter"

    def settings(self, made: Made, target: str) -> dict[str, str]:
        return {
            f"application/schemas/{target}.sd": _SCHEMA.format(target=target, field=FIELD),
            "application/services.xml": _SERVICES.format(target=target),
        }

    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        lines = []
        for document in documents:
            weights = {str(n): weight for n, weight in zip(document.numbers, document.weights, strict=True)}
            fields = {"id": document.id, "model": made.model, "scheme": made.scheme, FIELD: weights}
            lines.append(compact({"put": f"id:lexlip:{target}::{document.key}", "fields": fields}))
        return "\n".join(lines) + "\n"

    def commands(self, target: str, photos: int) -> list[str]:
        auth = "()  # with certificates: AUTH=(--cert FILE --key FILE)"
        counted = {"yql": f"select * from {target} where true", "hits": 0, "timeout": TIMEOUT}
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
            "timeout": TIMEOUT,
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
