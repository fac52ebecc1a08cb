"""Opens the model of words that encodes photos: in torch, or without it in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lexlip.device import has_torch, pick_device

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder


def open_encoder(name: str | Path, device: str = "auto") -> LexLIP | PhotoEncoder:
    """Return a model of words, ready to encode photos.

    Args:
        name: packaged name of a model, or its folder.
        device: see `lexlip.device.pick_device`.

    Raises:
        ModelError: there is no such model, its files are damaged, or its photos need torch, which is missing.
        ConfigError: there is no such device.
    """
    if not has_torch():
        from lexlip.queries.photo_encoder import PhotoEncoder

        return PhotoEncoder(name, device)
    from lexlip.models.lexlip import LexLIP

    place = pick_device(device)  # before the weights are read
    return LexLIP.from_pretrained(name).to(place).fold_batch_norms()
