"""What indexing, searching and measuring need of a model, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

from PIL import Image
from scipy.sparse import csr_matrix

from lexlip.config import ModelConfig
from lexlip.registry import Metric
from lexlip.sparse.balance import Balance
from lexlip.sparse.quantize import Scheme
from lexlip.sparse.word_chances import LikelyWords
from lexlip.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

QueryEncoder = Literal["network", "words"]
"""How a sentence becomes a vector: by the text encoder, or by one learned weight per word."""


class EncodingSettings(NamedTuple):
    """How photos are encoded: by which model, where, and as `lexlip.indexing.impact.index_photos` is told."""

    model: str
    identity: str
    device: str
    topk: int | None
    scheme: Scheme
    workers: int


class Encoder(Protocol):
    """A model that encodes photos and captions separately: a `DualEncoder` or a `Pretrained` one.

    An index recognises it by its identity: the name, "@" and the start of a hash of the weights.
    `config.image` says how photos are decoded.
    """

    name: str
    identity: str
    config: ModelConfig

    @property
    def kind(self) -> str:
        """The kind's name in `lexlip.registry.MODELS`, such as "lexlip" or "clip"."""

    @property
    def metric(self) -> Metric:
        """How two vectors are compared."""

    @property
    def dimensions(self) -> int:
        """The number of entries of a vector: V, or D."""

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The V words that the entries stand for; None for a dense model."""

    @property
    def balance(self) -> Balance | None:
        """What its documents are balanced by; None if it has no bank."""

    @property
    def keywords(self) -> csr_matrix | None:
        """The query of each of its words (`lexlip.sparse.typed_words`); None: a word alone is a sentence."""

    @property
    def likely(self) -> LikelyWords | None:
        """In which order a photo's words are shown; None: heaviest first."""

    @property
    def honest_end(self) -> dict[str, Any] | None:
        """Where the hits of a sentence end, see `lexlip.search.stages.honest_end`; None: not measured."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The text encoder's tokenizer; of open_clip's models their own."""

    def encode_image(self, photos: Tensor | Image.Image | Iterable[Image.Image]) -> csr_matrix:
        """Return float32 vectors [B, dimensions] of B photos; see `DualEncoder.encode_image`."""

    def encode_text(
        self, texts: str | Iterable[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, dimensions] of T texts; see `DualEncoder.encode_text`."""

    def unread(self, text: str) -> str:
        """Return the words at the end of a text that are too many for the text encoder; "" if none are."""

    def fold_batch_norms(self) -> Self:
        """Make encoding faster where possible; the model can then be neither trained nor saved."""
