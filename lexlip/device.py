"""Where to compute, and how precisely."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import torch

from lexlip.errors import ConfigError

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
CPU_FLAGS = Path("/proc/cpuinfo")


def pick_device(name: str) -> torch.device:
    """ "auto" is a GPU where there is one.

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
    """ "auto" is bf16, or fp32 where the device has no instructions for bf16 and is many times slower."""
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
    """The context to compute in with a precision that `pick_precision` gave."""
    dtype = AUTOCAST.get(precision)
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)
