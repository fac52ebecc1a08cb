from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lexlip.config import ImageEncoderConfig
from tests.tiny import TINY, tiny_model, tiny_photos


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("mobilenetv2_035", 50),
        ("efficientnet_b0", 45),
        ("mobilenetv3_small_050", 30),
        ("resnet18", 20),
        ("resnetv2_50t", 0),  # norms before convolutions
        ("densenet121", 0),
        ("convnext_atto", 0),  # without batch norms
    ],
)
def test_vectors_stay_as_they_are(name: str, least: int) -> None:
    model = tiny_model(replace(TINY, image=ImageEncoderConfig(name=name, size=32, layers=1)))
    random = torch.Generator().manual_seed(0)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.running_mean.normal_(std=0.2, generator=random)
        norm.running_var.uniform_(0.5, 2, generator=random)
    photos = tiny_photos(3)
    before = model.raw_image(photos).detach().numpy()
    assert model.fold_batch_norms() is model
    left = sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert len(norms) - left >= least
    np.testing.assert_allclose(model.raw_image(photos).detach().numpy(), before, rtol=1e-3, atol=1e-4)
