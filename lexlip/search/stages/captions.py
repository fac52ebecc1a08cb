"""The captions and keywords that an index has beside its words, as a second stage to fuse with them.

`lexlip.indexing.caption_index` says where they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anserini_bridge import BridgeError, IndexHeader, read_header
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.errors import DataError
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.retrieval.stored_facts import check_stored
from lexlip.search.stages.bm25 import BM25Metadata, BM25Stage, Opened


class CaptionsStage(BM25Stage):
    """See `FirstStage`.

    Args:
        index: the folder of an index of words or of dense vectors.

    Raises:
        DataError: none of its photos has captions or keywords.
    """

    def __init__(self, index: Path) -> None:
        self._start(index)

    @property
    def state(self) -> str:
        return f"{super().state} {self.metadata.extra['captions']['folder']}"

    def tables(self) -> list[PhotoTable]:
        return []  # the photos are those of the first stage

    def _open(self) -> Opened:
        while True:
            header = read_header(self.index)
            check_stored(self.index, header)
            captions: dict[str, Any] | None = header.extra.get("captions")
            if captions is None and header.extra.get("captions_left_out"):
                raise DataError(
                    f"the captions in the index {self.index} are not indexed, as Anserini was missing:"
                    " pip install 'lexlip[anserini]', and index again"
                )
            if captions is None:
                raise DataError(
                    f"no photo of the index {self.index} has a caption or a keyword: leave out --captions"
                )
            folder = self.index / header.directory / captions["folder"]
            try:
                searcher = Bm25Searcher(folder, language=captions["language"])
            except BridgeError:
                if read_header(self.index) == header:  # otherwise an update has just replaced the captions
                    raise
            else:
                return Opened(self._metadata_of(header), searcher)

    def _newest(self) -> BM25Metadata:
        return self._metadata_of(read_header(self.index))

    def _metadata_of(self, header: IndexHeader) -> BM25Metadata:
        return BM25Metadata(
            directory=header.directory,
            documents=header.documents,
            encoder=header.encoder,
            created=header.created,
            extra=header.extra,
            postings=0,
        )
