from dataclasses import replace

import pytest
import torch

from lexlip.config import Config
from lexlip.encoders.image import ImageEncoder
from lexlip.training.memory import estimate_memory, saved_bytes
from lexlip.training.method import Method
from tests.tiny import TINY, tiny_model, tiny_photos
from tests.training.small_run import SMALL


def memory(config: Config, processes: int = 1) -> dict[str, float]:
    model = tiny_model().to("meta")
    with torch.device("meta"):
        method = Method(model, tiny_model().vocabulary, config.objective)
    return estimate_memory(method, config, processes)


@pytest.mark.parametrize("layers", [0, 2])
def test_activations_are_counted_without_memory(layers: int) -> None:
    """What autograd keeps of a pass is the same with weights and without."""

    def kept(encoder: ImageEncoder, photos: torch.Tensor) -> int:
        return saved_bytes(encoder, lambda: encoder(photos).sum())

    config = replace(TINY.image, layers=layers)
    real = kept(ImageEncoder(config, 16).train(), tiny_photos(4))
    with torch.device("meta"):
        encoder = ImageEncoder(config, 16).train()
    photos = torch.empty(tiny_photos(4).shape, dtype=torch.uint8, device="meta")
    assert kept(encoder, photos) == pytest.approx(real, rel=0.1)  # attention keeps other parts
    assert real > 4 * 17 * 24 * 4  # at least one state of each token


def test_memory_follows_the_micro_batch() -> None:
    config = replace(SMALL, optim=replace(SMALL.optim, batch=8, micro_batch=None))
    whole = memory(config)
    half = memory(replace(config, optim=replace(config.optim, micro_batch=4)))
    assert half["activations"] == pytest.approx(whole["activations"] / 2, rel=0.05)
    assert half["weights and queues"] == whole["weights and queues"]
    assert memory(config, processes=2)["activations"] == half["activations"]
