"""What the tests of batches and of loading share."""

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import torch

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig
from lexlip.data import Scenes, Source
from lexlip.encoders.text import word_tokenizer
from lexlip.training.augmentation import AugmentedPhotos
from lexlip.training.batches import Batch, Collate
from lexlip.training.loading import Order, caption_counts, count_steps, load_batches
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
    steps = count_steps(source, config.data, config.optim)
    sizes = config.data.sizes or (config.model.image.size,)
    counts = caption_counts(source) if config.data.epoch == "pairs" else None
    order = Order(source.captioned(), config.optim.batch, steps, first, config.seed, sizes, part, counts)
    workers = config.data.workers
    return list(load_batches(photos_of(source, config), order, collate_of(config), workers, False))


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
