import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from transformers import BertConfig

from lexlip.data import Scenes
from lexlip.errors import ModelError
from lexlip.models.load import load_model
from lexlip.models.model_folder import PACKAGED
from lexlip.models.open_clip import OpenClip, of_open_clip
from tests.models.test_towers import joint, with_words
from tests.tiny import CAPTIONS, check_vectors, tiny_photos
from tests.tiny_clip import DIMENSIONS, OPEN_CLIP, write_open_clip

TEXTS = [*CAPTIONS, "a dog", "A Dog!", " ".join(["two dogs"] * 20), ""]
SIGLIP = {
    **OPEN_CLIP,
    "custom_text": True,
    "init_logit_bias": -10,
    "text_cfg": {
        **{"context_length": 16, "vocab_size": 100, "width": 16, "heads": 2, "layers": 1},
        **{"hf_tokenizer_name": "timm/ViT-B-16-SigLIP", "tokenizer_kwargs": {"clean": "canonicalize"}},
        **{"no_causal_mask": True, "proj_bias": True, "pool_type": "last"},
    },
}
"""Sizes of a SigLIP as open_clip describes them; its tokenizer is transformers'."""
MOBILE = {
    **OPEN_CLIP,
    "custom_text": True,
    "vision_cfg": {
        "timm_model_name": "fastvit_mci0",
        "timm_pool": "avg",
        "timm_proj": None,
        "image_size": 256,
    },
}
"""MobileCLIP-S0's image encoder, with a small text encoder."""


def changed(model: dict[str, Any], part: str, **settings: Any) -> dict[str, Any]:
    changed = deepcopy(model)
    changed[part].update(settings)
    return changed


