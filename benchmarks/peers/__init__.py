"""The engines that are measured: this project's and its peers', with one interface for all libraries.

An engine is a library with a setting, such as Faiss's HNSW graph searched with efSearch = 64. Engines of the
same library share an index and a process. None of the libraries is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal

from benchmarks.peers.library import Library
from lexlip.errors import ConfigError

Calls = Literal["batch", "one by one"]


@dataclass(frozen=True)
class EngineSpec:
    """One line of the report."""

    name: str
    library: str  # key of LIBRARIES
    calls: Calls  # whether one call is timed for all queries, or one for each
    setting: dict[str, Any] = field(default_factory=dict)  # of the library at search time
    clients: int = 0  # threads that search one query after another, in a further measurement; 0: no such


LIBRARIES = {
    "lexlip": "lucene:LexLIP",
    "pyserini": "lucene:Pyserini",
    "anserini": "lucene:Anserini",
    "faiss-flat": "dense:Flat",
    "faiss-hnsw": "dense:HNSW",
    "faiss-ivf-sq8": "dense:IVF",
    "faiss-ivf-pq": "dense:IVFPQ",
    "seismic": "sparse:Seismic",
    "seismic-knn": "sparse:SeismicKnn",
    "bmp": "bmp:BMP",
    "kannolo": "sparse:Kannolo",
    "sindi": "sparse:Sindi",
    "qdrant": "qdrant:Qdrant",
    "scipy": "sparse:Scipy",
}
"""Module and class of each library."""

ALPHAS = (0.95, 0.9, 0.85, 0.8, 0.75)
"""Settings of the approximate mode; see `ImpactSearcher.search`."""

SEISMIC = ((2, 0.9), (4, 0.9), (6, 0.9), (10, 0.9), (12, 0.8), (20, 0.7))
"""query_cut (terms of a query whose lists are read) and heap_factor, from fast to nearly exact."""

SEISMIC_KNN = ((2, 1.0), (3, 1.0), (4, 1.0), (6, 0.9), (8, 0.8))
"""The same with the graph: the pairs of the authors' own experiments (CIKM 2024)."""

KANNOLO_EFS = (16, 32, 64, 128, 256)
"""Candidates that are followed in the graph."""

SINDI_PRUNED = (0.0, 0.2, 0.4, 0.6)
"""Shares of the words of a query that are left out, lightest first."""

BMP_ALPHAS = (0.9, 0.8)
"""Shares of a block's bound that must exceed the k-th score for the search to go on."""


def _seismic(library: str, cut: int, heap: float) -> EngineSpec:
    setting = {"query_cut": cut, "heap_factor": heap}
    return EngineSpec(f"{library}-cut{cut}-heap{heap}", library, "one by one", setting)


ENGINES = {
    spec.name: spec
    for spec in [
        EngineSpec("lexlip", "lexlip", "batch", {"alpha": 1.0}),
        EngineSpec("lexlip-single", "lexlip", "one by one", {"alpha": 1.0}, clients=2),
        *(EngineSpec(f"lexlip-alpha{alpha}", "lexlip", "batch", {"alpha": alpha}) for alpha in ALPHAS),
        EngineSpec("pyserini", "pyserini", "batch"),
        EngineSpec("anserini", "anserini", "batch"),
        EngineSpec("faiss-flat", "faiss-flat", "one by one"),
        EngineSpec("faiss-flat-batch", "faiss-flat", "batch"),
        *(
            EngineSpec(f"faiss-hnsw-ef{ef}", "faiss-hnsw", "one by one", {"efSearch": ef})
            for ef in (16, 32, 48, 64, 128, 256, 512)
        ),
        *(
            EngineSpec(f"{library}-nprobe{n}", library, "one by one", {"nprobe": n})
            for library in ("faiss-ivf-sq8", "faiss-ivf-pq")
            for n in (1, 4, 16, 64)
        ),
        *(_seismic("seismic", cut, heap) for cut, heap in SEISMIC),
        *(_seismic("seismic-knn", cut, heap) for cut, heap in SEISMIC_KNN),
        EngineSpec("bmp", "bmp", "one by one", {"alpha": 1.0}),
        *(EngineSpec(f"bmp-alpha{alpha}", "bmp", "one by one", {"alpha": alpha}) for alpha in BMP_ALPHAS),
        *(EngineSpec(f"kannolo-ef{ef}", "kannolo", "one by one", {"ef": ef}) for ef in KANNOLO_EFS),
        *(EngineSpec(f"sindi-prune{p:g}", "sindi", "one by one", {"query_prune": p}) for p in SINDI_PRUNED),
        EngineSpec("qdrant", "qdrant", "one by one"),
        EngineSpec("scipy", "scipy", "one by one"),
    ]
}
"""All engines by name, in the order of the report."""


def choose(names: Sequence[str]) -> list[EngineSpec]:
    """Return engines by name, in the order of the report; a library's name means all its settings.

    Raises:
        ConfigError: there is no such engine.
    """
    chosen: set[str] = set()
    for name in names:
        found = {name} & {*ENGINES} or {spec.name for spec in ENGINES.values() if spec.library == name}
        if not found:
            near = get_close_matches(name, [*ENGINES, *LIBRARIES], n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(ENGINES)}"
            raise ConfigError(f"there is no engine '{name}'{hint}")
        chosen |= found
    return [spec for name, spec in ENGINES.items() if name in chosen or not names]


def library_class(name: str) -> type[Library]:
    """Return the class of a library, without importing the library."""
    module, kind = LIBRARIES[name].split(":")
    found: type[Library] = getattr(import_module(f"benchmarks.peers.{module}"), kind)
    return found
