"""Chooses the device to compute on, and the precision."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lexlip.errors import ConfigError
from lexlip.machine.resources import TORCH, check_memory

if TYPE_CHECKING:
    import torch

CPU_FLAGS = Path("/proc/cpuinfo")


def has_torch() -> bool:
    """Return whether torch is installed; without it the packaged model runs in ONNX Runtime."""
    return importlib.util.find_spec("torch") is not None


def may_have_gpu() -> bool:
    """Return whether a GPU's driver is here: without one torch finds no GPU, and takes seconds to say so."""
    if Path("/dev/kfd").exists():  # AMD's; torch brings the rest of the driver itself
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def pick_device(name: str) -> torch.device:
    """Return a device by name; "auto" is a GPU if there is one, otherwise the CPU.

    ConfigError: the device does not exist here, or torch has too little memory.
    """
    check_memory("torch", *TORCH)
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise _unusable(name, "there is no such device; take cpu, cuda or cuda:1") from error
    if device.type == "meta":
        raise _unusable(name, "it holds no numbers; take cpu, cuda or cuda:1")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise _unusable(name, "torch finds no GPU; take auto or cpu")
    try:
        torch.zeros(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise _unusable(name, str(error).splitlines()[0]) from error
    return device


def check_device(name: str) -> None:
    """Refuse a device that does not exist here; torch is loaded only to look for a GPU.

    ConfigError: it does not exist, or needs torch, which is missing.
    """
    if name in ("auto", "cpu"):
        return
    if not has_torch():
        raise ConfigError(f"the device '{name}' needs torch: pip install 'lexlip[train]'")
    pick_device(name)


def _unusable(name: str, why: str) -> ConfigError:
    return ConfigError(f"device '{name}' cannot be used here: {why}")


def pick_precision(name: str, device: torch.device) -> str:
    """Return a precision by name; "auto" is bf16 if the device has instructions for it, otherwise fp32.

    Without such instructions bf16 is many times slower.
    """
    if name != "auto":
        return name
    import torch

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
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)


def encoding(device: torch.device) -> torch.autocast:
    """Return the context to encode in: bf16 on a GPU that multiplies it, otherwise the weights' own fp32."""
    return autocast(pick_precision("auto", device) if device.type == "cuda" else "fp32", device)


def copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device; to a GPU from page-locked memory, so that this process need not wait."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
