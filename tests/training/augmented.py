"""What the tests of batches and of loading share."""

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig
from lexlip.data import Item, Scenes, Source
from lexlip.encoders.text import word_tokenizer
from lexlip.training.augmentation import AugmentedPhotos, Key
from lexlip.training.batches import Batch, Collate
from lexlip.training.loading import Order, load_batches
from lexlip.words.vocabulary import Vocabulary
from tests.tiny import CAPTIONS, TINY

AUGMENTED = Config(
    seed=3,
    data=DataConfig(captions_per_image=2, crop=0.5, flip=True, randaugment=(2, 9), workers=0),
    model=TINY,
    objective=ObjectiveConfig(mlm=1.0, text_to_text=1.0, anchor_words=1.0),
    optim=OptimConfig(epochs=2.5, batch=4),
)
TOKENIZER = word_tokenizer(
    [*(caption for item in Scenes(20, seed=0).items for caption in item.captions), *CAPTIONS, "photo"]
)
VOCABULARY = Vocabulary.build(TINY.vocabulary, TOKENIZER, CAPTIONS + ["red blue circle square photo"] * 9)


def collate_of(config: Config) -> Collate:
    return Collate(config.objective, TOKENIZER, config.model.text.max_tokens, VOCABULARY, config.seed)


def photos_of(source: Source, config: Config) -> AugmentedPhotos:
    return AugmentedPhotos(source, config.data, config.model.image, config.seed)


def batches_of(
    source: Source, config: Config, first: int = 0, part: Callable[[int], slice] | None = None
) -> list[Batch]:
    order, workers = Order(source, config, part), config.data.workers
    order.check()
    order.first = first
    return list(load_batches(photos_of(source, config), order, collate_of(config), workers, False))


class Photos(Source):
    """Photos of which nothing is known but how many captions some of them have."""

    def __init__(self, photos: Sequence[int], captions: Sequence[int] | None = None) -> None:
        self.name = "photos"
        counts = dict(zip(photos, captions or [1] * len(photos), strict=True))
        self.items = [Item(f"{row}", ("",) * counts.get(row, 0)) for row in range(max(photos) + 1)]

    def path(self, index: int) -> str:
        raise NotImplementedError


def keys_of(
    photos: Sequence[int],
    batch: int,
    steps: int,
    first: int = 0,
    seed: int = 1,
    captions: Sequence[int] | None = None,
    part: Callable[[int], slice] | None = None,
    topics: np.ndarray | None = None,
    **data: Any,
) -> list[list[Key]]:
    """The photos of each step of a run; with how many captions each photo has, of pairs."""
    data |= {} if captions is None else {"epoch": "pairs"}
    teacher = "mini" if "alike" in data else None
    optim = OptimConfig(batch=batch, steps=steps)
    config = Config(seed=seed, teacher=teacher, data=DataConfig(**data), optim=optim)
    order = Order(Photos(photos, captions), config, part)
    order.first, order.topics = first, topics
    keys = list(order)
    assert len(keys) == steps - first
    return keys


def fields_of(value: Any) -> Any:
    """All of a batch, to compare."""
    if is_dataclass(value):
        return tuple(fields_of(field) for field in vars(value).values())
    return value.tolist() if isinstance(value, torch.Tensor) else value


def captions_of(batch: Batch) -> list[str]:
    return TOKENIZER.batch_decode(batch.captions.ids, skip_special_tokens=True)


def seen(config: Config, source: Source, first: int = 0) -> list[tuple]:
    """What a run sees from a step on: pixels, captions and owners of each batch, masks, words."""
    return [fields_of(batch) for batch in batches_of(source, config, first)]
