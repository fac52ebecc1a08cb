import pytest

from lexlip.models.lexlip import LexLIP
from lexlip.queries import open_encoder as module
from lexlip.queries.open_encoder import open_encoder
from lexlip.queries.photo_encoder import PhotoEncoder


def test_torch_encodes_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_encoder("mini", "cpu"), LexLIP)
    monkeypatch.setattr(module, "has_torch", lambda: False)
    assert isinstance(open_encoder("mini"), PhotoEncoder)
