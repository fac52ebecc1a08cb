"""An impact index of Lucene's as an engine for float vectors: what is written and asked is quantised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anserini_bridge.sparse_rows import Rows
from lexlip.retrieval.first_stage import Results
from lexlip.sparse.quantize import Scheme, quantize, quantize_queries, scale_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from anserini_bridge import FlatSearcher, ImpactSearcher, ImpactWriter
    from lexlip.machine.progress import ProgressBar
    from lexlip.search.engines.shards import ShardedSearcher

    WordSearcher = FlatSearcher | ImpactSearcher | ShardedSearcher

Cut = Callable[["csr_matrix"], "csr_matrix"]
"""What a document keeps of its vector, such as its K heaviest words."""


class LuceneEngine:
    """An open impact index that takes float queries and quantises them as its documents were.

    Attributes:
        unit: a score of 1 in the index's whole numbers: query scale times document scale.
    """

    def __init__(self, searcher: WordSearcher, threads: int = 1) -> None:
        self.searcher, self.threads = searcher, threads
        self.scheme: Scheme = searcher.metadata.quantization["scheme"]
        self.unit = scale_of(self.scheme) ** 2

    def quantized(self, queries: csr_matrix | Rows) -> Rows:
        """Return float queries [n, V] as whole weights, as the index takes them."""
        return quantize_queries(queries, self.scheme)

    def search(self, queries: csr_matrix, k: int) -> Results:
        ids, scores = self.searcher.search(self.quantized(queries), k, self.threads)
        return ids, [row / self.unit for row in scores]


def impact_writer(
    folder: str | Path,
    words: Sequence[str],
    scheme: Scheme = "unit",
    topk_words: int | None = None,
    encoder: str = "temporary",
    extra: Mapping[str, Any] | None = None,
    memory_mb: float = 512,
    flat: bool = False,
) -> ImpactWriter:
    """Return a writer of a new index for vectors that `quantize` made whole; see `ImpactWriter`.

    Of `topk_words` and the encoder's identity the index keeps a record.
    """
    from anserini_bridge import ImpactWriter

    return ImpactWriter(
        folder,
        words,
        encoder=encoder,
        quantization={"scheme": scheme, "scale": scale_of(scheme)},
        topk=topk_words,
        normalize=scheme == "unit",
        extra=extra,
        memory_mb=memory_mb,
        flat=flat,
    )


def write_impacts(
    cuts: Mapping[Path, Cut],
    words: Sequence[str],
    documents: Iterable[tuple[Sequence[str], csr_matrix]],
    scheme: Scheme = "unit",
    memory_mb: float = 512,
    progress: ProgressBar | None = None,
) -> None:
    """Write several temporary indexes of the same documents together, so that documents are made only once.

    Args:
        cuts: by the index's folder what a document keeps of its vector.
        documents: ids and float vectors [n, V], batch by batch.
        progress: counts documents.
    """
    with ExitStack() as stack:
        writers = {
            folder: stack.enter_context(impact_writer(folder, words, scheme, memory_mb=memory_mb))
            for folder in cuts
        }
        for ids, vectors in documents:
            for folder, writer in writers.items():
                writer.add(ids, quantize(cuts[folder](vectors), scheme))
            if progress is not None:
                progress.update(len(ids))


@contextmanager
def temporary_lucene_engine(
    ids: Sequence[str], vectors: csr_matrix, words: Sequence[str], scheme: Scheme = "unit", threads: int = 1
) -> Iterator[LuceneEngine]:
    """Give a LuceneEngine of n documents, float [n, V] cut to their top-K, that exists for a `with` block."""
    import tempfile

    from anserini_bridge import ImpactSearcher

    with tempfile.TemporaryDirectory(prefix="lexlip-") as folder:
        write_impacts({Path(folder): lambda rows: rows}, words, [(ids, vectors)], scheme)
        with ImpactSearcher(folder) as searcher:
            yield LuceneEngine(searcher, threads)
