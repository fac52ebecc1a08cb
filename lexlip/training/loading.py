"""Which photos each step sees, and the worker processes that prepare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader

from lexlip.config import OptimConfig
from lexlip.data import Source
from lexlip.errors import DataError
from lexlip.machine import cores
from lexlip.processes import worker_context
from lexlip.training.augmentation import AugmentedPhotos, Key
from lexlip.training.batches import Batch, Collate

PATIENCE = 600  # seconds; a batch that takes longer ends the run with an error


class Order:
    """Which photos each step sees: a new permutation in each epoch; an incomplete last batch is dropped.

    Args:
        photos: indices of the photos to train on.
        batch: photos per step, over all processes.
        steps: of the whole run.
        first: the step to begin with; earlier steps were done before.
        seed: of the permutations.
        sizes: pixels along a side; one is drawn for each step.
        part: the share of each batch that this process sees.
    """

    def __init__(
        self,
        photos: Sequence[int] | np.ndarray,
        batch: int,
        steps: int,
        first: int,
        seed: int,
        sizes: Sequence[int],
        part: slice = slice(None),
    ) -> None:
        self.photos, self.batch, self.steps, self.first = photos, batch, steps, first
        self.seed, self.sizes, self.part = seed, sizes, part

    def __len__(self) -> int:
        return self.steps - self.first

    def __iter__(self) -> Iterator[list[Key]]:
        per_epoch = len(self.photos) // self.batch
        epoch = -1
        for step in range(self.first, self.steps):
            if epoch != step // per_epoch:
                epoch = step // per_epoch
                shuffled = np.random.default_rng((self.seed, epoch)).permutation(self.photos)
            size = self.sizes[int(np.random.default_rng((self.seed, step, 1)).integers(len(self.sizes)))]
            start = (step % per_epoch) * self.batch
            photos = shuffled[start : start + self.batch][self.part]
            yield [Key(epoch, int(index), size) for index in photos]


def count_steps(source: Source, config: OptimConfig) -> int:
    """Return the number of steps of a run.

    Raises:
        DataError: there are no captions, or fewer captioned photos than a batch has.
    """
    photos = len(source.captioned())
    if not photos:
        raise DataError(f"{source.name} has no captions to train on")
    if photos < config.batch:
        raise DataError(
            f"{source.name} has {photos} photos with captions, fewer than a batch;"
            f" lower optim.batch={config.batch} or give more photos"
        )
    return config.steps or max(1, int(config.epochs * (photos // config.batch)))


def load_batches(
    photos: AugmentedPhotos, order: Order, collate: Collate, workers: int, pin_memory: bool
) -> Iterator[Batch]:
    """Yield the batches of an order, prepared by worker processes.

    Args:
        photos: augmented photos.
        order: which photos each step sees.
        collate: makes a batch of them.
        workers: processes; 0 prepares batches in this one.
        pin_memory: give tensors in page-locked memory, for a GPU.

    Raises:
        DataError: a worker hangs or dies.
    """
    workers = min(workers, cores())
    loader: DataLoader[Batch] = DataLoader(
        photos,
        batch_sampler=order,  # type: ignore[arg-type]
        collate_fn=collate,
        num_workers=workers,
        multiprocessing_context=worker_context() if workers else None,
        timeout=PATIENCE if workers else 0,
        pin_memory=pin_memory,
        generator=torch.Generator(),  # the loader draws a number: not from dropout's generator
    )
    return _watched(loader)


def _watched(loader: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches of a loader; turn what goes wrong in its processes into a DataError."""
    try:
        yield from loader
    except RuntimeError as error:
        if "timed out" in str(error):
            raise DataError(
                f"no batch came within {PATIENCE} s; go on with --resume when the photos are there again"
            ) from error
        if "exited unexpectedly" in str(error):
            raise DataError(
                f"a process that decodes photos died ({' '.join(str(error).split())});"
                " if memory ran out, lower data.workers; go on with --resume"
            ) from error
        raise
