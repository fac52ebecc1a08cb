"""How many photos a core reads, decodes and augments for training, beside what a step eats."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from lexlip.config import DataConfig, ImageEncoderConfig
from lexlip.data import Source, spread
from lexlip.errors import DataError
from lexlip.machine.progress import ProgressBar
from lexlip.training.augmentation import AugmentedPhotos

SIZES = (224, 384)  # pixels along a side: pre-training's and fine-tuning's


def measure_decoding(
    source: Source,
    data: DataConfig,
    image: ImageEncoderConfig,
    photos: int = 200,
    sizes: Sequence[int] = SIZES,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure photos per second and core, from the file to augmented pixels, as a worker of training does.

    Seconds are those of the processor: waiting for a disk, and other programs, do not count. Every photo is
    decoded once before.

    At most so many photos are taken, evenly spread over the source, for a measurement at each size in pixels.

    Returns:
        {"photos", "unreadable", "crop", "flip", "randaugment", "photos_per_s_and_core": {size: …}}

    Raises:
        DataError: no photo can be read.
    """
    augmented = AugmentedPhotos(source, replace(data, sizes=tuple(sizes)), image, seed=0)
    chosen = spread(len(source), photos)
    rates: dict[int, float] = {}
    with ProgressBar(total=len(chosen) * (1 + len(sizes)), unit="photo", disable=not progress) as bar:
        bar.set_description("decoding all once")
        readable = []
        for photo in chosen:
            if isinstance(augmented.pixels(photo, sizes[0], photo), Tensor):
                readable.append(photo)
            bar.update()
        if not readable:
            raise DataError(f"no photo in {source.name} can be read ({len(chosen)} tried)")
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


def cores_for(photos_per_s: float, rate: float) -> int:
    """Return the cores that give a step so many photos per second, if a core gives `rate` of them."""
    return math.ceil(photos_per_s / rate)
