"""A pool of captioned photos to search among, and what models make of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from anserini_bridge.sparse_rows import Rows
from lexlip.data import Skipped, Source
from lexlip.data.source import Concat, Subset, no_captions
from lexlip.errors import ModelError, UnreadableImage
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import photos_at_a_time
from lexlip.models.contract import Encoder, QueryEncoder
from lexlip.queries.photo_vectors import PhotoPixels, PhotoVectors, encode_captions
from lexlip.queries.saved_model import TypedWords
from lexlip.sparse.rows import row_of
from lexlip.sparse.typed_words import as_query

if TYPE_CHECKING:  # BM25 is measured without torch
    from torch import Tensor

    from lexlip.models.one_transformer import OneTransformer


@dataclass(frozen=True, kw_only=True)
class CaptionedPool:
    """n photos and T captions. Those that are queries come first; the others are only found.

    Attributes:
        text_ids: T ids, IMAGE#0, IMAGE#1 and so on, as in Flickr's caption files.
        owners: int64 [T], the row of each caption's photo.
        text_queries: the first so many captions are queries, and so are their photos.
        skipped: photos that cannot be read, which are not in the pool, with the reason.
    """

    image_ids: list[str]
    text_ids: list[str]
    texts: list[str]
    owners: NDArray[np.int64]
    text_queries: int
    skipped: list[Skipped]

    @classmethod
    def of(
        cls,
        source: Source,
        queries: int | None = None,
        rows: Sequence[int] | None = None,
        captions: int | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> CaptionedPool:
        """Return the photos and captions of a source.

        Args:
            source: photos with captions.
            queries: the first so many photos, and their captions, are queries; None: all.
            rows: of the photos to take; None: all.
            captions: the first so many captions of each photo count; None: all.
            skipped: photos that cannot be read.
        """
        taken = range(len(source)) if rows is None else rows
        items = [source.items[row] for row in taken]
        captions_of = [item.captions[:captions] for item in items]
        numbers = [len(texts) for texts in captions_of]
        of_queries = [queries is None or row < queries for row in taken]
        return cls(
            image_ids=[item.id for item in items],
            text_ids=[
                f"{item.id}#{n}" for item, number in zip(items, numbers, strict=True) for n in range(number)
            ],
            texts=[caption for texts in captions_of for caption in texts],
            owners=np.repeat(np.arange(len(items)), numbers),
            text_queries=sum(number for number, query in zip(numbers, of_queries, strict=True) if query),
            skipped=list(skipped),
        )

    @property
    def image_queries(self) -> NDArray[np.int64]:
        """The rows of the photos that are queries, ascending; photos without captions are not."""
        return np.unique(self.owners[: self.text_queries])

    @property
    def all_are_queries(self) -> bool:
        """Whether every caption is a query."""
        return self.text_queries == len(self.texts)

    def texts_of(self, image: int) -> NDArray[np.int64]:
        """Return the rows of a photo's captions."""
        start, end = np.searchsorted(self.owners, [image, image + 1])
        return np.arange(start, end)

    @property
    def relevant_images(self) -> list[set[str]]:
        """What each caption that is a query should find: the id of its photo."""
        return [{self.image_ids[owner]} for owner in self.owners[: self.text_queries]]

    @property
    def relevant_texts(self) -> list[set[str]]:
        """What each photo that is a query should find: the ids of its captions."""
        return [{self.text_ids[row] for row in self.texts_of(image)} for image in self.image_queries]


@dataclass(frozen=True)
class PoolVectors:
    """A pool as a model's vectors: images [n, V] and captions [T, V], or [n, D] and [T, D] of a dense model.

    `query_encoder` says how the captions are encoded, see `DualEncoder.encode_text`.
    """

    pool: CaptionedPool
    model: Encoder
    images: csr_matrix
    captions: csr_matrix
    query_encoder: QueryEncoder = "network"

    @property
    def query_images(self) -> csr_matrix:
        """Vectors of the photos that are queries."""
        return self.images[self.pool.image_queries]

    def query_captions(self, most: int | None = None) -> csr_matrix:
        """Return the captions that are queries as `lexlip search` encodes them; see `as_queries`."""
        number = self.pool.text_queries
        return as_queries(self.model, self.pool.texts[:number], self.captions[:number], most)

    def part(self, captions: NDArray[np.int64], photos: NDArray[np.int64] | None = None) -> PoolVectors:
        """Return a pool with some of the captions and of the photos, by ascending rows; None: all photos."""
        whole, images, owners = self.pool, self.images, self.pool.owners[captions]
        ids = whole.image_ids
        if photos is not None:
            ids, images, owners = (
                [ids[row] for row in photos],
                images[photos],
                np.searchsorted(photos, owners),
            )
        pool = replace(
            whole,
            image_ids=ids,
            text_ids=[whole.text_ids[row] for row in captions],
            texts=[whole.texts[row] for row in captions],
            owners=owners,
            text_queries=int((captions < whole.text_queries).sum()),
        )
        return replace(self, pool=pool, images=images, captions=self.captions[captions])

    @property
    def other_images(self) -> csr_matrix:
        """Vectors of the photos that are not queries; of all photos if there are no others."""
        rows = np.setdiff1d(np.arange(self.images.shape[0]), self.pool.image_queries)
        return self.images[rows] if len(rows) else self.images

    @property
    def other_captions(self) -> csr_matrix:
        """Vectors of the captions that are not queries; of all captions if there are no others."""
        return self.captions if self.pool.all_are_queries else self.captions[self.pool.text_queries :]


