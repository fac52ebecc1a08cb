from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from lexlip.config import ImageEncoderConfig
from lexlip.data.upright import seen_part, square
from lexlip.encoders.image import ImageEncoder, norm_after_pooling, to_pixels
from lexlip.errors import ConfigError, ModelError
from tests.encoders.some_encoders import (
    BEIT,
    SWIN,
    TRANSFORMERS,
    kept_and_gradients,
    make,
    transformers,
    with_random_positions,
)
from tests.tiny import TINY, tiny_photos

CONVOLUTIONAL = ImageEncoderConfig(name="mobilenetv2_035", size=32)
TWO_BLOCKS = replace(TINY.image, options={**TINY.image.options, "depth": 2})
CONVNEXT = ImageEncoderConfig(
    name="convnext_tiny", options={"depths": (1, 1, 1, 1), "dims": (8, 8, 16, 16)}, size=64
)


@pytest.mark.parametrize(
    ("config", "prefix", "shape"),
    [
        (TINY.image, 1, (17, 24)),
        (BEIT, 1, (10, 24)),
        (CONVOLUTIONAL, 0, (1, 1280)),
        (replace(CONVOLUTIONAL, size=64, layers=1), 0, (4, 16)),
        (replace(TINY.image, layers=2), 1, (17, 16)),
        (SWIN, 0, (4, 64)),
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


def test_batch_norms_never_update() -> None:
    """So a vector does not depend on the batch."""
    encoder, photos = make(CONVOLUTIONAL), tiny_photos(4)
    before = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    encoder.train()
    assert encoder.training
    torch.testing.assert_close(encoder(photos)[:1], encoder(photos[:1]), rtol=1e-4, atol=1e-5)
    encoder(photos).sum().backward()
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


# ---- other sizes than the encoder's own ----


@transformers
@pytest.mark.parametrize("layers", [0, 2])
def test_resized(config: ImageEncoderConfig, module, layers: int) -> None:
    encoder = with_random_positions(replace(config, layers=layers))
    size = config.size * 3 // 2
    photos = tiny_photos(2, size)
    encoder.body.cls_token.requires_grad_(False)
    resized = encoder.resized(size)
    assert resized.config == replace(encoder.config, size=size)
    fresh = make(replace(encoder.config, size=size)).state_dict()
    assert {k: v.shape for k, v in resized.state_dict().items()} == {k: v.shape for k, v in fresh.items()}
    torch.testing.assert_close(resized(photos), encoder(photos), rtol=1e-4, atol=1e-5)
    assert not resized.training
    assert not resized.body.cls_token.requires_grad
    assert resized.body.cls_token is not encoder.body.cls_token
    assert sum(p.requires_grad for p in resized.parameters()) == len(list(encoder.parameters())) - 1


@pytest.mark.parametrize("config", [CONVOLUTIONAL, CONVNEXT], ids=["MobileNetV2", "ConvNeXt"])
@pytest.mark.parametrize("layers", [0, 2])
def test_convolutional_encoders_at_any_size(config: ImageEncoderConfig, layers: int) -> None:
    encoder = with_random_positions(replace(config, size=64, layers=layers))
    photos = tiny_photos(2, 160)
    tokens = encoder(photos)
    features = encoder.body.forward_features((photos / 255 - 0.5) / 0.5)  # [B, C, 5, 5]
    expected = features.flatten(2).transpose(1, 2)
    if config is CONVNEXT:  # whose norm comes after pooling
        expected = nn.functional.layer_norm(expected, expected.shape[2:], eps=1e-6)
    if layers:
        grid = encoder.position.T.reshape(1, 16, 2, 2)
        position = nn.functional.interpolate(grid, (5, 5), mode="bicubic", antialias=True)
        expected = encoder.layers(encoder.reduce(expected) + position[0].flatten(1).T)
        tokens.sum().backward()
        assert encoder.position.grad.abs().min() > 0
    torch.testing.assert_close(tokens, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder.resized(160)(photos), tokens, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [TINY.image, BEIT, SWIN], ids=["ViT", "BEiT", "Swin"])
def test_sizes_that_do_not_fit(config: ImageEncoderConfig) -> None:
    encoder = make(config)
    message = f"'{config.name}' takes no photos of 50 x 50 pixels"
    with pytest.raises(ModelError, match=message):
        encoder(tiny_photos(1, 50))
    if config is not SWIN:  # which pads
        with pytest.raises(ModelError, match=message):
            encoder.resized(50)


def test_a_model_that_cannot_be_resized() -> None:
    encoder = make(ImageEncoderConfig(name="mixer_s16_224", options={"mlp_ratio": (0.1, 0.1)}, size=32))
    with pytest.raises(ModelError, match=r"'mixer_s16_224' takes no photos of 64 x 64 pixels"):
        encoder(tiny_photos(1, 64))
    with pytest.raises(
        ModelError, match=r"cannot be resized to 64 x 64 pixels: its body\..* depends on the size"
    ):
        encoder.resized(64)


def test_running_out_of_memory_is_no_wrong_size(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make(TINY.image)

    def fail(pixels: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(encoder.body, "forward_features", fail)
    with pytest.raises(torch.OutOfMemoryError):
        encoder(tiny_photos(1, 64))


def test_a_size_seen_first_without_gradients_can_be_trained() -> None:
    encoder = with_random_positions(replace(BEIT, size=64))
    photos = tiny_photos(1, 176)
    with torch.inference_mode():
        encoder(photos)
    encoder(photos).sum().backward()
    assert encoder.body.blocks[0].attn.relative_position_bias_table.grad.isfinite().all()


# ---- activation checkpointing ----


@pytest.mark.parametrize(
    ("config", "factor"),
    [(TRANSFORMERS["ViT"][0], 2), (TRANSFORMERS["BEiT"][0], 2), (replace(CONVOLUTIONAL, layers=2), 1)],
    ids=["ViT", "BEiT", "convolutional with layers"],
)
def test_checkpointed_activations(config: ImageEncoderConfig, factor: int) -> None:
    encoder = with_random_positions(config).train()
    photos = tiny_photos(4, config.size * factor)
    plain, expected = kept_and_gradients(encoder, lambda: encoder(photos))
    encoder.checkpoint_activations()
    less, gradients = kept_and_gradients(encoder, lambda: encoder(photos))
    assert less < 0.8 * plain
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5, msg=name)
    assert encoder.resized(config.size).checkpointing


def test_own_layers_are_checkpointed_too() -> None:
    encoder = make(replace(TINY.image, layers=3)).train()
    for parameter in encoder.body.parameters():
        parameter.requires_grad_(False)
    photos = tiny_photos(8)
    plain, _ = kept_and_gradients(encoder, lambda: encoder(photos))
    encoder.checkpoint_activations()
    assert kept_and_gradients(encoder, lambda: encoder(photos))[0] < 0.3 * plain


def test_bodies_that_cannot_be_checkpointed() -> None:
    config = ImageEncoderConfig(name="pit_ti_224", options={"base_dims": (8, 8, 8), "depth": (1, 1, 1)})
    encoder = make(config)
    with pytest.raises(ModelError, match="timm cannot checkpoint the activations of 'pit_ti_224'"):
        encoder.checkpoint_activations()
    assert not encoder.checkpointing


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


@pytest.mark.parametrize("share", [0.1, 0.5])
@torch.no_grad()
def test_masked_patches_of_pixels(share: float) -> None:
    """Against the same photos with the patches painted in the mean colour."""
    encoder, photos = make(TINY.image), tiny_photos(3)
    states, blank, targets = encoder.masked_pixels(photos, share)
    assert not blank[:, 0].any()  # [CLS]
    assert blank.sum(dim=1).tolist() == [round(share * 16)] * 3
    assert targets.shape == (int(blank.sum()), encoder.patch_width) == (3 * round(share * 16), 3 * 8 * 8)
    normalised, row = (photos.float() / 255 - 0.5) / 0.5, 0
    for b in range(3):
        for p in torch.nonzero(blank[b, 1:])[:, 0].tolist():
            y, x = 8 * (p // 4), 8 * (p % 4)
            torch.testing.assert_close(targets[row], normalised[b, :, y : y + 8, x : x + 8].flatten())
            normalised[b, :, y : y + 8, x : x + 8] = 0
            row += 1
    torch.testing.assert_close(states, encoder.body_tokens(normalised))


@torch.no_grad()
def test_masked_tokens_below_fresh_layers() -> None:
    encoder = ImageEncoder(ImageEncoderConfig(name="mobilenetv2_035", size=64, layers=1), 64).eval()
    tokens = encoder.tokens(torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8))
    states, blank, targets = encoder.masked_tokens(tokens, 0.5)
    assert blank.sum(dim=1).tolist() == [2, 2]
    torch.testing.assert_close(targets, tokens[blank])
    assert encoder.patch_width == tokens.shape[2]
    torch.testing.assert_close(states, encoder.deepen(tokens * ~blank[:, :, None]))


@pytest.mark.parametrize(
    ("config", "frozen", "until"),
    [
        (TWO_BLOCKS, ["patch_embed", "cls_token", "pos_embed", "blocks.0"], "blocks.1"),
        (
            replace(BEIT, options={**BEIT.options, "depth": 2}),
            ["patch_embed", "cls_token", "blocks.0"],
            "blocks.1",
        ),
        (
            replace(CONVOLUTIONAL, size=64),
            ["conv_stem", "bn1", "blocks.0", "blocks.1", "blocks.2"],
            "blocks.3",
        ),
        (replace(CONVNEXT, layers=1), ["stem", "stages.0", "stages.1"], "stages.2"),
    ],
    ids=["ViT", "BEiT", "convolutional", "ConvNeXt with layers"],
)
def test_what_a_frozen_part_makes_of_photos_replaces_them(
    config: ImageEncoderConfig, frozen: list[str], until: str
) -> None:
    encoder = make(config)
    for name, weight in encoder.body.named_parameters():
        weight.requires_grad_(not name.startswith(tuple(frozen)))
    photos = tiny_photos(3, config.size)
    expected = encoder(photos)
    expected.square().sum().backward()
    gradients = {name: weight.grad for name, weight in encoder.named_parameters() if weight.grad is not None}
    encoder.zero_grad()
    encoder.frozen_until = encoder.first_trained()
    assert encoder.frozen_until == until
    with torch.no_grad():
        begun = encoder.begin(photos)
    found = encoder.deepen(encoder.finish(begun))
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    assert {name for name, weight in encoder.named_parameters() if weight.grad is not None} == set(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(encoder.get_parameter(name).grad, gradient)
    torch.testing.assert_close(encoder(photos), expected)  # pixels are still taken


def test_a_part_that_is_trained_before_the_blocks_is_named() -> None:
    encoder = make(TINY.image)
    encoder.body.requires_grad_(False)
    assert encoder.first_trained() is None
    encoder.body.pos_embed.requires_grad_(True)
    with pytest.raises(ConfigError, match="begins at its positions"):
        encoder.first_trained()


SMALL_STAGES = {"depths": (1, 1, 1, 1), "embed_dims": (8, 8, 16, 16), "num_heads": (1, 1, 1, 1)}
NORMALISED_AFTER_POOLING = [
    BEIT,
    replace(TINY.image, options={**TINY.image.options, "global_pool": "avg"}),
    ImageEncoderConfig("test_vit_relpos", size=160),
    ImageEncoderConfig("eva02_tiny_patch14_224", size=56, options={"depth": 1}),
    CONVNEXT,
    ImageEncoderConfig("davit_tiny", options=SMALL_STAGES),
    ImageEncoderConfig("tiny_vit_5m_224", options=SMALL_STAGES),
    ImageEncoderConfig("mambaout_femto", size=64, options={"depths": (1, 1, 1, 1), "dims": (8, 8, 16, 16)}),
]


@pytest.mark.parametrize("config", NORMALISED_AFTER_POOLING, ids=lambda config: config.name)
def test_tokens_pass_the_last_norm(config: ImageEncoderConfig) -> None:
    """Tokens are normalised over channels, however large the states are before the norm."""
    encoder = make(config)
    states = encoder.body.forward_features
    encoder.body.forward_features = lambda pixels: 1e4 * states(pixels)
    tokens = encoder(tiny_photos(2, config.size))
    torch.testing.assert_close(tokens.mean(dim=2), torch.zeros(tokens.shape[:2]), atol=1e-3, rtol=0)
    torch.testing.assert_close(
        tokens.std(dim=2, correction=0), torch.ones(tokens.shape[:2]), atol=0.01, rtol=0
    )


def test_a_norm_of_the_classifier_is_not_applied_to_tokens() -> None:
    assert norm_after_pooling(timm.create_model("test_resnet", num_classes=0)) is None
    assert norm_after_pooling(timm.create_model("vit_tiny_patch16_224", num_classes=0, depth=1)) is None


@pytest.mark.parametrize("size", [(64, 64), (128, 64), (64, 160), (100, 99), (1, 7)])
def test_the_part_of_a_photo_that_is_seen(size: tuple[int, int]) -> None:
    """Cut out by hand and resized, it is the square that the encoder takes."""
    ramp = Image.linear_gradient("L").resize(size)
    photo = Image.merge("RGB", (ramp, ramp.rotate(180), Image.radial_gradient("L").resize(size)))
    for resize in ("squash", "crop"):
        config = replace(TINY.image, resize=resize)
        left, top, right, bottom = seen_part(size, config)
        box = (left * size[0], top * size[1], right * size[0], bottom * size[1])
        expected = photo.resize((32, 32), Image.Resampling.BICUBIC, box=box)
        difference = torch.tensor(list(square(photo, config).tobytes())).sub(
            torch.tensor(list(expected.tobytes()))
        )
        assert difference.abs().max() <= 1
        assert (right - left) * size[0] == pytest.approx(size[0] if resize == "squash" else min(size))
