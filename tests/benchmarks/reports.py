"""Reports of `lexlip bench engine` with made-up figures."""

from typing import Any


def row(qps: float, recall: float) -> dict[str, Any]:
    return {"qps": qps, "recall@10": recall, "build_s": 2.0, "index_mb": 10.0}


def report(documents: int, terms: int = 12) -> dict[str, Any]:
    graph = {f"faiss-hnsw-ef{ef}": row(50_000 / ef, 1 - 1 / ef) for ef in (16, 32, 64)}
    return {
        "conditions": {
            "documents": documents,
            "vocabulary": 500,
            "topk": 32,
            "query_terms": terms,
            "k": 10,
            "threads": 1,
        },
        "engines": {
            "lexlip": row(9_000, 1),
            "lexlip-single": row(5_000, 1),
            "lexlip-alpha0.9": row(12_000, 0.99),
            "lexlip-alpha0.8": row(15_000, 0.95),
            **graph,
            "seismic-cut2-heap0.9": row(9_000, 0.9),
            "seismic": row(9_000, 0.9),
        },
    }
