"""LexLIP: images and captions as a few weighted words, searched in an inverted index."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lexlip.cluster.shard_updating import update
    from lexlip.errors import FixableError, LexLIPError
    from lexlip.indexing.api import index
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.query_language import Query, parse_query
    from lexlip.retrieval.answer import Answer, Hit
    from lexlip.retrieval.filters import Filters
    from lexlip.search.photo_search import PhotoSearch

    __version__: str

__all__ = [
    "Answer",
    "Filters",
    "FixableError",
    "Hit",
    "LexLIP",
    "LexLIPError",
    "PhotoSearch",
    "Query",
    "index",
    "parse_query",
    "update",
]

# Idle OpenMP threads sleep rather than spin. Spinning ones take the cores from the processes that
# decode photos, and training on two cores becomes ten times slower. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# ONNX Runtime (1.32) keeps events and an id of the machine below ~/.cache, and sends them to its makers. Read
# when it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_MODULES = {
    "Answer": "retrieval.answer",
    "Filters": "retrieval.filters",
    "FixableError": "errors",
    "Hit": "retrieval.answer",
    "LexLIP": "models.lexlip",
    "LexLIPError": "errors",
    "PhotoSearch": "search.photo_search",
    "Query": "queries.query_language",
    "index": "indexing.api",
    "parse_query": "queries.query_language",
    "update": "cluster.shard_updating",
}


def __getattr__(name: str) -> object:
    """Load what is exported when asked for; MissingPackage: it needs one that an extra brings, as torch."""
    if name in _MODULES:
        from lexlip.errors import needing_extras

        with needing_extras():
            return getattr(import_module(f"lexlip.{_MODULES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("lexlip")
    raise AttributeError(f"module 'lexlip' has no attribute '{name}'")
