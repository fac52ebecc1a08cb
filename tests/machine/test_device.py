from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lexlip.errors import ConfigError
from lexlip.machine import device as module
from lexlip.machine.device import (
    autocast,
    copied,
    encoding,
    pick_device,
    pick_precision,
)
from lexlip.training.distributed import Processes

CPU = torch.device("cpu")


def test_devices() -> None:
    assert pick_device("cpu").type == "cpu"
    for name in ("warp", "cuda:x", "meta"):
        with pytest.raises(
            ConfigError, match=f"device '{name}' cannot be used here: .*take cpu, cuda or cuda:1"
        ):
            pick_device(name)
    if not torch.cuda.is_available():
        assert pick_device("auto").type == "cpu"
        with pytest.raises(ConfigError, match="device 'cuda' cannot be used here: torch finds no GPU"):
            pick_device("cuda")


def test_a_gpu_without_a_number_is_for_each_process_to_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "zeros", lambda *size, device: None)  # there is none here
    assert pick_device("cuda") == torch.device("cuda")
    assert pick_device("cuda:1") == torch.device("cuda:1")
    assert Processes("auto").device == Processes("cuda").device == torch.device("cuda")
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    for name, number in {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 1}.items():
        monkeypatch.setenv(name, str(number))
    assert Processes("cuda").device == Processes("auto").device == torch.device("cuda:1")
    assert chosen == [torch.device("cuda:1")] * 2


@pytest.fixture
def processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file in which a Linux machine says what its processor can do."""
    monkeypatch.setattr(module, "CPU_FLAGS", tmp_path / "cpuinfo")
    module._cpu_has_bf16.cache_clear()
    yield tmp_path / "cpuinfo"
    module._cpu_has_bf16.cache_clear()


@pytest.mark.parametrize(
    ("says", "precision"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile amx_bf16\n", "bf16"),
        ("Features\t: fp asimd bf16 i8mm\n", "bf16"),
        ("flags\t\t: fpu avx512f avx512_vnni\n", "fp32"),
        (None, "fp32"),  # macOS
    ],
    ids=["Sapphire Rapids", "Neoverse", "Ice Lake", "no such file"],
)
def test_auto_is_bf16_where_the_processor_multiplies_it(
    says: str | None, precision: str, processor: Path
) -> None:
    if says is not None:
        processor.write_text(says)
    assert pick_precision("auto", CPU) == precision
    assert [pick_precision(name, CPU) for name in ("bf16", "fp16", "fp32")] == ["bf16", "fp16", "fp32"]


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)]
)
def test_autocast(precision: str, dtype: torch.dtype) -> None:
    square = torch.ones(2, 2)
    with autocast(precision, CPU):
        assert (square @ square).dtype == dtype


@pytest.mark.parametrize(("device", "native", "enabled"), [("cpu", True, False), ("cuda", True, True)])
def test_only_a_gpu_encodes_in_bf16(
    device: str, native: bool, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    monkeypatch.setattr(module, "_cpu_has_bf16", lambda: True)
    asked = {}
    monkeypatch.setattr(module, "autocast", lambda precision, device: asked.update({device.type: precision}))
    encoding(torch.device(device))
    assert asked == {device: "bf16" if enabled else "fp32"}


def test_a_copy_on_the_cpu_is_the_tensor_itself() -> None:
    tensor = torch.ones(2)
    assert copied(tensor, CPU) is tensor
