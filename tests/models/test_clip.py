import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import BertConfig, CLIPImageProcessor, CLIPModel

from lexlip.data import Scenes
from lexlip.encoders.text import read_tokenizer
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import is_hub_name, kind_of, lasting_name
from lexlip.queries.photo_vectors import PhotoVectors, encode_captions
from tests.tiny import CAPTIONS, check_vectors, tiny_photos
from tests.tiny_clip import DIMENSIONS, SIZE, TOKENS, features, write_clip

TEXTS = [*CAPTIONS, "a dog", " ".join(["two dogs"] * 20), ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """One that a test may change."""
    return write_clip(tmp_path / "clip")


@pytest.fixture(scope="module")
def clip(folder: Path) -> Clip:
    return Clip.from_pretrained(folder)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """The same by transformers alone."""
    return CLIPModel.from_pretrained(folder).eval()


def test_texts_have_the_vectors_that_transformers_gives(clip: Clip, plain: Any, folder: Path) -> None:
    tokenizer = read_tokenizer(str(folder))
    tokens = tokenizer(TEXTS, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    expected = features(plain.get_text_features(input_ids=ids, attention_mask=mask))
    assert expected.shape == (len(TEXTS), DIMENSIONS)
    for batch in (512, 2):
        check_vectors(clip.encode_text(TEXTS, batch=batch), expected)
    assert clip.encode_text([]).shape == (0, DIMENSIONS)
    with pytest.raises(ModelError, match=r"'.*clip' has no words: use --query-encoder network"):
        clip.encode_text(["a dog"], "words")


def test_photos_have_the_vectors_that_transformers_gives(clip: Clip, plain: Any, folder: Path) -> None:
    """Exactly those of photos of its size; of others the crop is a bit off."""

    def vectors(photos: list[Image.Image]) -> np.ndarray:
        pixels = CLIPImageProcessor.from_pretrained(folder)(photos, return_tensors="pt")["pixel_values"]
        return features(plain.get_image_features(pixel_values=pixels))

    scenes = [Scenes(4, seed=0).image(number).resize((75, 48)) for number in range(4)]
    found, expected = clip.encode_image(scenes).toarray(), vectors(scenes)
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose((found * expected).sum(axis=1), lengths, rtol=1e-3)
    photos = tiny_photos(3, SIZE)
    pictures = [Image.fromarray(photo.permute(1, 2, 0).numpy()) for photo in photos]
    check_vectors(clip.encode_image(photos), vectors(pictures))
    check_vectors(clip.encode_image(pictures), vectors(pictures))


def test_it_encodes_sources_as_other_models_do(clip: Clip) -> None:
    scenes = Scenes(5, seed=3)
    [(ids, vectors)] = list(PhotoVectors(clip, scenes, workers=0))
    assert ids == [item.id for item in scenes.items]
    check_vectors(vectors, clip.encode_image([scenes.image(number) for number in range(5)]))
    assert encode_captions(clip, TEXTS, batch=4).shape == (len(TEXTS), DIMENSIONS)


def test_its_identity_is_that_of_its_weights(clip: Clip, folder: Path, copy: Path, tmp_path: Path) -> None:
    name, digest = clip.identity.split("@")
    assert name == "clip"
    assert re.fullmatch("[0-9a-f]{12}", digest)
    assert Clip.from_pretrained(copy).identity == clip.identity
    copy.rename(tmp_path / "moved")
    assert Clip.from_pretrained(tmp_path / "moved").identity == f"moved@{digest}"
    weights = load_file(tmp_path / "moved" / "model.safetensors")
    weights["visual_projection.weight"] = weights["visual_projection.weight"] + 1e-3
    save_file(weights, tmp_path / "moved" / "model.safetensors", {"format": "pt"})
    assert Clip.from_pretrained(tmp_path / "moved").identity.split("@")[1] != digest


def test_it_is_opened_as_any_model_is(clip: Clip, folder: Path) -> None:
    loaded: Any = load_model(folder)
    assert type(loaded) is Clip
    assert (loaded.kind, loaded.metric) == ("clip", "cosine")
    assert (loaded.dimensions, loaded.vocabulary) == (DIMENSIONS, None)
    assert loaded.identity == clip.identity
    assert loaded.fold_batch_norms() is loaded
    with pytest.raises(ModelError, match="clip holds a model of transformers, not one of lexlip"):
        LexLIP.from_pretrained(folder)


def test_kinds_are_known_before_loading(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.models.model_folder.read_on_hub", lambda name, file: {"model_type": "clip"})
    assert kind_of(folder) == kind_of("openai/clip-vit-base-patch32") == "clip"
    assert kind_of("bm25") == "bm25"
    monkeypatch.chdir(tmp_path)
    for name in ("mini", "a/b/c", "./a", "/a/b", "~/a", "a/", "../a"):
        assert not is_hub_name(name)
    assert is_hub_name("a/b-c.d_1")
    (tmp_path / "a").mkdir()
    assert not is_hub_name("a/b-c.d_1")
    assert lasting_name("a/b") == "a/b"
    (tmp_path / "a" / "config.json").touch()
    assert lasting_name("a") == str(tmp_path / "a")


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"model_type": "own", "auto_map": {"AutoConfig": "evil.E", "AutoModel": "evil.E"}}),
        (
            "preprocessor_config.json",
            {"image_processor_type": "Own", "auto_map": {"AutoImageProcessor": "evil.E"}},
        ),
    ],
)
def test_code_beside_a_model_is_not_run(
    copy: Path, monkeypatch: pytest.MonkeyPatch, file: str, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr("builtins.input", pytest.fail)
    (copy / "evil.py").write_text(f"open({str(copy / 'ran')!r}, 'w')")
    (copy / file).write_text(json.dumps({**json.loads((copy / file).read_text()), **changes}))
    with pytest.raises(ModelError, match=r"of type 'own'|code of its own, which is never run$"):
        Clip.from_pretrained(copy)
    assert not (copy / "ran").exists()


def test_attention_is_not_looked_up_on_the_hub(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "attn_implementation": "attacker/kernel"}))
    Clip.from_pretrained(copy)


def test_what_cannot_be_read(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(ModelError, match=r"no model '.*nowhere': neither a folder "):
        Clip.from_pretrained(tmp_path / "nowhere")
    (tmp_path / "bert").mkdir()
    BertConfig().save_pretrained(tmp_path / "bert")
    with pytest.raises(ModelError, match="bert' holds a model of type 'bert', not a CLIP or SigLIP model"):
        Clip.from_pretrained(tmp_path / "bert")
    weights = load_file(copy / "model.safetensors")
    projection = weights.pop("visual_projection.weight")
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=re.escape("clip' lacks weights: visual_projection.weight")):
        Clip.from_pretrained(copy)
    save_file(
        {**weights, "visual_projection.weight": projection}, copy / "model.safetensors", {"format": "pt"}
    )
    Clip.from_pretrained(copy)
    (copy / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="transformers cannot read the Clip model"):
        Clip.from_pretrained(copy)
