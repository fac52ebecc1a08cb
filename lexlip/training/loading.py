"""Which photos each step sees, and the processes that read them ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase

from lexlip.config import Config, SourceConfig
from lexlip.data import Source, open_source
from lexlip.data.joined import JoinedSource
from lexlip.data.more_captions import MoreCaptions
from lexlip.data.workers import cores, worker_context
from lexlip.errors import DataError
from lexlip.training.batches import Batch, Collate, Key, Photos
from lexlip.training.processes import Processes
from lexlip.training.views import Views
from lexlip.vocabulary import Vocabulary

PATIENCE = 600  # seconds; a batch that takes longer ends the run with an error rather than in silence


def open_configured(configs: Sequence[SourceConfig]) -> Source:
    """The photos of a config's list of sources.

    Raises:
        DataError: a source is missing or holds nothing.
    """
    sources = [_open(config) for config in configs]
    return sources[0] if len(sources) == 1 else JoinedSource(sources)


def _open(config: SourceConfig) -> Source:
    source = open_source(config.path, config.images, config.split)
    return MoreCaptions(source, config.captions) if config.captions else source


class Order:
    """Which photos each step sees: a new permutation an epoch, drawn from the seed; the rest is dropped.

    Args:
        photos: indices of the photos to train on.
        batch: photos a step, over all processes.
        steps: steps of the whole run.
        first: the step to begin with; the steps before it were done by an earlier process.
        seed: of the permutations.
        sizes: pixels, one of them drawn for each step.
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


def training_batches(
    source: Source,
    config: Config,
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: Vocabulary,
    first: int,
    processes: Processes,
    views: Views | None = None,
) -> tuple[Iterable[Batch], int]:
    """This process's batches from step `first` on, and the number of steps of the whole run.

    With `views` a photo is one of them, else its pixels.

    Raises:
        DataError: fewer captioned photos than a batch; while iterating, a worker that hangs or dies.
        ConfigError: a batch of fewer photos than processes.
    """
    photos = source.captioned()
    batch = config.optim.batch
    if len(photos) < batch:
        raise DataError(
            f"{source.name} has {len(photos)} photos with captions, fewer than a batch;"
            f" lower optim.batch={batch} or give more photos"
        )
    steps = config.optim.steps or max(1, int(config.optim.epochs * (len(photos) // batch)))
    sizes = config.data.sizes or (config.model.image.size,)
    order = Order(photos, batch, steps, first, config.seed, sizes, processes.part(batch))
    workers = min(config.data.workers, cores())
    loader = DataLoader(
        Photos(source, config, views),
        batch_sampler=order,  # type: ignore[arg-type]
        collate_fn=Collate(config, tokenizer, vocabulary),
        num_workers=workers,
        multiprocessing_context=worker_context() if workers else None,
        timeout=PATIENCE if workers else 0,
        pin_memory=processes.device.type == "cuda",
        generator=torch.Generator(),  # starting to iterate draws a number, and not from dropout's generator
    )
    return _watched(loader), steps


def _watched(loader: Iterable[Batch]) -> Iterator[Batch]:
    """The batches of a loader; what goes wrong in its processes as a sentence."""
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
