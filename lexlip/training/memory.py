"""How much memory a training step takes: an estimate from a model without weights.

Models may be on torch's meta device, so base-size models take seconds and no memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lexlip.config import Config
from lexlip.models.dual_encoder import DualEncoder
from lexlip.training.method import Method

BYTES = 4  # of a weight, a gradient, and each of the optimizer's two moments
HALF = 0.5  # of activations in bf16 or fp16, relative to fp32


def estimate_memory(method: Method, config: Config, processes: int) -> dict[str, float]:
    """Return the bytes that a process needs on its device, by what for: an estimate."""
    frozen = [prefix for prefix, factor in config.optim.lr_scale.items() if factor == 0]
    learns = [
        weight
        for name, weight in method.named_parameters()
        if weight.requires_grad and not name.removeprefix("model.").startswith(tuple(frozen) or ("\0",))
    ]
    weights = sum(tensor.nbytes for tensor in method.state_dict().values())
    share = -(-config.optim.batch // processes)
    micro = min(config.optim.micro_batch or share, share)
    size = max(config.data.sizes or (config.model.image.size,))
    factor = 1.0 if config.optim.precision == "fp32" else HALF
    tokens = config.model.text.max_tokens
    captions = micro * config.data.captions_per_image
    passes = 1 + config.objective.masks
    activations = saved_bytes(
        method.model, lambda: _encode_image(method.model, micro, size)
    ) + passes * saved_bytes(method.model, lambda: _encode_text(method.model, captions, tokens))
    memory = {
        "weights and queues": float(weights),
        "gradients and moments": 3.0 * BYTES * sum(weight.numel() for weight in learns),
        "activations": factor * activations,
    }
    if method.model.can.vectors:  # raw and normalised vectors of the whole batch, and their gradients
        memory["vectors of the batch"] = 4.0 * BYTES * 2 * config.optim.batch * method.model.dimensions
    return memory


def _encode_image(model: DualEncoder, photos: int, size: int) -> Tensor:
    encoder = model.image_encoder
    pixels = torch.empty(photos, 3, size, size, dtype=torch.uint8, device="meta")
    states: Tensor = encoder(pixels)
    return states.float().sum()


def _encode_text(model: DualEncoder, captions: int, tokens: int) -> Tensor:
    ids = torch.zeros(captions, tokens, dtype=torch.int64, device="meta")
    states: Tensor = model.text_encoder.body(input_ids=ids).last_hidden_state
    return states.float().sum()


def saved_bytes(module: nn.Module, function: Callable[[], Tensor]) -> int:
    """Return the bytes of the tensors that a function's backward pass needs, without a module's weights."""
    weights = {weight.untyped_storage()._cdata for weight in module.parameters()}
    held: dict[int, tuple[Tensor, int]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            held[storage._cdata] = tensor, storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function()
    del output
    return sum(size for _, size in held.values())
