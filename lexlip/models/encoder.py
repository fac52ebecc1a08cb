"""What a first stage of retrieval needs of a model, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, Self

from PIL import Image
from scipy.sparse import csr_matrix
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexlip.config import ModelConfig
from lexlip.vocabulary import Vocabulary

QueryEncoder = Literal["network", "words"]
Metric = Literal["cosine", "dot"]


class Encoder(Protocol):
    """Turns photos and captions into vectors, each alone: a `DualEncoder`, or `Clip`.

    Attributes:
        name: what the model is called.
        identity: name@ and the start of a hash of its weights, by which an index knows it again.
        config: `config.image` says how photos are to be decoded.
    """

    name: str
    identity: str
    config: ModelConfig

    @property
    def kind(self) -> str:
        """ "lexlip", "dense", "clip" ..."""
        ...

    @property
    def metric(self) -> Metric:
        """What two vectors are compared by."""
        ...

    @property
    def dimensions(self) -> int:
        """Entries of a vector: V, or D."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The V words that the entries stand for; None of a dense model."""
        ...

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """That of its texts."""
        ...

    def encode_image(self, photos: Tensor | Sequence[Image.Image]) -> csr_matrix:
        """Vectors, float32 [B, dimensions], of B photos: pictures, or uint8 [B, 3, size, size]."""
        ...

    def encode_text(
        self, texts: Sequence[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Vectors, float32 [T, dimensions], of texts; see `DualEncoder.encode_text`."""
        ...

    def fold_batch_norms(self) -> Self:
        """Encode photos faster from now on, where that can be; the model can then not be saved."""
        ...
