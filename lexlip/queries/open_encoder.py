"""Opens the model of words that encodes photos: in ONNX Runtime where its folder has a graph, or in torch.

On a CPU ONNX Runtime encodes half as many photos again as torch in the same time, and starts sooner.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lexlip.machine.device import has_torch, may_have_gpu, pick_device
from lexlip.models.model_folder import GRAPH, model_folder

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder


def open_encoder(name: str | Path, device: str = "auto") -> LexLIP | PhotoEncoder:
    """Return a model of words, ready to encode photos.

    Args:
        name: packaged name of a model, or its folder.
        device: see `lexlip.machine.device.pick_device`.

    Raises:
        ModelError: there is no such model, its files are damaged, or its photos need torch, which is missing.
        ConfigError: there is no such device.
    """
    has_graph = (model_folder(name) / GRAPH).is_file()
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())  # known without loading torch
    if has_torch() and not (has_graph and on_cpu):
        place = pick_device(device)  # before the weights are read
        if not (has_graph and place.type == "cpu"):
            from lexlip.models.lexlip import LexLIP

            return LexLIP.from_pretrained(name).to(place).fold_batch_norms()
        device = "cpu"
    from lexlip.queries.photo_encoder import PhotoEncoder

    return PhotoEncoder(name, device)