def with_pool(source: Source, further: Sequence[Source], progress: bool = False) -> Source:
    """Return a source and the photos of further ones, which are only found: their captions do not count.

    A further photo whose file is, byte for byte, that of a photo before it is left out: captions of the one
    describe the other. Ids begin with the name of their source, see `Concat`.
    """
    known: set[bytes] = set()
    number = sum(map(len, [source, *further]))
    with ProgressBar(total=number, unit="photo", desc="equal photos", disable=not progress, delay=2) as bar:

        def is_new(photos: Source, row: int) -> bool:
            bar.update()
            try:
                digest = hashlib.sha256(photos.read(row)).digest()
            except UnreadableImage:
                return True  # encoding it says why it is left out
            new = digest not in known
            known.add(digest)
            return new

        for row in range(len(source)):
            is_new(source, row)
        others = [
            Subset(other, [row for row in range(len(other)) if is_new(other, row)], captions=0)
            for other in further
        ]
    return Concat([source, *others])


def encode_pool(
    model: Encoder,
    source: Source,
    query_encoder: QueryEncoder = "network",
    workers: int = 2,
    progress: str | None = None,
    queries: int | None = None,
) -> PoolVectors:
    """Encode all photos and captions of a source.

    Args:
        model, source, query_encoder, workers: see `lexlip.measure.evaluate.evaluate`.
        progress: what the progress bars say before "photos" and "captions"; None shows none.
        queries: see `CaptionedPool.of`.

    Raises:
        DataError: no photo that is a query and can be read has a caption.
        ModelError: a dense model has no word weights to encode captions with.
    """
    if model.vocabulary is None and query_encoder == "words":
        raise ModelError(f"the {model.kind} model '{model.name}' has no words: use --query-encoder network")
    photos = PhotoVectors(model, source, workers=workers, progress=_bar(progress, "photos"))
    batches = list(photos)
    rows = _rows(source, [id for ids, _ in batches for id in ids])
    pool = CaptionedPool.of(source, queries, rows, skipped=photos.skipped)
    if not pool.text_queries:
        raise no_captions(source.name, " that can be read")
    captions = encode_captions(model, pool.texts, query_encoder, progress=_bar(progress, "captions"))
    images = vstack([rows for _, rows in batches], format="csr")
    return PoolVectors(pool, model, images, captions, query_encoder)


def _rows(source: Source, ids: Sequence[str]) -> list[int]:
    """Return the rows of photos in their source."""
    row_of = {item.id: row for row, item in enumerate(source.items)}
    return [row_of[id] for id in ids]


def _bar(progress: str | None, what: str) -> str | None:
    return None if progress is None else f"{progress} {what}".strip()


def typed_words(model: Encoder) -> TypedWords:
    """Return what finds the words of a model's vocabulary in texts."""
    assert model.vocabulary is not None
    return TypedWords(model.vocabulary, model.tokenizer.backend_tokenizer, model.tokenizer.unk_token_id)


def as_queries(
    model: Encoder, texts: Sequence[str], vectors: csr_matrix, most: int | None = None
) -> csr_matrix:
    """Return the queries of n encoded texts, float32 [n, V] (`lexlip.sparse.typed_words`); dense ones stay.

    A query keeps at most `most` words; None keeps all.
    """
    if model.vocabulary is None:
        return vectors
    typed = typed_words(model)
    keywords = None if model.keywords is None else Rows.of(model.keywords)
    rows = [
        row_of(as_query(vectors[row].toarray()[0], typed.of(text), keywords, most))
        for row, text in enumerate(texts)
    ]
    return vstack(rows, format="csr")


@dataclass(frozen=True)
class PoolTokens:
    """A pool as a cross-encoder takes it; photos are float16 [n, P, D], see `OneTransformer.embed_photos`."""

    pool: CaptionedPool
    photos: Tensor


def embed_pool(
    model: OneTransformer,
    source: Source,
    workers: int = 2,
    progress: bool = False,
    indices: Sequence[int] | None = None,
    captions: int | None = None,
) -> PoolTokens:
    """Run the photos of a source through a cross-encoder's image encoder.

    `indices` are the photos to take, and so many captions of each count; None takes all.

    Raises:
        DataError: no photo could be read.
    """
    import torch

    photos = PhotoPixels(
        model.config.image,
        source,
        photos_at_a_time(model.device, model.config.image.size),
        workers,
        progress="photos" if progress else None,
        indices=indices,
    )
    batches = [(ids, model.embed_photos(pixels).cpu()) for ids, pixels in photos.pixels()]
    ids = [id for names, _ in batches for id in names]
    if not ids:
        raise photos.none_read()
    pool = CaptionedPool.of(source, rows=_rows(source, ids), captions=captions, skipped=photos.skipped)
    return PoolTokens(pool, torch.cat([embedded for _, embedded in batches]))
