"""Which photos each step sees, and the worker processes that prepare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import numpy as np
import torch
from torch.utils.data import DataLoader

from lexlip.config import Config
from lexlip.data import Source
from lexlip.errors import DataError
from lexlip.machine.resources import cores, worker_context
from lexlip.training.augmentation import AugmentedPhotos, Key
from lexlip.training.batches import Batch, Collate
from lexlip.words.plain_text import counted

PATIENCE = 600  # seconds; a batch that takes longer ends the run with an error


class Order:
    """Which photos each step sees: a new permutation in each epoch; an incomplete last batch is dropped.

    An epoch has each photo once, or each pair of a photo and one of its captions. Pairs of the same photo in
    a batch become one photo with several captions, so that none is a negative of another.

    Args:
        source: the photos; those without captions are left out.
        config: of the run.
        part: returns the rows of so many that this process sees; None: all.

    Attributes:
        photos: int64 [n], the indices of those with captions.
        rows: the photos, or pairs, of an epoch.
        steps: of the whole run; None: as many as are asked for.
        first: the step to begin with; earlier steps were done before.
        topics: int64 [n], of the photos, `data.alike` of which a batch has together; None: drawn at random.
    """

    def __init__(self, source: Source, config: Config, part: Callable[[int], slice] | None = None) -> None:
        self.name, self.config, self.photos, self.part = source.name, config, source.captioned(), part
        self.first = 0
        self.topics: np.ndarray | None = None
        self.starts: np.ndarray | None = None  # of each photo's pairs
        number, sample = len(self.photos), config.data.sample
        if config.data.epoch == "pairs":
            counts = np.fromiter((len(item.captions) for item in source.items), np.int64)[self.photos]
            number, self.starts = int(counts.sum()), np.cumsum(counts) - counts
        self.rows = np.arange(number)
        if sample is not None and sample < number:
            self.rows = np.random.default_rng((config.seed, 0, 2)).choice(self.rows, sample, replace=False)
        self.steps = config.optim.run_steps(len(self.rows))

    @property
    def seen(self) -> np.ndarray:
        """The indices of the photos of an epoch, int64 [n], ascending."""
        if self.starts is None:
            return self.photos[np.sort(self.rows)]
        return self.photos[np.unique(np.searchsorted(self.starts, self.rows, side="right") - 1)]

    def check(self) -> None:
        """Raise DataError if an epoch has fewer photos with captions, or pairs, than a batch."""
        number, batch = len(self.rows), self.config.optim.batch
        if not number:
            raise DataError(f"{self.name} has no captions to train on")
        if number < batch:
            pairs = self.config.data.epoch == "pairs"
            what = counted(number, "caption" if pairs else "photo") + " with captions" * (not pairs)
            raise DataError(
                f"{self.name} has {what}, fewer than a batch; lower optim.batch={batch} or give more photos"
            )

    def __iter__(self) -> Iterator[list[Key]]:
        config, batch = self.config, self.config.optim.batch
        sizes, per_epoch = config.sizes, len(self.rows) // batch
        epoch = -1
        for step in count(self.first) if self.steps is None else range(self.first, self.steps):
            if epoch != step // per_epoch:
                epoch = step // per_epoch
                shuffled = self._shuffled(epoch)
            size = sizes[int(np.random.default_rng((config.seed, step, 1)).integers(len(sizes)))]
            start = (step % per_epoch) * batch
            keys = self._keys(epoch, shuffled[start : start + batch], size)
            yield keys if self.part is None else keys[self.part(len(keys))]

    def _shuffled(self, epoch: int) -> np.ndarray:
        """Return an epoch's rows in order, with `topics` in groups of one; what is left over comes last."""
        alike, rng = self.config.data.alike, np.random.default_rng((self.config.seed, epoch))
        shuffled = rng.permutation(self.rows)
        if self.topics is None:
            return shuffled
        by_topic = shuffled[np.argsort(self.topics[shuffled], kind="stable")]
        starts = np.flatnonzero(np.diff(self.topics[by_topic], prepend=-1))
        sizes = np.diff(starts, append=len(by_topic))
        place = np.arange(len(by_topic)) - np.repeat(starts, sizes)  # in its topic
        whole = place < np.repeat(sizes - sizes % alike, sizes)
        groups = by_topic[whole].reshape(-1, alike)
        return np.concatenate([rng.permutation(groups).ravel(), rng.permutation(by_topic[~whole])])

    def _keys(self, epoch: int, rows: np.ndarray, size: int) -> list[Key]:
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


def load_batches(
    photos: AugmentedPhotos, order: Order, collate: Collate, workers: int, pin_memory: bool
) -> Iterator[Batch]:
    """Yield the batches of an order, prepared by so many processes, 0: by this one.

    With `pin_memory` they are in page-locked memory, for a GPU. DataError: a worker hangs or dies.
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
    except DataError as error:  # of a worker it comes with its traceback, and the sentence at the end
        *_, sentence = str(error).strip().split(f"{DataError.__name__}: ")
        raise DataError(sentence) from error
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
