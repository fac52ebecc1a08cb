"""Photos per second: from files to vectors, by `lexlip index` and a plain loop; and decoded for training.

The plain loop is what users of open_clip write: its evaluation transform, a DataLoader, and the model in
evaluation mode under `torch.inference_mode()`.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Normalize, Resize, ToTensor

from lexlip.config import DataConfig, ImageEncoderConfig
from lexlip.data import Source, UnreadableImage, decode, spread
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.machine import resources
from lexlip.machine.device import pick_device
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import cores, photos_at_a_time
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.load import load_model
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.training.augmentation import AugmentedPhotos

BATCH = 32  # photos that the plain loop encodes at a time
SIZES = (224, 384)  # pixels along a side: pre-training's and fine-tuning's

Vectors = Iterator[NDArray[np.float32]]  # [B, dimensions], batch by batch
Decoded = TypeVar("Decoded")


def index_loop(model: DualEncoder, source: Source, indices: Sequence[int], workers: int) -> Vectors:
    """Encode photos as `lexlip index` does; expects a model with folded batch norms, as there."""
    for _, vectors in PhotoVectors(model, source, workers=workers, indices=indices):
        yield vectors.toarray()


def plain_loop(model: DualEncoder, source: Source, indices: Sequence[int], workers: int) -> Vectors:
    """Encode photos as users of open_clip do: a DataLoader gives normalised photos."""
    loader = DataLoader(
        _Transformed(source, evaluation_transform(model.config.image)),
        BATCH,
        sampler=indices,
        num_workers=workers,
        multiprocessing_context=resources.worker_context() if workers else None,
    )

    def encode(photos: Tensor) -> Tensor:
        tokens = model.image_encoder.body_tokens(photos)
        return model.vectors(model.pool_image(model.image_encoder.deepen(tokens)))

    with torch.inference_mode():
        for photos in loader:
            yield model.over_views(encode, photos.to(model.device)).cpu().numpy()


LOOPS: dict[str, Callable[..., Vectors]] = {"index": index_loop, "plain": plain_loop}


class _Transformed(Dataset):
    def __init__(self, source: Source, transform: Callable[[Image.Image], Tensor]) -> None:
        self.source, self.transform = source, transform

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(Image.open(io.BytesIO(self.source.read(index))))


def evaluation_transform(config: ImageEncoderConfig) -> Callable[[Image.Image], Tensor]:
    """Return open_clip's `image_transform(…, is_train=False)`, with the size and statistics of a model."""
    size, between = config.size, InterpolationMode(config.interpolation)
    square: list[Callable[..., Any]] = (
        [Resize((size, size), between)]
        if config.resize == "squash"
        else [Resize(size, between), CenterCrop(size)]
    )
    return Compose([*square, _to_rgb, ToTensor(), Normalize(config.mean, config.std)])


def _to_rgb(photo: Image.Image) -> Image.Image:
    return photo.convert("RGB")


def measure_encoding(
    model: str,
    source: Source,
    photos: int = 500,
    workers: int = 2,
    rounds: int = 3,
    device: str = "cpu",
    progress: bool = False,
) -> dict[str, Any]:
    """Measure photos per second of both loops, from the first file to the last vector.

    Every photo is decoded once before, so that files come from the system's cache; those that cannot be read
    are left out. In each round each loop runs in a new process, as a command does, in which the model was
    loaded and nothing encoded: loading does not count, starting workers does. The loops take turns, so that
    a machine that slows down slows both.

    At most so many photos are taken, evenly spread over the source; so many workers decode for each loop. On
    a GPU the index's loop computes in bf16, the plain one in fp32, as each does by default.

    Returns:
        {"conditions": …, "loops": {name: {"photos_per_s": {"median", "least", "most"}, "busy": median share
        of all cores' time that the process and its workers used}}, "ratio": {"median", "least", "most"} of
        the rates of the index's loop and the plain one within a round}

    Raises:
        ModelError: the model is not there, or damaged.
        DataError: no photo can be read.
        ConfigError: memory does not suffice.
    """
    place = pick_device(device)
    config = _load(model).config.image
    chosen = spread(len(source), photos)
    total, hidden = len(chosen) * (1 + rounds * len(LOOPS)), not progress
    with ProgressBar(total=total, unit="photo", disable=hidden) as bar:
        shapes = _decoded_once(source, chosen, lambda photo: _shape(source, photo, config.size), bar)
        times: dict[str, list[tuple[float, float]]] = {loop: [] for loop in LOOPS}
        for _ in range(rounds):
            for loop, taken in times.items():
                bar.set_description(loop)
                killed = ConfigError(f"the loop '{loop}' does not fit into memory")
                given = loop, model, source, list(shapes), workers, str(place)
                taken.append(resources.in_own_process(time_loop, *given, killed=killed))
                bar.update(len(chosen))
    rates = {loop: [len(shapes) / seconds for seconds, _ in taken] for loop, taken in times.items()}
    width, height, size = np.median(list(shapes.values()), axis=0)
    return {
        "conditions": {
            "model": model,
            "encoder": config.name,
            "pixels": config.size,
            "photos": len(shapes),
            "unreadable": len(chosen) - len(shapes),
            "photo_width": int(width),
            "photo_height": int(height),
            "photo_kb": round(size / 1000, 1),
            "device": str(place),
            "batch": photos_at_a_time(place, config.size),
            "workers": workers,
            "threads": torch.get_num_threads(),
            "rounds": rounds,
            "torch": torch.__version__,
            **resources.describe(),
        },
        "loops": {
            loop: {"photos_per_s": _spread(rates[loop]), "busy": median(busy for _, busy in taken)}
            for loop, taken in times.items()
        },
        "ratio": _spread(
            [index / plain for index, plain in zip(rates["index"], rates["plain"], strict=True)]
        ),
    }


