"""Chooses the device to compute on, and the precision."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import torch

from lexlip.errors import ConfigError

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
CPU_FLAGS = Path("/proc/cpuinfo")


def pick_device(name: str) -> torch.device:
    """Return a device by name; "auto" is a GPU if there is one, otherwise the CPU.

    Raises:
        ConfigError: the device does not exist here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device '{name}' cannot be used here: {str(error).splitlines()[0]}") from error
    return torch.device(name)


def pick_precision(name: str, device: torch.device) -> str:
    """Return a precision by name; "auto" is bf16 if the device has instructions for it, otherwise fp32.

    Without such instructions bf16 is many times slower.
    """
    if name != "auto":
        return name
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = _cpu_has_bf16()
    return "bf16" if native else "fp32"


@functools.cache
def _cpu_has_bf16() -> bool:
    flags = CPU_FLAGS.read_text(encoding="utf-8") if CPU_FLAGS.exists() else ""
    return re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", flags) is not None


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Return the context to compute in, given a precision that `pick_precision` returned."""
    dtype = AUTOCAST.get(precision)
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)
