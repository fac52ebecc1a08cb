"""LightningDOT's masked regions: MRFR and MRC-kl."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lexlip.config import Config, DataConfig, ModelConfig, ObjectiveConfig
from lexlip.errors import ConfigError
from lexlip.training.batches import PhotoBatch
from lexlip.training.method import Method
from lexlip.training.step import backward
from tests.made_regions import drawn_regions, region_model
from tests.tiny import TINY, tiny_batch, tiny_method, tiny_stage
from tests.training.small_run import step_of

ALONE = {"contrastive": 0.0, "flops_image": 0.0, "flops_text": 0.0}


def method_of(**objective: Any) -> Method:
    model = tiny_stage("lightningdot", region_model())
    return tiny_method(
        ObjectiveConfig(**{**ALONE, "smrm": 1.0, "mask_patches": 0.4, **objective}), model
    ).eval()


def batch_of(method: Method) -> Any:
    """Photos of 2 to 5 regions with one or two captions each."""
    batch = tiny_batch(method)
    regions = drawn_regions([2, 5, 3, 4, 1])
    return replace(batch, photos=PhotoBatch(batch.photos.indices, regions))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("loss", ["mse", "kl"])
@torch.no_grad()
def test_masked_regions_are_told_from_states_and_the_caption(loss: str, fused: bool) -> None:
    method = method_of(smrm_loss=loss, fused=fused)
    model, batch = method.model, batch_of(method)
    texts, total = model.raw_text(batch.captions.ids, batch.captions.mask), 0.0
    torch.manual_seed(5)
    states, masked, _ = model.image_encoder.masked_tokens(batch.photos.pixels, 0.4)
    assert len(set(masked.sum(dim=1).tolist())) > 1
    for text, photo in enumerate(batch.owners.tolist()):
        distances = []
        for region in masked[photo, 1:].nonzero()[:, 0].tolist():
            hidden = states[photo, region + 1]
            predicted = method.patch_head(hidden + texts[text] if fused else hidden)
            features, classes = batch.photos.pixels[photo, region, 7:].split([12, 9])
            if loss == "mse":
                distances.append(((predicted - features) ** 2).mean())
            else:
                distances.append((classes * (classes / predicted.softmax(dim=0)).log()).sum())
        total += float(sum(distances)) / len(distances)
    torch.manual_seed(5)
    assert float(method(batch)[1]["smrm"]) == pytest.approx(total, rel=1e-4)


def test_gradients_reach_both_encoders() -> None:
    method = method_of()
    backward(step_of(method, batch_of(method)))
    for encoder in (method.model.image_encoder, method.model.text_encoder):
        assert any(weight.grad is not None and weight.grad.any() for weight in encoder.parameters())


def test_what_does_not_go_with_regions_is_refused() -> None:
    objective = ObjectiveConfig(flops_image=0, flops_text=0, smrm=1, smrm_loss="kl")
    with pytest.raises(ConfigError, match="predicts a detector's classes: say how many"):
        Config(model=region_model(classes=0), objective=objective)
    Config(model=region_model(), objective=objective)
    for data in (
        {"crop": 0.5},
        {"flip": True},
        {"randaugment": (1, 5)},
        {"sizes": (32, 48)},
        {"views": 2},
    ):
        with pytest.raises(ConfigError, match="takes what a detector found, which is not augmented"):
            Config(model=region_model(), objective=replace(objective, smrm=0), data=DataConfig(**data))
    with pytest.raises(ConfigError, match="for models without words"):
        ModelConfig(kind="lexlip", image=region_model().image, text=TINY.text)
