import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.image import ImageEncoder
from tests.conftest import ROOT

TOOL = ROOT / "tools" / "import_efficientnet_lite.py"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_each_weight_finds_its_place(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = timm.create_model("tf_efficientnet_lite1").eval().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for number, weight in enumerate(model.state_dict().values()):
            if weight.ndim == 1:
                weight.copy_(1 + number / 1000)  # so that no two batch norms can be mistaken
    package_state = {
        f"_layer.{n}.{k.rpartition('.')[2]}": w for n, (k, w) in enumerate(model.state_dict().items())
    }
    torch.save(package_state, tmp_path / "lite1.pth")
    output = tmp_path / "lite1.safetensors"
    done = run(tmp_path / "lite1.pth", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert load_file(output).keys() == model.state_dict().keys()
    config = ImageEncoderConfig("tf_efficientnet_lite1", weights=str(output), size=64)
    encoder = ImageEncoder(config, width=8).eval()
    pixels = torch.randint(256, (2, 3, 64, 64), dtype=torch.uint8)
    with torch.no_grad():
        expected = model.forward_features(pixels.float() / 127.5 - 1).flatten(2).transpose(1, 2)
        torch.testing.assert_close(encoder(pixels), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("contents", [b"no weights", None])
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, contents: bytes | None) -> None:
    if contents is None:
        torch.save({"layer.weight": torch.zeros(2)}, tmp_path / "file.pth")
    else:
        (tmp_path / "file.pth").write_bytes(contents)
    done = run(tmp_path / "file.pth", tmp_path / "out.safetensors")
    assert done.returncode == 1
    assert done.stderr.startswith("cannot convert ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.safetensors").exists()
