"""The first stage without a model: photos by their captions' own words, in Lucene's BM25.

DIR/data-<n>/lucene/, in an index's folder as anserini_bridge.storage describes it; a photo's document is
all of its captions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anserini_bridge import IndexHeader, folder_megabytes, read_metadata_as, replace_index, write_metadata
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from lexlip.data import Skipped, Source
from lexlip.errors import DataError, ModelError
from lexlip.models.folder import BM25
from lexlip.search.collection import describe_collection
from lexlip.search.encoder import check_no_model
from lexlip.search.first_stage import Found
from lexlip.search.indexing import Indexed, writing_to

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder

NO_CAPTION = "no caption"  # why a photo is left out


@dataclass(frozen=True, kw_only=True)
class CaptionMetadata(IndexHeader):
    """What `index.json` says of an index of captions."""

    kind: str = "bm25"
    postings: int
    language: str = "en"  # whose stop words and stems it was made with; older indexes do not say


def index_captions(source: Source, listed: float, index: str | Path, language: str = "en") -> Indexed:
    """Index the photos of a source by their captions; the photos are not opened.

    Args:
        source, listed, index: as for `lexlip.search.indexing.index_photos`.
        language: of the captions, one of `anserini_bridge.bm25.LANGUAGES`; a search uses the same.

    Raises:
        DataError: no photo has a caption, or the folder cannot be written; the old index stays.
        BridgeError: no Java, the folder is not an index, or another process is writing to it.
    """
    started = time.perf_counter()
    index = Path(index)
    texts = {item.id: " ".join(item.captions) for item in source.items if item.captions}
    without = [Skipped(item.id, NO_CAPTION) for item in source.items if not item.captions]
    if not texts:
        raise DataError(f"no photo of {source.name} has a caption: BM25 has nothing to search")
    extra = {"model": BM25, **describe_collection(source, index, listed)}
    with writing_to(index), replace_index(index) as folder:
        write_bm25_index(folder / "lucene", list(texts), list(texts.values()), language)
        with Bm25Searcher(folder / "lucene") as searcher:
            postings = searcher.postings
        metadata = CaptionMetadata(
            directory=folder.name,
            documents=len(texts),
            encoder=BM25,
            postings=postings,
            language=language,
            extra=extra,
        )
        write_metadata(index, metadata)
    return Indexed(
        index=str(index),
        photos=len(texts),
        postings=postings,
        megabytes=folder_megabytes(index),
        seconds=time.perf_counter() - started,
        skipped=[*source.skipped, *without],
    )


class CaptionStage:
    """See `FirstStage`; it has no model, so pictures cannot search.

    Args:
        index: the index's folder.
        model: None, or "bm25".
    """

    def __init__(self, index: Path, model: str | None = None) -> None:
        self.index = index
        self.metadata = read_metadata_as(CaptionMetadata, index)
        check_no_model(index, self.metadata, model)
        self.searcher = Bm25Searcher(
            index / self.metadata.directory / "lucene", language=self.metadata.language
        )

    @property
    def encoder(self) -> Encoder:
        raise ModelError(
            f"the index {self.index} holds captions (BM25), which a picture cannot search:"
            " give a sentence, or index with a model"
        )

    def encode(self, query: str) -> str:
        return query

    def unknown(self, query: str) -> list[str]:
        return []

    def find(self, query: str, k: int) -> Found:
        (ids,), (scores,) = self.searcher.search([query], k)
        return Found.without_words(ids, scores)

    def close(self) -> None:
        self.searcher.close()
