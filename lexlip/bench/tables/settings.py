"""How the rows of a table are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lexlip.machine.progress import ProgressBar
from lexlip.models.contract import Encoder
from lexlip.retrieval.engine import EngineName
from lexlip.sparse.balance import usual_scheme
from lexlip.sparse.quantize import Scheme

TopK = int | None  # words that a document keeps; None: all


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """How the rows of a table are measured.

    Attributes:
        topks: words that a document keeps, one row each; None keeps all. Dense models have none.
        engine: for the models that it can search; the others, and all if it is None, have their default.
        scheme: see `lexlip.sparse.quantize`; None is the usual one of each model.
        query_topk: words that a query keeps; None keeps all.
        depth: documents that a query finds.
        language: of the captions, for BM25; see `anserini_bridge.bm25.LANGUAGES`.
        synthetic: vectors added to the photos, and as many to the captions.
        threads: while speed is measured; recall uses all cores.
        rounds: of the measurement of speed.
        seed: of everything that is drawn.
        workers: threads that decode photos.
        device: where models encode; see `lexlip.machine.device.pick_device`.
        progress: show progress bars.
    """

    topks: Sequence[TopK] = (None,)
    engine: EngineName | None = None
    scheme: Scheme | None = None
    query_topk: int | None = None
    depth: int = 10
    language: str = "en"
    synthetic: int = 0
    threads: int = 1
    rounds: int = 5
    seed: int = 0
    workers: int = 2
    device: str = "cpu"
    progress: bool = False

    def scheme_of(self, model: Encoder) -> Scheme:
        """Return how a model's documents are quantised."""
        return self.scheme or usual_scheme(model.balance)

    def bar(self, what: str, total: int, unit: str) -> ProgressBar:
        """Return a progress bar on stderr, if the work takes over two seconds."""
        return ProgressBar(total=total, unit=unit, desc=what, disable=not self.progress, delay=2)


def topk_name(kept: TopK) -> str:
    """Return "all", or "top-32"."""
    return "all" if kept is None else f"top-{kept}"
