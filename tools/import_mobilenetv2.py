"""Convert an ImageNet MobileNetV2 with folded batch norms (.npz) to weights for timm (.safetensors).

    python tools/import_mobilenetv2.py mobilenetv2_1.00_224_dequant.npz mobilenetv2.safetensors

Input: `conv00..conv51` with `.weight` [O, I, H, W] and `.bias`, in module order. Output: the state of
timm's "mobilenetv2_100" (made with pad_type="same"); each batch norm is the identity plus the bias.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import timm
import torch
from safetensors.torch import save_file
from torch import nn


def convert(npz: str | Path) -> dict[str, torch.Tensor]:
    """Return the timm state of the weights in an .npz file.

    Raises:
        ValueError: the file does not hold the 52 convolutions of MobileNetV2 1.0.
    """
    model = timm.create_model("mobilenetv2_100", pad_type="same", num_classes=0)
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    with np.load(npz) as arrays, torch.no_grad():
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


def main(npz: str, output: str) -> None:
    try:
        weights = convert(npz)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"cannot convert {npz}: {error}")
    save_file(weights, output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/import_mobilenetv2.py INPUT.npz OUTPUT.safetensors")
    main(*sys.argv[1:])
