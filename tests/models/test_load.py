import json
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from tests.tiny import tiny_dense, tiny_model


def test_models_are_opened_by_their_kind(tmp_path: Path) -> None:
    tiny_dense().save(tmp_path / "dense")
    tiny_model().save(tmp_path / "lexlip")
    assert type(load_model(tmp_path / "dense")) is Dense
    assert type(load_model(tmp_path / "lexlip")) is LexLIP
    for other, kind, wanted in ((LexLIP, "dense", "lexlip"), (Dense, "lexlip", "dense")):
        with pytest.raises(ModelError, match=f"holds a {kind} model, not a {wanted} one") as caught:
            other.from_pretrained(tmp_path / kind)
        assert "\n" not in str(caught.value)
        assert str(tmp_path / kind) in str(caught.value)


def test_models_of_an_unknown_kind(tmp_path: Path) -> None:
    tiny_dense().save(tmp_path)
    description = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**description, "kind": "other"}))
    with pytest.raises(ModelError, match="holds a model of kind 'other'; known kinds: lexlip, dense"):
        load_model(tmp_path)
    for text in ("[]", "{", "{}"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelError) as caught:
            load_model(tmp_path)
        assert str(tmp_path) in str(caught.value)
