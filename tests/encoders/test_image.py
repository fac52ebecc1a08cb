from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.image import ImageEncoder, square, to_pixels
from lexlip.errors import ModelError
from tests.tiny import TINY, tiny_photos

CONVOLUTIONAL = ImageEncoderConfig(name="mobilenetv2_035", size=32)
BEIT = ImageEncoderConfig(
    name="beit_base_patch16_224", options={"embed_dim": 24, "depth": 1, "num_heads": 2}, size=48
)


def make(config: ImageEncoderConfig, width: int = 16) -> ImageEncoder:
    torch.manual_seed(0)
    return ImageEncoder(config, width).eval()


@pytest.mark.parametrize(
    ("config", "prefix", "shape"),
    [
        (TINY.image, 1, (17, 24)),
        (BEIT, 1, (10, 24)),
        (CONVOLUTIONAL, 0, (1, 1280)),
        (replace(CONVOLUTIONAL, size=64, layers=1), 0, (4, 16)),
        (replace(TINY.image, layers=2), 1, (17, 16)),
        (
            ImageEncoderConfig(
                name="swin_tiny_patch4_window7_224",
                options={"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 1, 1)},
                size=64,
            ),
            0,
            (4, 64),
        ),
    ],
    ids=["ViT", "BEiT", "convolutional", "convolutional with layers", "ViT with layers", "Swin"],
)
def test_encoders_by_name(config: ImageEncoderConfig, prefix: int, shape: tuple[int, int]) -> None:
    encoder = make(config)
    tokens = encoder(tiny_photos(3, config.size))
    assert tokens.shape == (3, *shape)
    assert (encoder.positions, encoder.width) == shape
    assert encoder.prefix_tokens == prefix
    assert tokens.isfinite().all()


def test_a_convolutional_map_is_read_row_by_row() -> None:
    encoder = make(replace(CONVOLUTIONAL, size=96))  # 3 x 3
    photos = tiny_photos(2, 96)
    features = encoder.body.forward_features((photos.float() / 255 - 0.5) / 0.5)  # [B, C, 3, 3]
    tokens = encoder(photos)
    torch.testing.assert_close(tokens[:, 5], features[:, :, 1, 2])


def test_pixels_are_normalised() -> None:
    config = replace(TINY.image, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    encoder = make(config)
    photos = tiny_photos(2)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (config.mean, config.std))
    expected = encoder.body.forward_features((photos / 255 - mean) / std)
    torch.testing.assert_close(encoder(photos), expected)


def test_a_vector_does_not_depend_on_the_batch() -> None:
    encoder = make(CONVOLUTIONAL).train()
    photos = tiny_photos(4)
    torch.testing.assert_close(encoder(photos)[:1], encoder(photos[:1]), rtol=1e-4, atol=1e-5)


def test_batch_norms_never_update() -> None:
    encoder = make(CONVOLUTIONAL)
    before = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    encoder.train()
    encoder(tiny_photos(4)).sum().backward()
    assert encoder.training
    assert any("running_mean" in name for name in before)
    for name, buffer in encoder.named_buffers():
        assert torch.equal(buffer, before[name]), name


def test_weights_from_a_file(tmp_path: Path) -> None:
    torch.manual_seed(5)
    body = timm.create_model("mobilenetv2_035", num_classes=7)  # its classifier is ignored
    save_file(body.state_dict(), tmp_path / "weights.safetensors")
    config = replace(CONVOLUTIONAL, weights=str(tmp_path / "weights.safetensors"))
    encoder = make(config)
    photos = tiny_photos(1)
    expected = body.eval().forward_features((photos / 255 - 0.5) / 0.5).flatten(2).transpose(1, 2)
    torch.testing.assert_close(encoder(photos), expected)
    other = ImageEncoder(config, 16, load_weights=False).eval()
    assert not torch.allclose(other(photos), expected)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    state = timm.create_model("mobilenetv2_035", num_classes=0).state_dict()
    path = tmp_path / "weights.safetensors"
    config = replace(CONVOLUTIONAL, weights=str(path))
    for change, message in [
        (
            lambda s: s.pop("conv_stem.weight"),
            r"expected conv_stem\.weight of shape \(16, 3, 3, 3\), found nothing",
        ),
        (
            lambda s: s.update({"bn1.bias": torch.zeros(3)}),
            r"expected bn1\.bias of shape \(16,\), found shape \(3,\)",
        ),
    ]:
        changed = dict(state)
        change(changed)
        save_file(changed, path)
        with pytest.raises(ModelError, match=message):
            make(config)
    path.write_bytes(b"nonsense")
    with pytest.raises(
        ModelError, match=r"cannot read the image encoder's weights from .*weights\.safetensors"
    ):
        make(config)
    with pytest.raises(ModelError, match=r"nothing\.safetensors"):
        make(replace(config, weights=str(tmp_path / "nothing.safetensors")))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (replace(CONVOLUTIONAL, name="no_such_model"), "timm cannot make the image encoder 'no_such_model'"),
        (replace(CONVOLUTIONAL, options={"colour": 3}), "'mobilenetv2_035': .*colour"),
        (replace(TINY.image, options={"img_size": 64}), r"takes no photos of 32 x 32 pixels: .*\(64\)"),
        (replace(TINY.image, name="vit_tiny_patch16_224.nonsense"), "cannot make .* Invalid pretrained tag"),
    ],
)
def test_impossible_encoders(config: ImageEncoderConfig, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        make(config)
    assert "\n" not in str(caught.value)


def test_square() -> None:
    photo = Image.new("RGB", (60, 20), "red")
    photo.paste("blue", (20, 0, 40, 20))
    crop = to_pixels(photo, replace(TINY.image, resize="crop", size=20))
    assert crop.shape == (3, 20, 20)
    assert crop.dtype == torch.uint8
    assert crop.float().mean(dim=(1, 2)).tolist() == [0, 0, 255]  # the middle only
    squashed = square(photo, replace(TINY.image, resize="squash", size=20))
    assert squashed.size == (20, 20)
    assert squashed.getpixel((0, 10)) == (255, 0, 0)
    assert squashed.getpixel((10, 10)) == (0, 0, 255)
    assert squashed.getpixel((19, 10)) == (255, 0, 0)
