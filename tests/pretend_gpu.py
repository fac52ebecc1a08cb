"""A GPU that is not there: tensors "on cuda:0" that compute on the CPU.

Mixing them with a CPU's tensors fails as it does with a real GPU, and whatever would make the processor wait
for a GPU is noted. Autocast does nothing here: precision is tested on the CPU.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("cuda:0")
ROOM = str(Path(__file__).parents[1] / "lexlip")

WAITING = ("_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "masked_select", "repeat_interleave")
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_")
COPYING = ("_to_copy", "copy_")


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU, and holds the numbers in another one on the CPU."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "OnGpu":
        with torch.inference_mode(False):
            meta = torch.empty_strided(held.size(), held.stride(), dtype=held.dtype, device="meta")
            return torch.Tensor._make_subclass(cls, meta, False, device_for_backend_keys=GPU)

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return GPU

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def tolist(self) -> Any:
        _note("tolist")
        return self.held.tolist()


class _Mode(TorchDispatchMode):
    """Takes the calls that make new tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


_waits: list[str] = []
_tensor = torch.tensor


def _new(data: Any, *, device: Any = None, **named: Any) -> torch.Tensor:
    """Do what torch.tensor does, without asking the driver."""
    made = _tensor(data, **named)
    return made if device is None else made.to(device)


def _note(what: str) -> None:
    """Note which line of the project makes the processor wait."""
    frames = [frame for frame in traceback.extract_stack() if frame.filename.startswith(ROOM)]
    where = f"{Path(frames[-1].filename).relative_to(ROOM)}:{frames[-1].lineno}" if frames else "torch"
    _waits.append(f"{where} {what}")


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if torch.is_inference_mode_enabled() and func._can_decompose():  # as outside of that mode
        with _Mode():
            return func.decompose(*args, **kwargs)
    name = func.overloadpacket.__name__
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    gpu = [tensor for tensor in tensors if isinstance(tensor, OnGpu)]
    cpu = [tensor for tensor in tensors if not isinstance(tensor, OnGpu)]
    place = kwargs.get("device")
    on_gpu = bool(gpu) if place is None else torch.device(place).type != "cpu"
    if name in COPYING:
        if name == "copy_":
            on_gpu = isinstance(args[0], OnGpu)
        if (gpu and not on_gpu) or (cpu and on_gpu and not kwargs.get("non_blocking")):
            _note(name)
    elif gpu and any(tensor.ndim for tensor in cpu):
        if name not in INDEXING or not isinstance(args[0], OnGpu):
            raise RuntimeError(f"Expected all tensors to be on the same device: {func}")
        _note(f"{name} by a CPU's tensor")
    elif gpu and name in WAITING:
        _note(name)
    elif (
        gpu and name in INDEXING and any(t.dtype == torch.bool for t in tree_leaves(args[1]) if t is not None)
    ):
        _note(f"{name} by a mask")
    if place is not None:
        kwargs = {**kwargs, "device": "cpu"}
    result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
    given = {id(tensor.held): tensor for tensor in gpu}

    def back(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return given.get(id(value)) if id(value) in given else OnGpu(value) if on_gpu else value

    return tree_map(back, result)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, OnGpu) else value


@contextmanager
def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let "cuda:0" be there; give what made the processor wait, as "file:line what"."""
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: False)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.zeros(16, dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    monkeypatch.setattr(torch, "tensor", _new)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    _waits.clear()
    try:
        with _Mode():
            yield _waits
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)
