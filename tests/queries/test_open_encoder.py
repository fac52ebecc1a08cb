from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from subprocess import CompletedProcess

import pytest
import torch

from lexlip.machine.device import may_have_gpu
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, model_folder
from lexlip.queries import open_encoder as module
from lexlip.queries.open_encoder import open_encoder
from lexlip.queries.photo_encoder import PhotoEncoder


@pytest.mark.parametrize("device", ["auto", "cpu", "cpu:0"])
@pytest.mark.parametrize(("installed", "driver"), [(True, True), (True, False), (False, False)])
def test_a_graph_encodes_on_a_cpu(
    device: str, installed: bool, driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "may_have_gpu", lambda: driver)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(module, "has_torch", lambda: installed)
    if installed or device != "cpu:0":
        assert isinstance(open_encoder("mini", device), PhotoEncoder)


def test_torch_encodes_without_a_graph(tmp_path: Path) -> None:
    folder = copytree(model_folder("mini"), tmp_path / "mini")
    (folder / GRAPH).unlink()
    assert isinstance(open_encoder(folder, "cpu"), LexLIP)


def test_torch_encodes_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pick_device", lambda name: torch.device("meta"))
    assert isinstance(open_encoder("mini", "cuda"), LexLIP)


@pytest.mark.skipif(may_have_gpu(), reason="a GPU's driver is here, so torch says whether there is a GPU")
def test_torch_is_not_loaded_to_look_for_a_gpu(run_python: Callable[..., CompletedProcess[str]]) -> None:
    open_it = "import sys, lexlip.queries.open_encoder as m; m.open_encoder('mini')"
    code = f"{open_it}; print('torch' in sys.modules)"
    assert run_python("-c", code).stdout == "False\n"


def test_torch_looks_for_the_gpu_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_have_gpu", lambda: True)
    monkeypatch.setattr(module, "pick_device", lambda name: torch.device("meta"))
    assert isinstance(open_encoder("mini"), LexLIP)
