from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CLIPModel, SiglipModel

from lexlip.config import VocabularyConfig
from lexlip.errors import ModelError
from lexlip.models.clip import Clip
from lexlip.models.lexlip import LexLIP
from lexlip.models.siglip import SigLIP
from lexlip.models.towers import Towers, of_dense, of_transformers
from lexlip.words.vocabulary import Vocabulary
from tests.tiny import CAPTIONS, TINY, check_vectors, tiny_dense, tiny_photos
from tests.tiny_clip import SIZE, TOKENS, features, write_clip, write_siglip

TEXTS = [*CAPTIONS, "A Dog", " ".join(["two dogs"] * 20), ""]


def with_words(towers: Towers) -> LexLIP:
    vocabulary = Vocabulary.build(VocabularyConfig("words", 1), towers.tokenizer, CAPTIONS)
    return towers.lexlip(vocabulary, "words")


def joint(model: LexLIP, texts: list[str], photos: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.inference_mode():
        of_texts = model.joint_text(*model.text_encoder.tokenize(texts))
        return of_texts, model.joint_image(model.image_encoder(photos))


@pytest.mark.parametrize("kind", ["clip", "siglip", "siglip2"])
def test_vectors_before_words_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    dense: Clip | SigLIP
    plain: Any
    if kind == "clip":
        dense = Clip.from_pretrained(write_clip(tmp_path))
        plain, padding = CLIPModel.from_pretrained(tmp_path).eval(), "longest"
    else:
        dense = SigLIP.from_pretrained(write_siglip(tmp_path, second=kind == "siglip2"))
        plain, padding = SiglipModel.from_pretrained(tmp_path).eval(), "max_length"
    model, photos = with_words(of_transformers(dense)), tiny_photos(3, SIZE)
    assert {"dogs", "snow", "two"} <= {*model.vocabulary.words}
    assert model.name == "words"
    lower = [text.lower() for text in TEXTS]
    tokens = dense.tokenizer(lower, padding=padding, truncation=True, max_length=TOKENS, return_tensors="pt")
    pixels = (photos / 255 - torch.tensor(dense.config.image.mean).view(3, 1, 1)) / torch.tensor(
        dense.config.image.std
    ).view(3, 1, 1)
    of_texts, of_photos = joint(model, TEXTS, photos)
    check_vectors(of_texts, features(plain.get_text_features(**tokens)))
    check_vectors(of_photos, features(plain.get_image_features(pixel_values=pixels)))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_before_words_are_those_of_a_dense_model(pooling: Any) -> None:
    dense, photos = tiny_dense(replace(TINY, pooling=pooling)), tiny_photos(3)
    of_texts, of_photos = joint(with_words(of_dense(dense)), TEXTS, photos)
    normalised = torch.nn.functional.normalize
    check_vectors(of_texts, normalised(torch.tensor(dense.encode_text(TEXTS).toarray())))
    check_vectors(of_photos, normalised(torch.tensor(dense.encode_image(photos).toarray())))


def test_other_vectors_are_refused(tmp_path: Path) -> None:
    siglip = SigLIP.from_pretrained(write_siglip(tmp_path))
    what = "has not the architecture of a CLIP or a SigLIP, but one of its own: "
    towers = of_transformers(siglip)
    for changed in (
        replace(towers, architecture={**towers.architecture, "hidden_act": "relu"}),
        replace(towers, architecture={**towers.architecture, "pad_token_id": 5}),
        replace(towers, photos={name: weight * 1.1 for name, weight in towers.photos.items()}),
    ):
        with pytest.raises(ModelError, match=f"{what}as such it gives other vectors"):
            with_words(changed)
    rest = {name: weight for name, weight in towers.photos.items() if "attn_pool" not in name}
    with pytest.raises(ModelError, match=f"{what}.*Missing key.*attn_pool"):
        with_words(replace(towers, photos=rest))
    siglip.model.config.vision_config.image_size = 48
    with pytest.raises(ModelError, match=r"takes photos of 48 pixels, and its processor makes them 32$"):
        of_transformers(siglip)
