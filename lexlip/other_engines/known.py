"""The engines by name."""

from __future__ import annotations

from importlib import import_module

from lexlip.other_engines.engine_contract import OtherEngine

ENGINES = {
    "opensearch": "lucene_servers:OpenSearch",
    "elasticsearch": "lucene_servers:Elasticsearch",
    "qdrant": "vector_databases:Qdrant",
    "milvus": "vector_databases:Milvus",
    "vespa": "vespa:Vespa",
    "pgvector": "pgvector:Pgvector",
    "anserini": "anserini:Anserini",
}


def other_engine(name: str) -> OtherEngine:
    """Return the engine of a name in `ENGINES`."""
    module, kind = ENGINES[name].split(":")
    engine: OtherEngine = getattr(import_module(f"lexlip.other_engines.{module}"), kind)()
    return engine
