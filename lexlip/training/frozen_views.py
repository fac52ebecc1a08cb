"""Photos that go through a frozen image body once, before the first step, instead of in every epoch."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lexlip.config import Config
from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ConfigError
from lexlip.machine.device import autocast, pick_precision
from lexlip.machine.processes import worker_context
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import cores
from lexlip.training.augmentation import AugmentedPhotos, FrozenViews
from lexlip.training.distributed import Processes
from lexlip.training.run_folder import writing_run

BATCH = 32  # views encoded at a time


def encode_views(
    encoder: ImageEncoder,
    photos: AugmentedPhotos,
    indices: np.ndarray,
    config: Config,
    file: Path,
    processes: Processes,
) -> FrozenViews:
    """Encode `config.data.views` views of each photo; each process does its share.

    Args:
        encoder: its body must be frozen.
        photos: makes the views.
        indices: int64 [N], of the photos in their source, ascending.
        config: the experiment.
        file: where they are kept. It is deleted as soon as all processes have opened it, so that nothing
            is left however the run ends.
        processes: share the work, on one file system.

    Raises:
        ConfigError: the body is not frozen.
        DataError: the disk has no room for them.
    """
    if any(parameter.requires_grad for parameter in encoder.body.parameters()):
        raise ConfigError(
            f"data.views={config.data.views} needs a frozen image encoder:"
            " set optim.lr_scale={image_encoder.body: 0}, or data.views=0"
        )
    tokens = _shared_array(file, (len(indices), config.data.views, *encoder.token_shape), processes)
    rows = range(processes.rank, len(indices), processes.world)
    places = [(row, int(indices[row]), view) for row in rows for view in range(config.data.views)]
    workers = min(config.data.workers, cores())
    loader = DataLoader(
        _Views(photos, places, config.model.image.size),
        BATCH,
        collate_fn=list,
        num_workers=workers,
        multiprocessing_context=worker_context() if workers else None,
        generator=torch.Generator(),
    )
    device, unreadable = processes.device, dict[int, str]()
    precision = pick_precision(config.optim.precision, device)
    if processes.first:
        count, size = config.data.views, tokens.nbytes / 1e9
        ProgressBar.write(f"encoding {count} views of {len(indices)} photos once, {size:.1f} GB", sys.stderr)
    training = encoder.training
    encoder.eval()  # without the body's dropout
    with ProgressBar(
        total=len(places), desc="views of photos", unit="view", delay=2, disable=not processes.first
    ) as bar:
        for samples in loader:
            readable = [(row, view, pixels) for row, _, view, pixels in samples if isinstance(pixels, Tensor)]
            unreadable |= {photo: why for _, photo, _, why in samples if isinstance(why, str)}
            if readable:
                pixels = torch.stack([pixels for _, _, pixels in readable]).to(device)
                with torch.inference_mode(), autocast(precision, device):
                    encoded = encoder.tokens(pixels).half().cpu().numpy()
                tokens[[row for row, _, _ in readable], [view for _, view, _ in readable]] = encoded
            bar.update(len(samples))
    encoder.train(training)
    everywhere = {photo: why for part in processes.collect(unreadable) for photo, why in part.items()}
    return FrozenViews(tokens, indices, everywhere)


def _shared_array(file: Path, shape: tuple[int, ...], processes: Processes) -> np.ndarray:
    """Return a float16 array on disk that all processes share, in a file without a name."""
    if processes.first:
        with writing_run(file.parent):
            _reserve(file, shape)
    processes.wait()
    array: np.ndarray = np.lib.format.open_memmap(file, "r+")
    processes.wait()
    if processes.first:
        file.unlink()
    return array


def _reserve(file: Path, shape: tuple[int, ...]) -> None:
    """Make the file of an array with all its room on the disk, without which a later write would kill us."""
    try:
        np.lib.format.open_memmap(file, "w+", np.float16, shape).flush()
        with file.open("r+b") as opened:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)
            else:  # macOS and Windows
                _fill(opened, file.stat().st_size)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _fill(file: IO[bytes], size: int) -> None:
    """Write zeros from where the header of an array ends, which flush has written, to the end."""
    np.lib.format.read_magic(file)
    np.lib.format.read_array_header_1_0(file)
    while rest := size - file.tell():
        file.write(bytes(min(rest, 2**20)))


class _Views(Dataset):
    """(row, photo, view) with the view's pixels, or why the photo cannot be read."""

    def __init__(self, photos: AugmentedPhotos, places: Sequence[tuple[int, int, int]], size: int) -> None:
        self.photos, self.places, self.size = photos, places, size

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[int, int, int, Tensor | str]:
        row, photo, view = self.places[index]
        rng = np.random.default_rng((self.photos.seed, view, photo, 1))
        return row, photo, view, self.photos.pixels(photo, self.size, int(rng.integers(2**62)))
