"""What the tests of batches and of loading share."""

import torch

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig
from lexlip.data import Scenes, Source
from lexlip.encoders.text import word_tokenizer
from lexlip.training.batches import Batch
from lexlip.training.loading import training_batches
from lexlip.training.distributed import Processes
from lexlip.vocabulary import Vocabulary
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
ALONE = Processes("cpu")


def batches_of(source: Source, config: Config, first: int = 0) -> list[Batch]:
    return list(training_batches(source, config, TOKENIZER, VOCABULARY, first, ALONE)[0])


def fields_of(batch: Batch) -> tuple:
    """All of a batch, to compare."""
    return tuple(v.tolist() if isinstance(v, torch.Tensor) else v for v in vars(batch).values())


def captions_of(batch: Batch) -> list[str]:
    return TOKENIZER.batch_decode(batch.ids, skip_special_tokens=True)


def seen(config: Config, source: Source, first: int = 0) -> list[tuple]:
    """What a run sees from a step on: pixels, captions and owners of each batch, masks, words."""
    return [fields_of(batch) for batch in batches_of(source, config, first)]
