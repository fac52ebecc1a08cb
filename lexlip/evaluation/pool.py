"""A pool of photos and captions to search, some of which ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from lexlip.data import Skipped, Source
from lexlip.data.joined import JoinedSource
from lexlip.encoding import PhotoVectors, encode_captions
from lexlip.errors import DataError
from lexlip.models.encoder import Encoder, Metric

CHUNK = 4096  # documents at a time


@dataclass(frozen=True, kw_only=True)
class CaptionPool:
    """n photos and T captions; those that ask, and their captions, come first.

    Attributes:
        image_ids: n ids.
        text_ids: T ids.
        texts: the T captions themselves.
        owners: int64 [T], the row of each caption's photo.
        asking: the first so many captions ask.
    """

    image_ids: list[str]
    text_ids: list[str]
    texts: list[str]
    owners: np.ndarray
    asking: int

    @classmethod
    def of(cls, source: Source, asking: int | None = None) -> CaptionPool:
        """All photos and captions of a source; the first so many photos ask, or all."""
        items = source.items
        fields = _captions([item.id for item in items], {item.id: item.captions for item in items})
        return cls(**fields, asking=sum(len(item.captions) for item in items[:asking]))

    def texts_of(self, image: int) -> np.ndarray:
        """Rows of the captions of a photo."""
        start, end = np.searchsorted(self.owners, [image, image + 1])
        return np.arange(start, end)


@dataclass(frozen=True, kw_only=True)
class EncodedPool(CaptionPool):
    """A pool as a model's vectors.

    Attributes:
        images: [n, V] or [n, D].
        captions: [T, V] or [T, D].
        metric: what two vectors are compared by.
        skipped: photos that cannot be read, with the reason.
    """

    images: csr_matrix
    captions: csr_matrix
    metric: Metric = "cosine"
    skipped: list[Skipped]

    @property
    def asking_images(self) -> np.ndarray:
        """Rows of the photos whose captions ask, which ask for these captions themselves; int64, in order."""
        return np.unique(self.owners[: self.asking])

    @property
    def right_images(self) -> list[set[str]]:
        """What each caption that asks should find: its photo's id."""
        return [{self.image_ids[owner]} for owner in self.owners[: self.asking]]

    @property
    def right_texts(self) -> list[set[str]]:
        """What each photo that asks should find: its captions' ids."""
        return [{self.text_ids[row] for row in self.texts_of(image)} for image in self.asking_images]

    @property
    def further_images(self) -> csr_matrix:
        """Vectors of the photos that do not ask; of all photos if there are no others."""
        rows = np.setdiff1d(np.arange(self.images.shape[0]), self.asking_images)
        return self.images[rows] if len(rows) else self.images

    @property
    def further_texts(self) -> csr_matrix:
        """Vectors of the captions that do not ask; of all captions if there are no others."""
        return self.captions[self.asking :] if self.captions.shape[0] > self.asking else self.captions


def encode_pool(
    model: Encoder, queries: Source, pool: Sequence[Source], workers: int = 2, progress: str | None = None
) -> EncodedPool:
    """Encode all photos and captions.

    Args:
        model: the encoder.
        queries: photos with captions that ask for each other.
        pool: further photos; their captions, if any, are found, but do not ask.
        workers: threads that decode photos.
        progress: what is encoded, for the progress bars; None shows none.

    Raises:
        DataError: no photo of the queries that can be read has a caption.
    """
    joined = JoinedSource([queries, *pool])
    photos = PhotoVectors(model, joined, workers=workers, progress=progress and f"{progress} photos")
    batches = list(photos)
    ids = [id for batch, _ in batches for id in batch]
    captions_of = {item.id: item.captions for item in joined.items}
    first = {item.id for item in joined.items[: len(queries)]}
    asking = sum(len(captions_of[id]) for id in ids if id in first)
    if not asking:
        raise DataError(f"no photo of {queries.name} that can be read has a caption to ask with")
    fields = _captions(ids, captions_of)
    return EncodedPool(
        **fields,
        asking=asking,
        images=vstack([vectors for _, vectors in batches], format="csr"),
        captions=encode_captions(model, fields["texts"], progress=progress and f"{progress} captions"),
        metric=model.metric,
        skipped=photos.skipped,
    )


def _captions(ids: list[str], captions_of: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Photos with their captions, as the fields of a CaptionPool."""
    numbers = [len(captions_of[id]) for id in ids]
    return {
        "image_ids": ids,
        "text_ids": [f"{id}#{n}" for id, number in zip(ids, numbers, strict=True) for n in range(number)],
        "texts": [caption for id in ids for caption in captions_of[id]],
        "owners": np.repeat(np.arange(len(ids)), numbers),
    }


@dataclass(frozen=True)
class Documents:
    """Real vectors and synthetic ones after them, which are made anew each time that they are asked for.

    The order of the real ones is drawn: it decides between equal scores, and those that are asked for must
    not be first.

    Attributes:
        ids: of the n real ones.
        vectors: [n, V].
        synthetic: how many more.
        synthesise: makes so many from real ones and a seed; see `lexlip.evaluation.distractors`.
        parents: what these are made from. Those that are asked for should not be among them: what is mixed
            from one is more like it than another photo is.
        seed: of what is drawn.
    """

    ids: Sequence[str]
    vectors: csr_matrix
    synthetic: int
    synthesise: Callable[[csr_matrix, int, int], Iterator[csr_matrix]]
    parents: csr_matrix
    seed: int = 0

    def __len__(self) -> int:
        return len(self.ids) + self.synthetic

    def __iter__(self) -> Iterator[tuple[list[str], csr_matrix]]:
        """Yields ids and float vectors, [m, V], m up to 4096."""
        order = np.random.default_rng(self.seed).permutation(len(self.ids))
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            yield [self.ids[row] for row in chunk], self.vectors[chunk]
        number = 0
        for rows in self.synthesise(self.parents, self.synthetic, self.seed):
            yield [f"synthetic/{number + row}" for row in range(rows.shape[0])], rows
            number += rows.shape[0]
