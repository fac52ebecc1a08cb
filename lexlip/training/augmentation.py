"""Photos for training: random crop, mirroring and RandAugment, or views through a body's frozen part once.

What a photo looks like in an epoch depends on (seed, epoch, photo) alone: a resumed run sees what an
uninterrupted one would have seen, however many workers and processes there are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms.functional import pil_to_tensor

from lexlip.config import Config, DataConfig, ImageEncoderConfig
from lexlip.data import Source, UnreadableImage
from lexlip.data.upright import square
from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ConfigError, ModelError
from lexlip.machine.device import autocast, pick_precision
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import cores, worker_context
from lexlip.models.image_graph import frozen_tokens
from lexlip.training.distributed import Processes
from lexlip.training.run_folder import writing_run

Augmentation = Callable[[Image.Image], Tensor]  # -> uint8 [3, S, S]


def augmentation(data: DataConfig, image: ImageEncoderConfig, size: int) -> Augmentation:
    """Return what turns a photo into pixels, uint8 [3, size, size], by torch's generator."""
    steps: list[object] = [partial(square, config=replace(image, size=size))]
    if data.crop < 1:
        between = transforms.InterpolationMode(image.interpolation)
        steps = [transforms.RandomResizedCrop(size, (data.crop, 1.0), interpolation=between)]
    if data.flip:
        steps.append(transforms.RandomHorizontalFlip())
    if data.randaugment[0]:
        steps.append(transforms.RandAugment(*data.randaugment))
    augment: Augmentation = transforms.Compose([*steps, pil_to_tensor])
    return augment


class Key(NamedTuple):
    epoch: int  # which pass over the photos, or over the pairs
    photo: int  # its index in the source
    size: int  # pixels along a side
    captions: tuple[int, ...] | None = None  # which of its captions go with it; None: some are drawn


class Sample(NamedTuple):
    """A photo for training, given by pixels or by what the frozen part of an image body makes of a view."""

    key: Key
    pixels: Tensor | None  # uint8 [3, S, S], or regions float32 [N, …]
    begun: Tensor | None  # float16, see `FrozenViews`
    drawn: list[int]  # which of its captions were drawn
    captions: tuple[str, ...]  # all of them
    words: tuple[str, ...] = ()  # further texts whose words the photo has


class FrozenViews(NamedTuple):
    """What the frozen part of an image body makes of each view of some photos; see `encode_views`."""

    states: np.ndarray  # float16 [N, views, …]: tokens [P, C], or what the first trained block is given
    photos: np.ndarray  # int64 [N], their indices in the source, ascending
    unreadable: dict[int, str]  # why some of them cannot be read, by index
    until: str | None  # ImageEncoder.frozen_until

    def draw(self, photo: int, rng: np.random.Generator) -> Tensor | str:
        """Return one view of a photo, float16, or why the photo cannot be read."""
        if photo in self.unreadable:
            return self.unreadable[photo]
        row, view = np.searchsorted(self.photos, photo), rng.integers(self.states.shape[1])
        return torch.from_numpy(self.states[row, view].copy())


class AugmentedPhotos(Dataset):
    """Augmented photos with some of their captions, addressed by `Key`; `views` replace the pixels.

    An unreadable photo is given as a text that says why.
    """

    def __init__(
        self,
        source: Source,
        data: DataConfig,
        image: ImageEncoderConfig,
        seed: int,
        views: FrozenViews | None = None,
    ) -> None:
        self.source, self.seed, self.views = source, seed, views
        self.captions_per_image = data.captions_per_image
        self.regions = image.regions
        self.augment = {size: augmentation(data, image, size) for size in {image.size, *data.sizes}}

    def __getitem__(self, key: Key) -> Sample | str:
        rng = np.random.default_rng((self.seed, key.epoch, key.photo, *(key.captions or ())))
        item = self.source.items[key.photo]
        captions = item.captions
        if key.captions is None:
            drawn = rng.permutation(len(captions))[: self.captions_per_image].tolist()
        else:
            drawn = list(key.captions)
        if self.views is not None:
            begun = self.views.draw(key.photo, rng)
            return begun if isinstance(begun, str) else Sample(key, None, begun, drawn, captions, item.words)
        pixels = self.pixels(key.photo, key.size, int(rng.integers(2**62)))
        return pixels if isinstance(pixels, str) else Sample(key, pixels, None, drawn, captions, item.words)

    def pixels(self, photo: int, size: int, seed: int) -> Tensor | str:
        """Return a photo, augmented as `seed` draws, uint8 [3, size, size], or why it cannot be read.

        Of a model of regions it is those that a detector found, float32 [N, …], as they are.
        """
        if self.regions is not None:
            return torch.from_numpy(self.source.regions(photo, self.regions))
        try:
            picture = self.source.image(photo, size)
        except UnreadableImage as error:
            return str(error)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the CPU's alone
            return self.augment[size](picture)


# ---- photos through a frozen image body ----


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

    `encoder` has a body that is frozen, or is up to a block. `photos` makes the views of those of `indices`,
    int64 [N], ascending. They are kept in `file`, which is deleted as soon as all processes, on one file
    system, have opened it: nothing is left however the run ends. ConfigError: the body is not frozen up to a
    block. DataError: the disk has no room for them.
    """
    try:
        encoder.frozen_until = encoder.first_trained()
    except ConfigError as error:
        raise ConfigError(
            f"data.views={config.data.views} needs a frozen image encoder, or one that is frozen up to a"
            f" block, but {error}: set optim.lr_scale={{image_encoder.body: 0}}, or data.views=0"
        ) from error
    if encoder.frozen_until and encoder.checkpointing:
        raise ConfigError(
            "optim.checkpoint_activations would compute what data.views has of a partly frozen image encoder"
            " once more: leave it out, or set data.views=0"
        )
    with torch.no_grad():
        shape = encoder.begin(encoder.blank()).shape[1:]
    states = _shared_array(file, (len(indices), config.data.views, *shape), processes)
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
    encode_without_torch(encoder, config, device)
    if processes.first:
        count, size = config.data.views, states.nbytes / 1e9
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
                    encoded = encoder.begin(pixels).half().cpu().numpy()
                states[[row for row, _, _ in readable], [view for _, view, _ in readable]] = encoded
            bar.update(len(samples))
    encoder.train(training)
    everywhere = {photo: why for part in processes.collect(unreadable) for photo, why in part.items()}
    return FrozenViews(states, indices, everywhere, encoder.frozen_until)


def encode_without_torch(encoder: ImageEncoder, config: Config, device: torch.device) -> None:
    """Let ONNX Runtime compute what a frozen body makes of photos, if it can: on a CPU in less time."""
    exact = device.type == "cpu" and pick_precision(config.optim.precision, device) == "fp32"
    if encoder.frozen_until is None and exact and not config.optim.compile:  # which cannot call others
        with suppress(ModelError):  # torch computes them where there is no such graph
            encoder.without_gradient = frozen_tokens(encoder)


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