def plain_vectors(folder: Path, texts: list[str], photos: list[Image.Image]) -> tuple[Any, Any]:
    """What users of open_clip compute."""
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    model.eval()
    with torch.inference_mode():
        ids = open_clip.get_tokenizer(f"local-dir:{folder}")(texts)
        pixels = torch.stack([transform(photo) for photo in photos])
        return model.encode_text(ids, normalize=True), model.encode_image(pixels, normalize=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_open_clip(tmp_path_factory.mktemp("models") / "open")


@pytest.mark.parametrize("model", [OPEN_CLIP, SIGLIP], ids=["clip", "siglip"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_vectors_are_those_that_open_clip_gives(
    tmp_path: Path, model: dict[str, Any], interpolation: str
) -> None:
    """Exactly, where photos are squashed; what is left of a cut one is a bit off."""
    folder = write_open_clip(
        tmp_path / "open", model=model, interpolation=interpolation, resize_mode="squash"
    )
    scenes = [Scenes(4, seed=0).image(number).resize((75, 48)) for number in range(4)]
    texts, photos = plain_vectors(folder, TEXTS, scenes)
    found = OpenClip.from_pretrained(folder)
    assert found.dimensions == DIMENSIONS
    for batch in (512, 2):
        check_vectors(found.encode_text(TEXTS, batch=batch), texts)
    check_vectors(found.encode_image(scenes), photos)
    write_open_clip(folder, model=model, interpolation=interpolation, resize_mode="shortest")
    _, photos = plain_vectors(folder, TEXTS, scenes)
    cut = OpenClip.from_pretrained(folder)
    np.testing.assert_allclose((cut.encode_image(scenes).toarray() * photos.numpy()).sum(1), 1, rtol=1e-3)
    squares = [scene.resize((48, 48)) for scene in scenes]
    check_vectors(cut.encode_image(squares), plain_vectors(folder, TEXTS, squares)[1])


@pytest.mark.slow
def test_a_mobileclip_s_branches_are_joined(tmp_path: Path) -> None:
    folder = write_open_clip(tmp_path / "mobile", model=MOBILE, interpolation="bilinear")
    scenes = [Scenes(2, seed=0).image(number).resize((256, 256)) for number in range(2)]
    texts, photos = plain_vectors(folder, TEXTS, scenes)
    model = OpenClip.from_pretrained(folder)
    check_vectors(model.encode_text(TEXTS), texts)
    before, identity = len(list(model.model.visual.modules())), model.identity
    np.testing.assert_allclose(model.encode_image(scenes).toarray(), photos, atol=1e-5)
    joined = model.fold_batch_norms()
    np.testing.assert_allclose(joined.encode_image(scenes).toarray(), photos, atol=1e-4)
    assert len(list(model.model.visual.modules())) < before
    assert joined.identity == identity


def test_it_is_opened_as_any_model_is(folder: Path) -> None:
    model: Any = load_model(folder)
    assert type(model) is OpenClip
    assert (model.kind, model.metric, model.vocabulary) == ("open_clip", "cosine", None)
    assert model.identity == load_model(f"local-dir:{folder}").identity
    assert model.identity.startswith("open@")
    assert model.fold_batch_norms() is model
    assert model.encode_text([]).shape == model.encode_image([]).shape == (0, DIMENSIONS)
    assert model.unread("a dog") == model.unread("") == ""
    assert model.unread("two dogs " * 8) == "two dogs"
    with pytest.raises(ModelError, match="open' has no words: use --query-encoder network"):
        model.encode_text("a dog", "words")


def test_without_open_clip(folder: Path, run_python: Callable[..., Any]) -> None:
    code = "import sys; sys.modules['open_clip'] = None; from lexlip.cli import main; main()"
    done = run_python("-c", code, "index", PACKAGED.parent / "photos", "--model", folder)
    assert done.returncode == 2
    assert done.stderr.endswith("this needs open_clip: pip install 'lexlip[openclip]'\n")


def test_code_beside_a_model_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", pytest.fail)
    evil = changed(SIGLIP, "text_cfg", tokenizer_kwargs={"trust_remote_code": True})
    folder = write_open_clip(tmp_path / "evil", model=evil)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    own = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["evil.E", "evil.E"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    with pytest.raises(ModelError, match=r"code of its own, which is never run$"):
        OpenClip.from_pretrained(folder)
    assert not (tmp_path / "ran").exists()


def describe(folder: Path, model: dict[str, Any], **preprocess: Any) -> None:
    content = {"model_cfg": model, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(content))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    folder = write_open_clip(tmp_path / "open")

    def says() -> str:
        with pytest.raises(ModelError) as caught:
            OpenClip.from_pretrained(folder)
        return str(caught.value).replace(str(folder), "open")

    describe(folder, OPEN_CLIP, resize_mode="longest")
    assert says() == "'open' fits photos into a square by 'longest', which is not known here"
    describe(folder, changed(OPEN_CLIP, "vision_cfg", timm_model_name="hf-hub:a/b"))
    assert says() == "'open' names an image encoder on the hub, which is not fetched"
    describe(folder, changed(OPEN_CLIP, "text_cfg", hf_model_name="a/b"))
    assert says() == (
        "the text encoder of 'open' is made as a/b, which is not on this machine: hf download a/b config.json"
    )
    BertConfig(auto_map={"AutoConfig": "evil.E"}).save_pretrained(tmp_path / "bert")
    describe(folder, changed(OPEN_CLIP, "text_cfg", hf_model_name=str(tmp_path / "bert")))
    assert says() == "the text encoder of 'open' needs Python code of its own, which is never run"
    describe(folder, changed(OPEN_CLIP, "text_cfg", hf_tokenizer_name="a/b"))
    assert says().startswith("open_clip cannot read the model 'open': ")
    describe(folder, changed(OPEN_CLIP, "vision_cfg", layers=2))
    assert says().startswith("open_clip cannot read the model 'open': Error(s) in loading state_dict")
    describe(folder, OPEN_CLIP)
    (folder / "open_clip_model.safetensors").unlink()
    assert says().startswith("open_clip cannot read the model 'open': Required pretrained weights")
    (folder / "open_clip_config.json").write_text("{}")
    assert says().startswith("open_clip cannot read the model 'open': ")


MORE = [
    "It's 3 o'clock: don't",
    "Élan vital, ÀÉ",
    "写真 of ℃ and 2½",
    "a\n b\t c_d",
    "dogs-and-cats!!! (x2)",
]
SMALL = {"timm_model_name": "test_vit", "image_size": 160, "timm_proj": "none"}
BOTH_WAYS = changed(OPEN_CLIP, "text_cfg", no_causal_mask=True)


@pytest.mark.parametrize(
    ("model", "photos"),
    [
        (OPEN_CLIP, {}),
        ({**OPEN_CLIP, "quick_gelu": True}, {}),
        (BOTH_WAYS, {}),
        (SIGLIP, {}),
        ({**SIGLIP, "embed_dim": 64}, {**SMALL, "timm_pool": "map"}),
        (changed(SIGLIP, "text_cfg", act_kwargs={"approximate": "tanh"}, norm_kwargs={"eps": 1e-3}), {}),
        ({**BOTH_WAYS, "custom_text": True}, {**SMALL, "timm_pool": "token", "timm_proj": None}),
        (OPEN_CLIP, {**SMALL, "timm_pool": "token", "timm_proj": "linear"}),
        pytest.param(changed(MOBILE, "text_cfg", no_causal_mask=True), {}, marks=pytest.mark.slow),
    ],
    ids=["clip", "quick", "both-ways", "last", "siglip", "tanh", "mobile-text", "timm", "mobile"],
)
def test_its_encoders_are_those_of_a_model_of_words(
    tmp_path: Path, model: dict[str, Any], photos: dict[str, Any]
) -> None:
    model = {**model, "vision_cfg": photos} if photos else model
    found = OpenClip.from_pretrained(write_open_clip(tmp_path / "open", model=model))
    made, texts = with_words(of_open_clip(found)), [*TEXTS, *MORE]
    pixels = tiny_photos(3, found.config.image.size)
    of_texts, of_photos = joint(made, texts, pixels)
    check_vectors(of_texts, found.encode_text(texts).toarray())
    check_vectors(of_photos, found.encode_image(pixels).toarray())
    assert made.image_graph() is not None
    for text in TEXTS:
        assert made.unread(text) == found.unread(text)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (changed(OPEN_CLIP, "vision_cfg", ls_init_value=0.1), r"ls_1\.gamma"),
        (changed(OPEN_CLIP, "vision_cfg", pool_type="avg"), "as such it gives other vectors"),
        (changed(SIGLIP, "text_cfg", pool_type="first"), "as such it gives other vectors"),
        (changed(SIGLIP, "text_cfg", embed_cls=True), r"cls_emb"),
    ],
)
def test_other_architectures_are_not(tmp_path: Path, model: dict[str, Any], why: str) -> None:
    found = OpenClip.from_pretrained(write_open_clip(tmp_path / "open", model=model))
    with pytest.raises(
        ModelError, match=f"has not the architecture of a CLIP or a SigLIP, but one of its own: .*{why}"
    ):
        with_words(of_open_clip(found))
