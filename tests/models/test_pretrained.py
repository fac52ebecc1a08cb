from typing import Any

import pytest

from lexlip.errors import ModelError
from lexlip.models.pretrained import image_config


def test_what_a_processor_does() -> None:
    settings: dict[str, Any] = {"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 1, 1], "size": {}}
    cut = image_config({**settings, "crop_size": {"height": 24, "width": 24}}, "x")
    assert (cut.size, cut.resize, cut.mean) == (24, "crop", (0.1, 0.2, 0.3))
    old = image_config({**settings, "crop_size": 24}, "x")
    assert (old.size, old.resize) == (24, "crop")
    whole = image_config({**settings, "do_center_crop": False, "size": {"height": 24, "width": 24}}, "x")
    assert (whole.size, whole.resize) == (24, "squash")
    with pytest.raises(ModelError, match=r"the processor of 'x' makes photos of .*, not square ones"):
        image_config({**settings, "crop_size": {"height": 24, "width": 32}}, "x")
