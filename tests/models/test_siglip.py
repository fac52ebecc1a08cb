import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import AutoTokenizer, SiglipImageProcessor, SiglipModel

from lexlip.data import Scenes
from lexlip.errors import ModelError
from lexlip.models.load import load_model
from lexlip.models.siglip import SigLIP
from tests.tiny import CAPTIONS, check_vectors, tiny_photos
from tests.tiny_clip import SIZE, TOKENS, features, write_siglip

TEXTS = [*CAPTIONS, "a dog", "A Dog", " ".join(["two dogs"] * 20), ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_siglip(tmp_path_factory.mktemp("models") / "siglip")


@pytest.fixture(scope="module")
def siglip(folder: Path) -> SigLIP:
    return SigLIP.from_pretrained(folder)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """The same by transformers alone."""
    return SiglipModel.from_pretrained(folder).eval()


def test_texts_have_the_vectors_that_transformers_gives(siglip: SigLIP, plain: Any, folder: Path) -> None:
    """With texts filled up to the same length, which counts."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    full = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt")
    assert full.keys() == {"input_ids"}
    expected = features(plain.get_text_features(**full))
    for batch in (512, 2):
        check_vectors(siglip.encode_text(TEXTS, batch=batch), expected)
    check_vectors(siglip.encode_text("a dog"), expected[[TEXTS.index("a dog")]])
    shorter = tokenizer(["a dog"], return_tensors="pt")
    difference = features(plain.get_text_features(**shorter)) - expected[[TEXTS.index("a dog")]]
    assert np.abs(difference).max() > 0.01
    assert siglip.encode_text([]).shape == (0, siglip.dimensions)


def test_a_mask_counts_if_the_tokenizer_gives_one(plain: Any, folder: Path, tmp_path: Path) -> None:
    write_siglip(tmp_path / "masked")
    file = tmp_path / "masked" / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "model_input_names": ["input_ids", "attention_mask"]}))
    tokenizer = AutoTokenizer.from_pretrained(file.parent)
    full = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt")
    assert full.keys() == {"input_ids", "attention_mask"}
    found = SigLIP.from_pretrained(file.parent).encode_text(TEXTS)
    check_vectors(found, features(plain.get_text_features(**full)))


@pytest.mark.parametrize("resample", [2, 3])
def test_photos_have_the_vectors_that_transformers_gives(plain: Any, tmp_path: Path, resample: int) -> None:
    """Exactly those of photos of its size; others are resized by another library, nearly to the same."""
    folder = write_siglip(tmp_path / "siglip", resample=resample)
    siglip = SigLIP.from_pretrained(folder)
    processor = SiglipImageProcessor.from_pretrained(folder)

    def vectors(photos: list[Image.Image]) -> np.ndarray:
        pixels = processor(photos, return_tensors="pt")["pixel_values"]
        return features(plain.get_image_features(pixel_values=pixels))

    scenes = [Scenes(4, seed=0).image(number).resize((75, 48)) for number in range(4)]
    found = siglip.encode_image(scenes).toarray()
    np.testing.assert_allclose(found, vectors(scenes), atol=2e-3)
    photos = tiny_photos(3, SIZE)
    pictures = [Image.fromarray(photo.permute(1, 2, 0).numpy()) for photo in photos]
    check_vectors(siglip.encode_image(pictures), vectors(pictures))
    other = SigLIP.from_pretrained(write_siglip(tmp_path / "other", resample=5 - resample))
    assert np.abs(other.encode_image(scenes).toarray() - found).max() > 4e-3


def test_it_is_opened_as_any_model_is(siglip: SigLIP, folder: Path) -> None:
    loaded: Any = load_model(folder)
    assert type(loaded) is SigLIP
    assert (loaded.kind, loaded.metric, loaded.dimensions) == ("siglip", "cosine", 16)
    assert loaded.identity == siglip.identity
    assert loaded.fold_batch_norms() is loaded
    assert loaded.unread("Two dogs " * 8) == "Two dogs"
    assert loaded.unread("two dogs") == ""


def test_no_sentencepiece_is_needed(folder: Path, run_python: Callable[..., Any]) -> None:
    """Google's name their own class of transformers, which needs it."""
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "tokenizer_class": "SiglipTokenizer"}))
    code = (
        "import sys; sys.modules['sentencepiece'] = None\n"
        "from lexlip.models.siglip import SigLIP\n"
        f"print(SigLIP.from_pretrained({str(folder)!r}).encode_text('a dog').shape)"
    )
    done: subprocess.CompletedProcess[str] = run_python("-c", code)
    assert done.stdout == "(1, 16)\n", done.stderr


def test_what_cannot_be_read(tmp_path: Path) -> None:
    folder = write_siglip(tmp_path / "siglip")
    config = folder / "config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({**settings, "model_type": "siglip2"}))
    with pytest.raises(ModelError, match=r"of type 'siglip2', not a CLIP or SigLIP model of fixed size$"):
        load_model(folder)
    config.write_text(json.dumps(settings))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"cannot read the tokenizer.json of '.*'.*; save the model's tok"):
        load_model(folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="transformers cannot read the SigLIP model '"):
        load_model(folder)
