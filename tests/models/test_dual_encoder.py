import copy
import io
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import identity

from lexlip.data import decode
from lexlip.errors import DataError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import HONEST_END, check_model, write_checksums
from lexlip.sparse.word_chances import LikelyWords
from tests.tiny import CAPTIONS, TINY, check_vectors, tiny_balanced, tiny_dense, tiny_model, tiny_photos


@pytest.mark.parametrize("options", [{}, {"img_size": 32}], ids=["", "img_size in its options"])
@pytest.mark.parametrize("dense", [False, True], ids=["lexlip", "dense"])
def test_a_resized_model_can_be_saved(dense: bool, options: dict[str, int], tmp_path: Path) -> None:
    image = replace(TINY.image, options={**TINY.image.options, **options})
    model = tiny_dense(replace(TINY, image=image)) if dense else tiny_model(replace(TINY, image=image))
    photos = tiny_photos(2, 48)
    with torch.no_grad():
        model.resize(48)
    assert model.config.image.size == 48
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.config.image.size == 48
    assert (loaded.encode_image(photos) != model.encode_image(photos)).nnz == 0


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tiny_model().save(tmp_path / "saved")
    return tmp_path / "saved"


def test_one_text_or_one_picture_is_a_batch_of_one(model: LexLIP) -> None:
    assert (model.encode_text(CAPTIONS[0]) != model.encode_text(CAPTIONS[:1])).nnz == 0
    assert model.encode_text("two dogs", "words").shape == (1, model.dimensions)
    picture = Image.effect_noise((50, 40), 60)
    assert (model.encode_image(picture) != model.encode_image([picture])).nnz == 0
    assert model.encode_image([]).shape == model.encode_text([]).shape == (0, model.dimensions)


@pytest.mark.parametrize("make", [tiny_model, tiny_dense])
@torch.no_grad()
def test_a_model_whose_training_diverged_encodes_nothing(make: Any) -> None:
    model = make()
    model.text_encoder.word_embeddings[:] = torch.nan
    model.encode_image(tiny_photos(2))
    with pytest.raises(ModelError, match="diverged; train it again, with a lower"):
        model.encode_text(CAPTIONS)


def test_a_picture_is_encoded_as_its_file_is_indexed(model: LexLIP) -> None:
    """A photo that the camera turned, and one with transparent parts."""
    colours = np.random.default_rng(0).integers(0, 255, (40, 60, 4), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    for format, pixels in (("JPEG", colours[..., :3]), ("PNG", colours)):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, format, exif=exif)
        expected = model.encode_image([decode(file.getvalue(), 32)])
        assert expected.nnz
        assert (model.encode_image(Image.open(file)) != expected).nnz == 0


def test_what_yields_pictures_and_texts_is_as_good_as_a_list(model: LexLIP) -> None:
    pictures = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue")]
    texts = ["a red dog", "two boats"]
    assert (model.encode_image(iter(pictures)) != model.encode_image(pictures)).nnz == 0
    for given in (iter(texts), tuple(texts), dict.fromkeys(texts), np.array(texts)):
        assert (model.encode_text(given) != model.encode_text(texts)).nnz == 0


