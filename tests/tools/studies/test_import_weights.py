"""Conversions of ImageNet weights; that of EfficientNet-Lite makes a model of full size, which takes long."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.image import ImageEncoder
from tools.studies.import_weights import main, mobilenetv2

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    """Small random weights of the right shapes."""
    rng = np.random.default_rng(0)
    model = timm.create_model("mobilenetv2_100", num_classes=0)
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 52
    made = {}
    for number, convolution in enumerate(convolutions):
        shape, name = tuple(convolution.weight.shape), f"conv{number:02d}"
        made[f"{name}.weight"] = rng.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float16)
        made[f"{name}.bias"] = rng.normal(0, 0.1, shape[0]).astype(np.float32)
    return made


def test_the_weights_are_those_of_folded_convolutions(tmp_path: Path, arrays: Arrays) -> None:
    np.savez(tmp_path / "weights.npz", **arrays)  # type: ignore[arg-type]
    output = tmp_path / "weights.safetensors"
    save_file(mobilenetv2(tmp_path / "weights.npz"), output)
    config = ImageEncoderConfig("mobilenetv2_100", {"pad_type": "same"}, weights=str(output), size=32)
    body = ImageEncoder(config, width=8).eval().body
    pixels = torch.rand(2, 3, 32, 32)
    stem, norm = (torch.from_numpy(arrays[f"conv00.{name}"]).float() for name in ("weight", "bias"))
    padded = nn.functional.pad(pixels, (0, 1, 0, 1))  # as TensorFlow pads for a stride of 2
    expected = nn.functional.relu6(nn.functional.conv2d(padded, stem, norm, stride=2))
    with torch.no_grad():
        torch.testing.assert_close(body.bn1(body.conv_stem(pixels)), expected, rtol=1e-4, atol=1e-5)
        last = body.bn2(body.conv_head(torch.rand(1, 320, 2, 2)))
    assert last.shape == (1, 1280, 2, 2)
    assert load_file(output).keys() == body.state_dict().keys()


@pytest.mark.parametrize(
    ("name", "array", "found"),
    [("conv51.bias", None, "nothing"), ("conv03.weight", np.zeros((1, 1, 1, 1)), "(1, 1, 1, 1)")],
)
def test_other_convolutions_are_refused(
    tmp_path: Path, arrays: Arrays, name: str, array: np.ndarray | None, found: str
) -> None:
    changed = {key: one for key, one in {**arrays, name: array}.items() if one is not None}
    np.savez(tmp_path / "weights.npz", **changed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"expected {name} of shape \(.*\), found ") as error:
        mobilenetv2(tmp_path / "weights.npz")
    assert str(error.value).endswith(found)


@pytest.mark.slow
def test_each_weight_of_an_efficientnet_finds_its_place(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = timm.create_model("tf_efficientnet_lite1").eval().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for number, weight in enumerate(model.state_dict().values()):
            if weight.ndim == 1:
                weight.copy_(1 + number / 1000)  # so that no two batch norms can be mistaken
    state = model.state_dict()
    renamed = {f"_layer.{n}.{key.rpartition('.')[2]}": w for n, (key, w) in enumerate(state.items())}
    torch.save(renamed, tmp_path / "lite1.pth")
    output = tmp_path / "lite1.safetensors"
    main(str(tmp_path / "lite1.pth"), str(output))
    assert load_file(output).keys() == state.keys()
    config = ImageEncoderConfig("tf_efficientnet_lite1", weights=str(output), size=64)
    encoder = ImageEncoder(config, width=8).eval()
    pixels = torch.randint(256, (2, 3, 64, 64), dtype=torch.uint8)
    with torch.no_grad():
        expected = model.forward_features(pixels.float() / 127.5 - 1).flatten(2).transpose(1, 2)
        torch.testing.assert_close(encoder(pixels), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text.pth", "text.npz", "other.pth"])
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("no weights")
    if name == "other.pth":
        torch.save({"layer.weight": torch.zeros(2)}, file)
    with pytest.raises(SystemExit, match=f"cannot convert {file}: ") as ended:
        main(str(file), str(tmp_path / "out"))
    assert "\n" not in str(ended.value)
    assert not (tmp_path / "out").exists()
