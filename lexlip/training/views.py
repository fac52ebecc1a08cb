"""Photos through a frozen image body once, before the first step, instead of in every epoch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from lexlip.config import Config
from lexlip.data.workers import cores, worker_context
from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ConfigError
from lexlip.training.batches import Photos
from lexlip.training.device import autocast, pick_precision
from lexlip.training.processes import Processes

BATCH = 32  # views encoded at a time


class Views:
    """What the body makes of each view of some photos.

    Args:
        states: float16 [N, views, P, C].
        photos: int64 [N], their indices in the source, in ascending order.
        unreadable: why some of them cannot be read, by index.
    """

    def __init__(self, states: np.ndarray, photos: np.ndarray, unreadable: dict[int, str]) -> None:
        self.states, self.photos, self.unreadable = states, photos, unreadable

    def draw(self, photo: int, numbers: np.random.Generator) -> Tensor | str:
        """One view of a photo, float16 [P, C], or why it cannot be read."""
        if photo in self.unreadable:
            return self.unreadable[photo]
        row, view = np.searchsorted(self.photos, photo), numbers.integers(self.states.shape[1])
        return torch.from_numpy(self.states[row, view].copy())


def encode_views(
    encoder: ImageEncoder,
    photos: Photos,
    which: np.ndarray,
    config: Config,
    path: Path,
    processes: Processes,
) -> Views:
    """Encode `config.data.views` views of each photo; each process does its share.

    Args:
        encoder: its body must be frozen.
        photos: what makes the views.
        which: int64 [N], indices of the photos in their source, in ascending order.
        config: the experiment.
        path: of a file to keep them in; it has no name any more on return, so that nothing is left behind.
        processes: who shares the work, on one file system.

    Raises:
        ConfigError: the body learns, photos come in several sizes, or pixels are to be masked.
    """
    if any(parameter.requires_grad for parameter in encoder.body.parameters()):
        raise ConfigError(
            f"data.views={config.data.views} needs a frozen image encoder:"
            " set optim.lr_scale={image_encoder.body: 0}, or data.views=0"
        )
    if config.data.sizes:
        raise ConfigError("data.views is for photos of one size: leave data.sizes empty, or set data.views=0")
    if config.objective.smrm and encoder.layers is None:
        raise ConfigError(
            "data.views keeps no pixels that objective.smrm could mask: set model.image.layers=2 for fresh"
            " layers, whose tokens are masked, or data.views=0"
        )
    shape = len(which), config.data.views, *encoder.token_shape
    if processes.first:
        np.lib.format.open_memmap(path, "w+", np.float16, shape).flush()
    processes.wait()
    states = np.lib.format.open_memmap(path, "r+")
    rows = range(processes.rank, len(which), processes.world)
    places = [(row, int(which[row]), view) for row in rows for view in range(config.data.views)]
    workers = min(config.data.workers, cores())
    loader = DataLoader(
        _Places(photos, places, config.model.image.size),
        BATCH,
        collate_fn=list,
        num_workers=workers,
        multiprocessing_context=worker_context() if workers else None,
        generator=torch.Generator(),
    )
    device, unreadable = processes.device, dict[int, str]()
    precision = pick_precision(config.optim.precision, device)
    hidden = None if processes.first else True  # None: where nobody looks on
    if processes.first:
        count, size = config.data.views, np.prod(shape) * states.itemsize / 1e9
        tqdm.write(f"encoding {count} views of {len(which)} photos once, {size:.1f} GB in {path}", sys.stderr)
    with tqdm(total=len(places), desc="views of photos", unit="view", delay=2, disable=hidden) as bar:
        for samples in loader:
            read = [(row, view, pixels) for row, _, view, pixels in samples if isinstance(pixels, Tensor)]
            unreadable |= {photo: why for _, photo, _, why in samples if isinstance(why, str)}
            if read:
                pixels = torch.stack([pixels for _, _, pixels in read]).to(device)
                with torch.inference_mode(), autocast(precision, device):
                    tokens = encoder.tokens(pixels).half().cpu().numpy()
                states[[row for row, _, _ in read], [view for _, view, _ in read]] = tokens
            bar.update(len(samples))
    states.flush()
    everywhere = {photo: why for part in processes.collect(unreadable) for photo, why in part.items()}
    views = Views(np.load(path, mmap_mode="r"), which, everywhere)
    processes.wait()
    if processes.first:
        path.unlink()
    return views


class _Places(Dataset):
    """(row, photo, view) with the view's pixels, or why the photo cannot be read."""

    def __init__(self, photos: Photos, places: Sequence[tuple[int, int, int]], size: int) -> None:
        self.photos, self.places, self.size = photos, places, size

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[int, int, int, Tensor | str]:
        row, photo, view = self.places[index]
        numbers = np.random.default_rng((self.photos.seed, view, photo, 1))
        return row, photo, view, self.photos.pixels(photo, self.size, int(numbers.integers(2**62)))
