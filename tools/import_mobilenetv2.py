"""Turn an ImageNet MobileNetV2 with folded batch norms (.npz) into weights for timm (.safetensors).

    python tools/import_mobilenetv2.py mobilenetv2_1.00_224_dequant.npz mobilenetv2.safetensors

Input: `conv00..conv51` with `.weight` [O, I, H, W] and `.bias`, in module order. Output: the state of
timm's "mobilenetv2_100" (made with pad_type="same"), each batch norm being the identity plus the bias.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import timm
import torch
from safetensors.torch import save_file
from torch import nn


def convert(npz: Path) -> dict[str, torch.Tensor]:
    """The timm state of the weights in an .npz file.

    Raises:
        ValueError: the file does not hold the 52 convolutions of MobileNetV2 1.0.
    """
    model = timm.create_model("mobilenetv2_100", pad_type="same", num_classes=0)
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    with np.load(npz) as arrays, torch.no_grad():
        if sum(name.startswith("conv") for name in arrays) != 2 * len(convolutions):
            raise ValueError(f"{npz} does not hold {len(convolutions)} convolutions with biases")
        for number, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
            convolution.weight.copy_(torch.from_numpy(arrays[f"conv{number:02d}.weight"].astype(np.float32)))
            norm.bias.copy_(torch.from_numpy(arrays[f"conv{number:02d}.bias"]))
            norm.weight.fill_(1)
            norm.reset_running_stats()
            norm.state_dict()["running_var"].sub_(norm.eps)
    return model.state_dict()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/import_mobilenetv2.py INPUT.npz OUTPUT.safetensors")
    save_file(convert(Path(sys.argv[1])), sys.argv[2])