@pytest.mark.parametrize("texts", [b"a dog", None, 5, [b"a dog"], [None], [["a dog"]], ["\ud800"]])
def test_what_is_no_text(model: LexLIP, texts: Any) -> None:
    with pytest.raises(DataError, match=r"^texts are strings, or one, and text 1 is |holds half a character"):
        model.encode_text(texts)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision(model: LexLIP, dtype: torch.dtype) -> None:
    picture = Image.effect_noise((40, 30), 90).convert("RGB")
    expected = model.encode_image(picture).toarray()
    found = copy.deepcopy(model).to(dtype).encode_image(picture).toarray()
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("photos", "got"),
    [
        (torch.zeros(1, 3, 32, 32), r"torch\.float32 of shape \[1, 3, 32, 32\]"),
        (torch.zeros(3, 32, 32, dtype=torch.uint8), r"torch\.uint8 of shape \[3, 32, 32\]"),
        (np.zeros((1, 32, 32, 3), np.uint8), "ndarray"),
        (["photo.jpg"], "str"),
        ("photo.jpg", "str"),
        (Path("photo.jpg"), "PosixPath"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_picture(model: LexLIP, photos: Any, got: str) -> None:
    with pytest.raises(DataError, match=rf"^photos are pictures of PIL.*, and not {got}: open files with"):
        model.encode_image(photos)


@pytest.mark.parametrize("make", [tiny_model, tiny_dense])
def test_text_vectors_depend_neither_on_batch_nor_on_order_nor_on_padding(make: Any) -> None:
    model = make()
    texts = [" ".join(CAPTIONS[i % 6].split()[: 1 + i % 9]) for i in range(150)]  # more than one length group
    alone = np.concatenate([model.encode_text([text]).toarray() for text in texts])
    check_vectors(model.encode_text(texts), alone)
    check_vectors(model.encode_text(texts, batch=7), alone)
    order = np.random.default_rng(0).permutation(len(texts))
    check_vectors(model.encode_text([texts[i] for i in order]), alone[order])


def test_a_mirroring_model_has_the_mean_of_both_views(tmp_path: Path) -> None:
    model = tiny_model()
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    mirrored = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    plain = model.encode_image([picture, mirrored]).toarray()
    assert not np.allclose(plain[0], plain[1], atol=1e-3)
    model.mirror(True)
    np.testing.assert_allclose(
        model.encode_image([picture, mirrored]).toarray(), np.tile(plain.mean(axis=0), (2, 1)), atol=1e-5
    )
    model.save(tmp_path)
    again = LexLIP.from_pretrained(tmp_path)
    assert again.config.image.mirror
    assert (again.encode_image(picture) != model.encode_image(picture)).nnz == 0
    model.resize(48)
    assert model.config.image.mirror


@pytest.mark.parametrize("part", ["balance", "keywords", "likely"])
def test_what_belongs_to_the_weights_is_saved_with_a_model(part: str, tmp_path: Path) -> None:
    """Weights without it leave none of the weights before."""
    model, file = tiny_balanced(), tmp_path / f"{part}.safetensors"
    width = len(model.vocabulary)
    model.keywords = identity(width, dtype=np.float32, format="csr")
    model.likely = LikelyWords(
        *(np.ones(shape, np.float32) for shape in (width, width, (width, 2), (2, width)))
    )
    model.save(tmp_path)
    assert check_model(tmp_path) == []
    again = LexLIP.from_pretrained(tmp_path)
    assert again.keywords is not None
    for ours, theirs in zip(model.balance, again.balance, strict=True):
        assert (ours.queries != theirs.queries).nnz == 0
    assert (again.keywords != model.keywords).nnz == 0
    assert (again.likely.inputs == model.likely.inputs).all()
    setattr(model, part, None)
    model.save(tmp_path)
    assert check_model(tmp_path) == []
    assert not file.exists()
    assert getattr(LexLIP.from_pretrained(tmp_path), part) is None
    file.write_bytes(b"damaged")
    with pytest.raises(ModelError, match=rf"is damaged: {part}\.safetensors"):
        LexLIP.from_pretrained(tmp_path)


def test_an_honest_end_is_saved_with_the_weights_that_it_was_measured_for(tmp_path: Path) -> None:
    model, file = tiny_model(), tmp_path / HONEST_END
    model.save(tmp_path)
    assert not file.exists()
    end = {"format": 1, "model": model.identity, "gate": {}, "tail": {}}
    file.write_text(json.dumps(end))
    again = LexLIP.from_pretrained(tmp_path)
    assert again.honest_end == end
    again.save(tmp_path, small=True)
    assert again.identity != model.identity
    assert json.loads(file.read_text()) == {**end, "model": again.identity}
    assert check_model(tmp_path) == []
    file.write_text(json.dumps(end))  # of other weights
    write_checksums(tmp_path, [HONEST_END])
    other = LexLIP.from_pretrained(tmp_path)
    assert other.honest_end is None
    other.save(tmp_path)
    assert not file.exists()
    assert check_model(tmp_path) == []
    file.write_text("[")
    with pytest.raises(ModelError, match=r"is damaged: "):
        LexLIP.from_pretrained(tmp_path)


def test_loading_needs_no_network(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    LexLIP.from_pretrained(saved)


def test_a_folder_holds_no_pickle_and_no_path(tmp_path: Path) -> None:
    weights = tmp_path / "secret" / "weights.safetensors"
    weights.parent.mkdir()
    model = tiny_model()
    model.config = replace(model.config, image=replace(model.config.image, weights=str(weights)))
    weights.touch()
    model.save(tmp_path / "saved")
    files = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"config.json", "vocabulary.txt", "model.safetensors", "tokenizer.json"} <= files
    assert {Path(name).suffix for name in files} <= {".json", ".md", ".txt", ".safetensors"}
    assert "secret" not in (tmp_path / "saved" / "config.json").read_text()


def test_the_identity_follows_the_weights(tmp_path: Path) -> None:
    identities = []
    for seed in (0, 0, 1):
        model = tiny_model(seed=seed)
        model.save(tmp_path)
        identities.append(model.identity)
    assert identities[0] == identities[1] != identities[2]
