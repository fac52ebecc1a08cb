"""Configs of runs that take a second, and photos for them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig, SourceConfig
from lexlip.training.batches import Batch
from lexlip.training.distributed import Processes
from lexlip.training.method import Method
from lexlip.training.step import Step
from tests.tiny import TINY

PHASE_1 = {"mlm": 0.5, "image_to_text": 0.5, "text_to_text": 0.5}

SMALL = Config(
    name="small",
    seed=5,
    validate_every=5,
    checkpoint_every=4,
    log_every=1,
    data=DataConfig(
        train=(SourceConfig("scenes:24:0"),),
        val=(SourceConfig("scenes:8:9"),),
        captions_per_image=2,
        crop=0.6,
        workers=0,
    ),
    model=replace(TINY, image=replace(TINY.image, layers=1)),
    objective=ObjectiveConfig(anchor_contrastive=0.5, anchor_words=0.3),
    optim=OptimConfig(epochs=4, batch=8, lr=1e-3, micro_batch=5),
)
WITH_DECODERS = replace(SMALL, objective=replace(SMALL.objective, **PHASE_1))
WITH_QUEUES = replace(SMALL, objective=replace(SMALL.objective, queue=21, momentum=0.7, topk=(4,)))
DENSE = replace(
    SMALL,
    model=replace(TINY, kind="dense"),
    objective=ObjectiveConfig(flops_image=0, flops_text=0, **PHASE_1, queue=21),
)
STEPS = 12
ALONE = Processes("cpu")
OFF = torch.amp.GradScaler("cpu", enabled=False)


def step_of(method: Method, batch: Batch, progress: float = 1.0, scaler: Any = OFF, **config: Any) -> Step:
    """A step of one process, in fp32 unless `config` says else."""
    return Step(method, batch, OptimConfig(**{"precision": "fp32", **config}), progress, ALONE, scaler)


def with_data(config: Config, **changes: Any) -> Config:
    return replace(config, data=replace(config.data, **changes))


def write_captioned(folder: Path, captions: Sequence[str | None], broken: Collection[int] = ()) -> Path:
    """Photos 0.jpg, 1.jpg ... with these captions, None for none; some cannot be read."""
    folder.mkdir(exist_ok=True)
    for number, caption in enumerate(captions):
        Image.new("RGB", (40, 30), (30 * number, 0, 0)).save(folder / f"{number}.jpg")
        if caption is not None:
            (folder / f"{number}.txt").write_text(caption + "\n")
    for number in broken:
        (folder / f"{number}.jpg").write_bytes(b"no photo")
    return folder
