"""What a folder holds; the hub is asked in the same way, which test_hub.py tries."""

import json
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.foreign import Foreign
from lexlip.models.load import load_model
from lexlip.models.model_folder import foreign_model, kind_of, lasting_name, model_folder, read_description
from tests.tiny import CAPTIONS, check_vectors, tiny_dense
from tests.tiny_clip import write_clip, write_sentence_clip, write_siglip


def test_what_folders_hold(tmp_path: Path) -> None:
    tiny_dense().save(tmp_path / "own")
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "open_clip_config.json").write_text('{"model_cfg": {}}')
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    expected = {
        tmp_path / "own": None,
        tmp_path / "open": Foreign("open_clip", "open_clip"),
        tmp_path / "bert": Foreign("transformers", "clip", "bert"),
        write_clip(tmp_path / "clip"): Foreign("transformers", "clip", "clip"),
        write_siglip(tmp_path / "siglip"): Foreign("transformers", "siglip", "siglip"),
        write_sentence_clip(tmp_path / "sentence"): Foreign(
            "sentence-transformers", "clip", "clip", "0_CLIPModel"
        ),
    }
    for folder, found in expected.items():
        assert foreign_model(folder) == found
        assert kind_of(folder) == ("dense" if found is None else found.kind)
    for name, library in (("open", "open_clip"), ("sentence", "sentence-transformers")):
        with pytest.raises(ModelError, match=f"holds a model of {library}, not one of lexlip"):
            read_description(tmp_path / name)


def test_one_that_holds_two_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_clip(tmp_path / "both")
    (folder / "open_clip_config.json").write_text('{"model_cfg": {}}')
    monkeypatch.chdir(tmp_path)
    assert (kind_of("both"), kind_of("local-dir:both")) == ("clip", "open_clip")
    assert model_folder("local-dir:both") == Path("both")
    assert lasting_name("local-dir:both") == f"local-dir:{folder.resolve()}"
    assert kind_of("hf-hub:both/of") == "open_clip"
    assert lasting_name("hf-hub:both/of") == "hf-hub:both/of"
    with pytest.raises(ModelError, match="'local-dir:neither': there is no folder of that name"):
        model_folder("local-dir:neither")


@pytest.mark.parametrize("path", ["0_CLIPModel", ""])
def test_a_clip_of_sentence_transformers(tmp_path: Path, path: str) -> None:
    """Both as its older versions wrote it, and as the one that is installed does."""
    folder = tmp_path / "sentence"
    if path:
        write_sentence_clip(folder, path)
    else:
        SentenceTransformer(str(write_clip(tmp_path / "clip"))).save(str(folder))
    expected = SentenceTransformer(str(folder), device="cpu").encode(CAPTIONS, normalize_embeddings=True)
    clip = load_model(folder)
    assert type(clip) is Clip
    check_vectors(clip.encode_text(CAPTIONS), expected)


def test_what_sentence_transformers_does_beside(tmp_path: Path) -> None:
    assert kind_of(write_sentence_clip(tmp_path / "one", after=("Normalize",))) == "clip"
    with pytest.raises(ModelError, match=r"goes on with Dense after its encoder, which is not read: give a"):
        kind_of(write_sentence_clip(tmp_path / "two", after=("Dense",)))
    file = write_sentence_clip(tmp_path / "three") / "modules.json"
    for damage in ("[]", "{}", '"x"', "[1]", '[{"path": "0_CLIPModel"}]'):
        file.write_text(damage)
        with pytest.raises(ModelError, match=r"the model of sentence-transformers '.*three' is damaged: "):
            kind_of(tmp_path / "three")
    for path in ("", ".", "..", "../one/0_CLIPModel", "/etc", "nowhere"):
        file.write_text(json.dumps([{"path": path, "type": "CLIPModel"}]))
        with pytest.raises(ModelError, match="' is no folder with a model of transformers"):
            kind_of(tmp_path / "three")
