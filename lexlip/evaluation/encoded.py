"""Photos and captions of a source as a model's vectors, with who belongs to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.sparse import csr_matrix, vstack

from lexlip.data import Skipped, Source
from lexlip.encoding import PhotoVectors, encode_captions
from lexlip.errors import DataError, ModelError
from lexlip.vocabulary import Vocabulary, tokenize_captions

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder, QueryEncoder


@dataclass(frozen=True)
class Encoded:
    """n photos and T captions, without those that cannot be read and their captions.

    Attributes:
        image_ids: n ids.
        images: [n, V], or [n, D] of a dense model.
        text_ids: T ids, IMAGE#0, IMAGE#1 and so on, as in Flickr's own caption files.
        captions: [T, V] or [T, D].
        owners: of each caption the id of its photo.
        texts_of: of each photo the ids of its captions; there may be none.
        vocabulary: the V words; None of a dense model.
        tokens_of: of each photo the tokenizer ids that occur in its captions; none without a vocabulary.
        special_tokens: the tokenizer ids of special pieces.
        skipped: photos that cannot be read, with the reason.
        asking: the first so many captions ask, and their photos; None: all. The others are only found.
    """

    image_ids: list[str]
    images: csr_matrix
    text_ids: list[str]
    captions: csr_matrix
    owners: list[str]
    texts_of: list[set[str]]
    vocabulary: Vocabulary | None
    tokens_of: list[set[int]]
    special_tokens: list[int]
    skipped: list[Skipped]
    asking: int | None = None

    @property
    def asking_images(self) -> list[int]:
        """Rows of the photos that ask, in order; those that have captions."""
        asking = set(self.owners[: self.asking])
        return [row for row, id in enumerate(self.image_ids) if id in asking]

    @property
    def has_words(self) -> bool:
        """Whether the entries of a vector are words, and few of them are not zero."""
        return self.vocabulary is not None


def encode_source(
    model: Encoder,
    source: Source,
    query_encoder: QueryEncoder = "network",
    workers: int = 2,
    progress: bool = False,
    asking: int | None = None,
) -> Encoded:
    """Encode all photos and captions of a source.

    Args:
        model, source, query_encoder, workers, progress: those of `evaluate`.
        asking: the first so many photos ask, and their captions; None: all.

    Raises:
        DataError: no photo that asks and could be read has a caption.
        ModelError: a dense model has no word weights to encode captions with.
    """
    if model.vocabulary is None and query_encoder == "words":
        raise ModelError(f"the {model.kind} model '{model.name}' has no words; use the network query encoder")
    photos = PhotoVectors(model, source, workers=workers, progress="photos" if progress else None)
    batches = list(photos)
    ids = [id for batch, _ in batches for id in batch]
    captions_of = {item.id: item.captions for item in source.items}
    texts = [caption for id in ids for caption in captions_of[id]]
    first = {item.id for item in source.items[:asking]}
    questions = sum(len(captions_of[id]) for id in ids if id in first)
    if not questions:
        raise DataError(f"{source.name} has no photo with captions to evaluate on")
    texts_of = [[f"{id}#{number}" for number in range(len(captions_of[id]))] for id in ids]
    return Encoded(
        image_ids=ids,
        images=vstack([vectors for _, vectors in batches], format="csr"),
        text_ids=[text for of_one in texts_of for text in of_one],
        captions=encode_captions(model, texts, query_encoder, progress="captions" if progress else None),
        owners=[id for id in ids for _ in captions_of[id]],
        texts_of=[set(of_one) for of_one in texts_of],
        vocabulary=model.vocabulary,
        tokens_of=[caption_tokens(model, captions_of[id]) for id in ids]
        if model.vocabulary is not None
        else [],
        special_tokens=model.tokenizer.all_special_ids,
        skipped=photos.skipped,
        asking=None if asking is None else questions,
    )


def caption_tokens(model: Encoder, captions: Sequence[str]) -> set[int]:
    """The tokenizer ids that occur in a photo's captions."""
    return {token for line in tokenize_captions(model.tokenizer, captions) for token in line}
