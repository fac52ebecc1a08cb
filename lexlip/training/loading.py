"""Which photos each step sees, and the worker processes that prepare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader

from lexlip.config import DataConfig, OptimConfig
from lexlip.data import Source
from lexlip.errors import DataError
from lexlip.machine.processes import worker_context
from lexlip.machine.resources import cores
from lexlip.training.augmentation import AugmentedPhotos, Key
from lexlip.training.batches import Batch, Collate

PATIENCE = 600  # seconds; a batch that takes longer ends the run with an error


class Order:
    """Which photos each step sees: a new permutation in each epoch; an incomplete last batch is dropped.

    An epoch has each photo once, or each pair of a photo and one of its captions. Pairs of the same photo in
    a batch become one photo with several captions, so that none is a negative of another.

    Args:
        photos: indices of the photos to train on.
        batch: photos, or pairs, per step, over all processes.
        steps: of the whole run.
        first: the step to begin with; earlier steps were done before.
        seed: of the permutations.
        sizes: pixels along a side; one is drawn for each step.
        part: returns the rows of so many that this process sees; None: all.
        captions: int64 [n], how many captions each photo has, for epochs of pairs; None: epochs of photos.
        sample: of the photos or pairs to train on, drawn once; None: all.
        topics: int64 [n], of the photos; None: batches are drawn at random.
        alike: photos of one topic that a batch has together.
    """

    def __init__(
        self,
        photos: Sequence[int] | np.ndarray,
        batch: int,
        steps: int,
        first: int,
        seed: int,
        sizes: Sequence[int],
        part: Callable[[int], slice] | None = None,
        captions: np.ndarray | None = None,
        sample: int | None = None,
        topics: np.ndarray | None = None,
        alike: int = 1,
    ) -> None:
        self.photos, self.batch, self.steps, self.first = np.asarray(photos), batch, steps, first
        self.seed, self.sizes, self.part = seed, sizes, part
        self.topics, self.alike = topics, alike
        self.starts = None if captions is None else np.cumsum(captions) - captions  # of each photo's pairs
        self.rows = np.arange(len(self.photos) if captions is None else int(captions.sum()))
        if sample is not None and sample < len(self.rows):
            self.rows = np.random.default_rng((seed, 0, 2)).choice(self.rows, sample, replace=False)

    def __len__(self) -> int:
        return self.steps - self.first

    def __iter__(self) -> Iterator[list[Key]]:
        per_epoch = len(self.rows) // self.batch
        epoch = -1
        for step in range(self.first, self.steps):
            if epoch != step // per_epoch:
                epoch = step // per_epoch
                shuffled = self._shuffled(epoch)
            size = self.sizes[int(np.random.default_rng((self.seed, step, 1)).integers(len(self.sizes)))]
            start = (step % per_epoch) * self.batch
            keys = self._keys(epoch, shuffled[start : start + self.batch], size)
            yield keys if self.part is None else keys[self.part(len(keys))]

    def _shuffled(self, epoch: int) -> np.ndarray:
        """Return the rows in an epoch's order, with `topics` in groups of `alike` photos of one topic.

        What is left over of the topics comes last.
        """
        rng = np.random.default_rng((self.seed, epoch))
        shuffled = rng.permutation(self.rows)
        if self.topics is None:
            return shuffled
        by_topic = shuffled[np.argsort(self.topics[shuffled], kind="stable")]
        starts = np.flatnonzero(np.diff(self.topics[by_topic], prepend=-1))
        sizes = np.diff(starts, append=len(by_topic))
        place = np.arange(len(by_topic)) - np.repeat(starts, sizes)  # in its topic
        whole = place < np.repeat(sizes - sizes % self.alike, sizes)
        groups = by_topic[whole].reshape(-1, self.alike)
        return np.concatenate([rng.permutation(groups).ravel(), rng.permutation(by_topic[~whole])])

    def _keys(self, epoch: int, rows: np.ndarray, size: int) -> list[Key]:
        """Return the photos of some rows of an epoch."""
        if self.starts is None:
            return [Key(epoch, int(index), size) for index in self.photos[rows]]
        owners = np.searchsorted(self.starts, rows, side="right") - 1
        numbers = rows - self.starts[owners]  # of the captions
        captions: dict[int, list[int]] = {}
        for owner, number in zip(owners.tolist(), numbers.tolist(), strict=True):
            captions.setdefault(owner, []).append(number)
        return [
            Key(epoch, int(self.photos[owner]), size, tuple(sorted(drawn)))
            for owner, drawn in captions.items()
        ]


def caption_counts(source: Source) -> np.ndarray:
    """Return how many captions each photo with captions has, int64 [n]."""
    counts = np.fromiter((len(item.captions) for item in source.items), np.int64)
    return counts[counts > 0]


def epoch_rows(source: Source, data: DataConfig, captions: np.ndarray | None = None) -> int:
    """Return how many photos, or pairs, an epoch has; `captions` is the source's `caption_counts`."""
    if data.epoch == "pairs":
        rows = int((caption_counts(source) if captions is None else captions).sum())
    else:
        rows = len(source.captioned())
    return min(rows, data.sample or rows)


def count_steps(
    source: Source, data: DataConfig, config: OptimConfig, captions: np.ndarray | None = None
) -> int:
    """Return the number of steps of a run; for `captions` see `epoch_rows`.

    Raises:
        DataError: there are no captions, or fewer captioned photos, or pairs, than a batch has.
    """
    rows = epoch_rows(source, data, captions)
    if not rows:
        raise DataError(f"{source.name} has no captions to train on")
    if rows < config.batch:
        what = "captions" if data.epoch == "pairs" else "photos with captions"
        raise DataError(
            f"{source.name} has {rows} {what}, fewer than a batch;"
            f" lower optim.batch={config.batch} or give more photos"
        )
    return run_steps(rows, config)


def run_steps(rows: int, config: OptimConfig) -> int:
    """Return the number of steps of a run whose epochs have so many photos or pairs."""
    return config.steps or max(1, int(config.epochs * (rows // config.batch)))


def load_batches(
    photos: AugmentedPhotos, order: Order, collate: Collate, workers: int, pin_memory: bool
) -> Iterator[Batch]:
    """Yield the batches of an order, prepared by `workers` processes; 0 prepares them in this one.

    With `pin_memory` tensors are in page-locked memory, for a GPU.

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
