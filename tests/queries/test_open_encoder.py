from pathlib import Path
from shutil import copytree

import pytest
import torch

from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, model_folder
from lexlip.queries import open_encoder as module
from lexlip.queries.open_encoder import open_encoder
from lexlip.queries.photo_encoder import PhotoEncoder


@pytest.mark.parametrize("device", ["auto", "cpu", "cpu:0"])
@pytest.mark.parametrize("installed", [True, False])
def test_a_graph_encodes_on_a_cpu(device: str, installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
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
