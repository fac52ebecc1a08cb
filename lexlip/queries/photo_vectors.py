"""Encodes the photos and captions of a source: ids with a CSR matrix [n, V]."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from lexlip.config import ImageEncoderConfig
from lexlip.data import Skipped, Source, Unreadable, UnreadableImage
from lexlip.data.facts import Facts
from lexlip.data.files import FileState, OutOfReach, state_of
from lexlip.data.upright import pixel_array
from lexlip.errors import ConfigError, DataError
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import PHOTOS_ON_CPU, keep_freed_memory, photos_at_a_time, texts_at_a_time
from lexlip.models.contract import Encoder, QueryEncoder
from lexlip.queries.photo_encoder import PhotoEncoder

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

Progress = Callable[[int, int], None]

AHEAD = 2  # batches that are decoded while another is encoded

Given = TypeVar("Given")
_Photo = tuple[NDArray[Any], Facts | None]  # uint8 [3, S, S], or regions float32 [N, …]


class _Failed(NamedTuple):
    """Why a photo cannot be read, the state of its file before that, and whether it is not there any more."""

    why: UnreadableImage
    state: FileState | None
    vanished: bool


class PhotoPixels:
    """Decodes the photos of a source, batch by batch, while threads read ahead.

    Threads suffice, as Pillow decodes and resizes without Python's lock. Processes would take time to start,
    and after a fork every page of memory that the model writes to would be copied.

    Args:
        config: how an encoder takes photos.
        batch: photos per batch.
        workers: threads that decode; with 0 nothing is read ahead.
        progress: what the progress bar says; None shows none. Or is told after each batch how many photos
            are done, and of how many.
        indices: of the photos to take; None takes all.
        facts: also gather the facts about each photo.

    Attributes:
        skipped: photos that could not be read, with the reason; complete after the iteration.
        away: ids of those that are out of reach, or that were there when they were listed and are not now,
            as if a disk were taken away: they may be readable later.
        unreadable: the others, by id, if facts are gathered.
    """

    def __init__(
        self,
        config: ImageEncoderConfig,
        source: Source,
        batch: int = PHOTOS_ON_CPU,
        workers: int = 2,
        progress: str | Progress | None = None,
        indices: Sequence[int] | None = None,
        facts: bool = False,
    ) -> None:
        self.config, self.source, self.batch, self.workers = config, source, batch, workers
        self.indices = range(len(source)) if indices is None else indices
        self.progress = progress
        self.skipped: list[Skipped] = []
        self.away: set[str] = set()
        self.unreadable: dict[str, Unreadable] = {}
        self._facts: dict[str, tuple[int, Facts]] | None = {} if facts else None

    def take_facts(self, ids: Sequence[str]) -> list[tuple[int, Facts]]:
        """Return the facts about photos that were yielded, with their index in the source; once."""
        assert self._facts is not None
        return [self._facts.pop(id) for id in ids]

    def pixels(self) -> Iterator[tuple[list[str], Tensor]]:
        """Yield ids and uint8 [n, 3, size, size], or regions float32 [n, N, …], without unreadable photos."""
        import torch

        for ids, pixels in self.arrays():
            yield ids, torch.from_numpy(pixels)

    def arrays(self) -> Iterator[tuple[list[str], NDArray[Any]]]:
        """Yield the same as arrays of numpy; DataError: the folder of the photos is not there any more."""
        keep_freed_memory()
        self.skipped, self.away, self.unreadable = [], set(), {}
        done, total = 0, len(self.indices)
        report = self.progress if callable(self.progress) else lambda done, total: None
        report(done, total)
        with _bar(total, "photo", self.progress if isinstance(self.progress, str) else None) as bar:
            for indices, photos in self._decoded():
                ids, pixels = [], []
                for index, photo in zip(indices, photos, strict=True):
                    id = self.source.items[index].id
                    if isinstance(photo, _Failed):
                        if photo.vanished:
                            self._check_roots(index)
                        self._note(id, photo)
                        continue
                    ids.append(id)
                    pixels.append(photo[0])
                    if self._facts is not None and photo[1] is not None:
                        self._facts[id] = (index, photo[1])
                if ids:
                    yield ids, np.stack(pixels)
                bar.update(len(indices))
                done += len(indices)
                report(done, total)

    def _decoded(self) -> Iterator[tuple[Sequence[int], Iterator[_Photo | _Failed]]]:
        """Yield the indices of a batch with its decoded photos, while up to AHEAD more are decoded."""
        ahead: deque[tuple[Sequence[int], Iterator[_Photo | _Failed]]] = deque()
        pool = ThreadPoolExecutor(max(1, self.workers))
        try:
            for start in range(0, len(self.indices), self.batch):
                indices = self.indices[start : start + self.batch]
                ahead.append((indices, pool.map(self._decode, indices)))
                if len(ahead) > (AHEAD if self.workers else 0):
                    yield ahead.popleft()
            yield from ahead
        finally:
            pool.shutdown(cancel_futures=True)

    def _check_roots(self, index: int) -> None:
        """Raise DataError if not a photo has vanished, but the folder that all lie in."""
        path = self.source.path(index)
        for root in self.source.roots:
            if path.startswith(root) and not os.path.lexists(root):
                raise DataError(
                    f"{root} is not there any more: bring it back, and give the same command again"
                )

    def _note(self, id: str, failed: _Failed) -> None:
        self.skipped.append(Skipped(id, failed.why.reason))
        if isinstance(failed.why, OutOfReach) or failed.vanished:
            self.away.add(id)
        elif failed.state is not None:
            self.unreadable[id] = Unreadable(failed.state.size, failed.state.written, failed.why.reason)

    def _decode(self, index: int) -> _Photo | _Failed:
        """Return a photo as the encoder takes it, and its facts, or why it cannot be read."""
        of_file = None
        try:
            if self._facts is None:
                return self._array(index, lambda: self.source.image(index, self.config.size)), None
            of_file = state_of(self.source.file(index))  # before the file is read: it may change meanwhile
            state = self.source.state(index)
            image, facts = self.source.photo(index, self.config.size)
            return self._array(index, lambda: image), replace(facts, state=state)
        except UnreadableImage as error:
            return _Failed(error, of_file, not os.path.lexists(self.source.file(index)))

    def _array(self, index: int, picture: Callable[[], Image.Image]) -> NDArray[Any]:
        """Return a photo as the encoder takes it: its picture, or the regions that a detector found."""
        if self.config.regions is not None:
            return self.source.regions(index, self.config.regions)
        return pixel_array(picture(), self.config)

    def none_read(self) -> DataError:
        """Return the error to raise if no photo could be read."""
        return none_read(self.source, len(self.indices), self.skipped)


class PhotoVectors(PhotoPixels):
    """Encodes the photos of a source, on the model's device; a GPU while the vectors before are used.

    A batch of None is what suits the model's device; `how` are further arguments of `PhotoPixels`.
    """

    def __init__(
        self, model: Encoder | PhotoEncoder, source: Source, batch: int | None = None, **how: Any
    ) -> None:
        image = model.config.image
        super().__init__(image, source, batch or photos_at_a_time(model.device, image.size), **how)
        self.model = model

    def __iter__(self) -> Iterator[tuple[list[str], csr_matrix]]:
        """Yield ids and vectors p, float32 [n, V], in the source's order without unreadable photos.

        Raises:
            ConfigError: the GPU's memory does not suffice for a single photo.
        """
        if isinstance(self.model, PhotoEncoder):
            for ids, arrays in self.arrays():
                yield ids, self.model.encode_image(arrays)
        elif self.model.device.type == "cpu":
            for ids, pixels in self.pixels():
                yield ids, self.model.encode_image(pixels)
        else:
            yield from in_thread(self._encode, self.pixels())

    def _encode(self, pixels: Tensor) -> csr_matrix:
        """Encode a batch; in halves if the GPU's memory does not suffice."""
        import torch

        assert not isinstance(self.model, PhotoEncoder)
        try:
            return self.model.encode_image(pixels)
        except torch.OutOfMemoryError as error:
            if len(pixels) == 1:
                why = "the GPU's memory is too small to encode a photo; free some, or give --device cpu"
                raise ConfigError(why) from error
        halves = pixels.split((len(pixels) + 1) // 2)  # after the exception, which holds tensors
        return vstack([self._encode(half) for half in halves], format="csr")


def none_read(source: Source, tried: int, skipped: Sequence[Skipped]) -> DataError:
    """Return the error to raise if no photo of a source could be read."""
    id, reason = skipped[0]
    return DataError(f"no photo in {source.name} can be read ({tried} tried; {id}: {reason})")


def in_thread(
    work: Callable[[Given], csr_matrix], batches: Iterable[tuple[list[str], Given]]
) -> Iterator[tuple[list[str], csr_matrix]]:
    """Yield the ids of each batch with what a thread makes of it while the next batch is made.

    If making the next one fails or is interrupted, those before are yielded first.
    """
    waiting: deque[tuple[list[str], Future[csr_matrix]]] = deque()
    thread, stopped = ThreadPoolExecutor(1), None
    try:
        try:
            for ids, given in batches:
                waiting.append((ids, thread.submit(work, given)))
                if len(waiting) > 1:
                    ids, made = waiting.popleft()
                    yield ids, made.result()
        except (Exception, KeyboardInterrupt) as error:
            stopped = error
        for ids, made in waiting:
            yield ids, made.result()
        if stopped is not None:
            raise stopped
    finally:
        thread.shutdown(cancel_futures=True)


def encode_captions(
    model: Encoder | PhotoEncoder,
    captions: Sequence[str],
    encoder: QueryEncoder = "network",
    batch: int | None = None,
    progress: str | None = None,
) -> csr_matrix:
    """Return the vectors p of T captions, one or more, float32 [T, V]; see `DualEncoder.encode_text`.

    A batch of None is what suits the model's device; `progress` is what the progress bar says, None: no bar.
    """
    rows = []
    batch = batch or texts_at_a_time(model.device)
    with _bar(len(captions), "caption", progress) as bar:
        for start in range(0, len(captions), batch):
            rows.append(model.encode_text(captions[start : start + batch], encoder))
            bar.update(rows[-1].shape[0])
    return vstack(rows, format="csr")


def _bar(total: int, unit: str, text: str | None) -> ProgressBar:
    """Return a progress bar on stderr, if the work takes more than a second."""
    return ProgressBar(total=total, unit=unit, desc=text, disable=text is None, delay=1)
