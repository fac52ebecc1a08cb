"""From photos and captions to the exchange type: ids with a CSR matrix [n, V]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from PIL import Image
from scipy.sparse import csr_matrix, vstack
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from lexlip.config import ImageEncoderConfig, ModelConfig
from lexlip.data import Skipped, Source, UnreadableImage
from lexlip.data.workers import worker_context
from lexlip.encoders.image import to_pixels
from lexlip.errors import DataError
from lexlip.memory import keep_freed_memory
from lexlip.models.dual_encoder import QueryEncoder

FEW = 64  # photos for which starting worker processes costs more than it saves


class Encoder(Protocol):
    """What turns photos and captions into vectors: a `DualEncoder`, or `Clip`."""

    config: ModelConfig

    def encode_image(self, photos: Tensor | Sequence[Image.Image]) -> csr_matrix: ...

    def encode_text(self, texts: Sequence[str], encoder: QueryEncoder = ...) -> csr_matrix: ...


class PhotoVectors:
    """Decodes and encodes the photos of a source, batch by batch, while worker processes read ahead.

    Args:
        model: the encoder.
        source: the photos.
        batch: photos encoded at a time.
        workers: processes that decode.
        progress: what the progress bar says; None shows none.
        indices: of the photos to encode; None encodes all.

    Attributes:
        skipped: photos that could not be read, with the reason; complete after the iteration.
    """

    def __init__(
        self,
        model: Encoder,
        source: Source,
        batch: int = 32,
        workers: int = 2,
        progress: str | None = None,
        indices: Sequence[int] | None = None,
    ) -> None:
        self.model, self.source, self.batch = model, source, batch
        self.indices = range(len(source)) if indices is None else indices
        self.workers = workers if len(self.indices) > FEW else 0
        self.progress = progress
        self.skipped: list[Skipped] = []

    def __iter__(self) -> Iterator[tuple[list[str], csr_matrix]]:
        """Yields ids and vectors p, float32 [n, V], in the source's order without unreadable photos."""
        keep_freed_memory()
        photos = _Photos(self.source, self.model.config.image)
        loader = DataLoader(
            photos,
            self.batch,
            sampler=self.indices,
            collate_fn=_collate,
            num_workers=self.workers,
            multiprocessing_context=worker_context() if self.workers else None,
            generator=torch.Generator(),  # leaves torch's own, which dropout draws from, alone
        )
        self.skipped = []
        with _bar(len(self.indices), "photo", self.progress) as bar:
            for pixels, indices, unreadable in loader:
                self.skipped += [Skipped(self.source.items[i].id, reason) for i, reason in unreadable]
                if indices:
                    yield [self.source.items[i].id for i in indices], self.model.encode_image(pixels)
                bar.update(len(indices) + len(unreadable))

    def none_read(self) -> DataError:
        """The error of an iteration that gave nothing."""
        id, reason = self.skipped[0]
        return DataError(
            f"no photo in {self.source.name} can be read ({len(self.indices)} tried; {id}: {reason})"
        )


def encode_captions(
    model: Encoder,
    captions: Sequence[str],
    encoder: QueryEncoder = "network",
    batch: int = 256,
    progress: str | None = None,
) -> csr_matrix:
    """Vectors p of one caption or more, float32 [T, V]; the arguments are as for `PhotoVectors`."""
    rows = []
    with _bar(len(captions), "caption", progress) as bar:
        for start in range(0, len(captions), batch):
            rows.append(model.encode_text(captions[start : start + batch], encoder))
            bar.update(rows[-1].shape[0])
    return vstack(rows, format="csr")


def _bar(total: int, unit: str, text: str | None) -> tqdm:
    """A progress bar on stderr, if that is a terminal and the work takes more than a second."""
    return tqdm(total=total, unit=unit, desc=text, disable=text is None or None, delay=1)


class _Photos(Dataset):
    def __init__(self, source: Source, config: ImageEncoderConfig) -> None:
        self.source, self.config = source, config

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[int, Tensor | str]:
        try:
            return index, to_pixels(self.source.image(index, self.config.size), self.config)
        except UnreadableImage as error:
            return index, error.reason


def _collate(samples: Sequence[tuple[int, Tensor | str]]) -> tuple[Tensor, list[int], list[tuple[int, str]]]:
    read = [(index, pixels) for index, pixels in samples if isinstance(pixels, Tensor)]
    unreadable = [(index, reason) for index, reason in samples if isinstance(reason, str)]
    pixels = torch.stack([p for _, p in read]) if read else torch.empty(0, dtype=torch.uint8)
    return pixels, [index for index, _ in read], unreadable
