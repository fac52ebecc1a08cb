"""The first stage over an index that Anserini made of a model's words, as of `lexlip export anserini`."""

from __future__ import annotations

from typing import Any

from anserini_bridge import IndexHeader
from anserini_bridge.anserini_index import AnseriniSearcher
from anserini_bridge.metadata import read_searched_header
from lexlip.errors import ModelError
from lexlip.queries.text_queries import TextQueries
from lexlip.search.stages.impact import ImpactStage
from lexlip.sparse.quantize import Scheme, scale_of

SCHEME: Scheme = "unit"
"""How weights are taken to be whole numbers: times 1,000, as all schemes but `paper` have it."""


class AnseriniStage(ImpactStage):
    """See `ImpactStage`; where hits end is not known, as that depends on how the documents were made.

    Raises:
        ModelError: no model is named, which such an index does not do.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.calibration, self.seen = None, 0

    def _read_metadata(self) -> IndexHeader:
        return read_searched_header(self.index)

    def _load_queries(self, metadata: Any) -> TextQueries:
        if self.model is None:
            raise ModelError(
                f"{self.index} is an index of Anserini's, which does not say what model its words are of:"
                " name it with --model"
            )
        return TextQueries(self.model, self.query_encoder)

    def _open(self, metadata: Any) -> AnseriniSearcher:
        quantization = {"scheme": SCHEME, "scale": scale_of(SCHEME)}
        return AnseriniSearcher(
            self.index, self.queries.vocabulary.words, self.queries.identity, quantization
        )