def time_loop(
    loop: str, model: str, source: Source, indices: Sequence[int], workers: int, device: str = "cpu"
) -> tuple[float, float]:
    """Return the seconds of a loop over photos, and the share of all cores' time that it used.

    It needs a process of its own, without children: those that have ended would count.
    """
    encoder = _load(model, device)
    if loop == "index":
        encoder.fold_batch_norms()
    start, used = time.perf_counter(), _processor_seconds()
    for _ in LOOPS[loop](encoder, source, indices, workers):
        pass
    seconds, used = time.perf_counter() - start, _processor_seconds() - used
    return seconds, used / (seconds * cores())


def _load(model: str, device: str = "cpu") -> DualEncoder:
    encoder = load_model(model, device)
    if not isinstance(encoder, DualEncoder):
        raise ModelError(f"the plain loop cannot take the {encoder.kind} model '{model}' apart")
    return encoder


def _processor_seconds() -> float:
    """Return the processor time of this process, and of its children that have ended.

    A DataLoader waits for its workers at its end.
    """
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _shape(source: Source, index: int, size: int) -> tuple[int, int, int] | None:
    """Return the width, height and bytes of a photo; None if it cannot be read."""
    try:
        data = source.read(index)
        decode(data, size)
    except UnreadableImage:
        return None
    return (*Image.open(io.BytesIO(data)).size, len(data))


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "most": max(values)}


def _decoded_once(
    source: Source, chosen: Sequence[int], decoded: Callable[[int], Decoded | None], bar: ProgressBar
) -> dict[int, Decoded]:
    """Return by photo what decoding gives, without those that cannot be read, for which it gives None."""
    bar.set_description("decoding all once")
    found = {}
    for photo in chosen:
        if (one := decoded(photo)) is not None:
            found[photo] = one
        bar.update()
    if not found:
        raise DataError(f"no photo in {source.name} can be read ({len(chosen)} tried)")
    return found


# ---- with `lexlip bench train`: photos decoded and augmented for training ----


def measure_decoding(
    source: Source,
    data: DataConfig,
    image: ImageEncoderConfig,
    photos: int = 200,
    sizes: Sequence[int] = SIZES,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure photos per second and core, from the file to augmented pixels, as a worker of training does.

    Seconds are those of the processor: waiting for a disk, and other programs, do not count. At most so many
    photos are taken, evenly spread over the source, at each size in pixels; each is decoded once before.

    Returns:
        {"photos", "unreadable", "crop", "flip", "randaugment", "photos_per_s_and_core": {size: …}}

    Raises:
        DataError: no photo can be read.
    """
    augmented = AugmentedPhotos(source, replace(data, sizes=tuple(sizes)), image, seed=0)

    def can_be_read(photo: int) -> bool | None:
        return isinstance(augmented.pixels(photo, sizes[0], photo), Tensor) or None

    chosen = spread(len(source), photos)
    rates: dict[int, float] = {}
    with ProgressBar(total=len(chosen) * (1 + len(sizes)), unit="photo", disable=not progress) as bar:
        readable = list(_decoded_once(source, chosen, can_be_read, bar))
        for size in sizes:
            bar.set_description(f"decoding at {size} pixels")
            started = time.process_time()
            for photo in readable:
                augmented.pixels(photo, size, photo)
                bar.update()
            rates[size] = len(readable) / (time.process_time() - started)
    return {
        "photos": len(readable),
        "unreadable": len(chosen) - len(readable),
        "crop": data.crop,
        "flip": data.flip,
        "randaugment": list(data.randaugment),
        "photos_per_s_and_core": rates,
    }
