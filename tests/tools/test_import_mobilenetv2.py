import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.image import ImageEncoder
from tests.conftest import ROOT

TOOL = ROOT / "tools" / "import_mobilenetv2.py"
Convert = Callable[[str | Path], dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def convert() -> Convert:
    spec = importlib.util.spec_from_file_location("import_mobilenetv2", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Convert = module.convert
    return found


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Small random weights of the right shapes."""
    model = timm.create_model("mobilenetv2_100", num_classes=0)
    rng = np.random.default_rng(0)
    arrays = {}
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 52
    for number, convolution in enumerate(convolutions):
        shape = tuple(convolution.weight.shape)
        arrays[f"conv{number:02d}.weight"] = rng.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(
            np.float16
        )
        arrays[f"conv{number:02d}.bias"] = rng.normal(0, 0.1, shape[0]).astype(np.float32)
    return arrays


def test_the_weights_are_those_of_folded_convolutions(
    tmp_path: Path, arrays: dict[str, np.ndarray], convert: Convert
) -> None:
    np.savez(tmp_path / "weights.npz", **arrays)  # type: ignore[arg-type]
    save_file(convert(tmp_path / "weights.npz"), tmp_path / "weights.safetensors")
    config = ImageEncoderConfig(
        "mobilenetv2_100", {"pad_type": "same"}, weights=str(tmp_path / "weights.safetensors"), size=32
    )
    encoder = ImageEncoder(config, width=8).eval()
    body = encoder.body
    pixels = torch.rand(2, 3, 32, 32)
    stem, norm = (torch.from_numpy(arrays[f"conv00.{name}"]).float() for name in ("weight", "bias"))
    padded = nn.functional.pad(pixels, (0, 1, 0, 1))  # as TensorFlow pads for a stride of 2
    expected = nn.functional.relu6(nn.functional.conv2d(padded, stem, norm, stride=2))
    with torch.no_grad():
        torch.testing.assert_close(body.bn1(body.conv_stem(pixels)), expected, rtol=1e-4, atol=1e-5)
        last = body.bn2(body.conv_head(torch.rand(1, 320, 2, 2)))
    assert last.shape == (1, 1280, 2, 2)
    assert load_file(tmp_path / "weights.safetensors").keys() == body.state_dict().keys()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"conv51.bias": None}, r"expected conv51\.bias of shape \(1280,\), found nothing"),
        (
            {"conv03.weight": np.zeros((1, 1, 1, 1))},
            r"expected conv03\.weight of shape .*, found \(1, 1, 1, 1\)",
        ),
    ],
)
def test_other_weights_are_refused(
    tmp_path: Path,
    arrays: dict[str, np.ndarray],
    convert: Convert,
    change: dict[str, np.ndarray | None],
    says: str,
) -> None:
    changed = {name: array for name, array in {**arrays, **change}.items() if array is not None}
    np.savez(tmp_path / "weights.npz", **changed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=says):
        convert(tmp_path / "weights.npz")


@pytest.mark.slow
def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("text")
    command = [sys.executable, TOOL, tmp_path / "text.npz", tmp_path / "out"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith(f"cannot convert {tmp_path / 'text.npz'}: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
