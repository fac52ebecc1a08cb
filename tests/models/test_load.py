import json
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_dense, load_model
from tests.tiny import tiny_dense, tiny_model
from tests.tiny_clip import write_clip


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


def test_a_dense_model_is_asked_for(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip")
    tiny_dense().save(tmp_path / "dense")
    tiny_model().save(tmp_path / "lexlip")
    assert [load_dense(tmp_path / name).kind for name in ("clip", "dense")] == ["clip", "dense"]
    with pytest.raises(ModelError, match="lexlip is a model of words: give a dense one as --dense"):
        load_dense(tmp_path / "lexlip")
    with pytest.raises(ModelError, match="'bm25' encodes nothing"):
        load_dense("bm25")


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
