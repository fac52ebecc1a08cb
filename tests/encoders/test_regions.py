import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.config import ImageEncoderConfig
from lexlip.encoders.regions import RegionEncoder
from lexlip.errors import ConfigError, ModelError
from tests.made_regions import CLASSES, FEATURES, drawn_regions, region_model

WIDTH = 16


def encoder_of(layers: int) -> RegionEncoder:
    torch.manual_seed(0)
    return RegionEncoder(region_model(layers=layers).image, WIDTH).eval()


def attended(states: Tensor, of: torch.nn.TransformerEncoderLayer) -> Tensor:
    """BERT's layer on the states [P, D] of one photo, by the formulas; one head."""
    q, k, v = F.linear(states, of.self_attn.in_proj_weight, of.self_attn.in_proj_bias).chunk(3, dim=1)
    mixed = (q @ k.t() / WIDTH**0.5).softmax(dim=1) @ v
    states = of.norm1(states + of.self_attn.out_proj(mixed))
    return of.norm2(states + of.linear2(F.gelu(of.linear1(states))))


@pytest.mark.parametrize("layers", [0, 2])
@torch.no_grad()
def test_states_are_those_of_each_photo_alone(layers: int) -> None:
    encoder, numbers = encoder_of(layers), [3, 5, 1]
    photos = drawn_regions(numbers)
    states = encoder(photos)
    prefix = encoder.prefix_tokens
    assert prefix == int(layers > 0)
    assert states.shape == (3, prefix + 5, WIDTH)
    for photo, found, number in zip(photos, states, numbers, strict=True):
        box, features = photo[:number, :7], photo[:number, 7 : 7 + FEATURES]
        sums = features @ encoder.features.weight.t() + encoder.features.bias
        sums = sums + box @ encoder.boxes.weight.t() + encoder.boxes.bias
        expected = F.layer_norm(sums, (WIDTH,))
        if encoder.layers is not None:
            expected = torch.cat([encoder.first[None], expected])
            for layer in encoder.layers.layers:
                expected = attended(expected, layer)
        torch.testing.assert_close(found[: prefix + number], expected, rtol=1e-4, atol=1e-5)
        assert not found[prefix + number :].any()


@torch.no_grad()
def test_a_share_of_each_photo_s_regions_is_masked() -> None:
    encoder, numbers = encoder_of(1), [3, 5, 1, 4]
    photos = drawn_regions(numbers)
    seen = set()
    for seed in range(20):
        torch.manual_seed(seed)
        states, masked, targets = encoder.masked_tokens(photos, 0.4)
        assert masked[:, 0].sum() == 0
        places = masked[:, 1:]
        assert places.sum(dim=1).tolist() == [1, 2, 1, 2]  # at least one, and 40 %
        assert all(not row[number:].any() for row, number in zip(places, numbers, strict=True))
        torch.testing.assert_close(targets, photos[places][:, 7 : 7 + FEATURES])
        without = photos.clone()
        without[..., 7 : 7 + FEATURES][places] = 0  # their boxes stay
        torch.testing.assert_close(states, encoder(without))
        chances = encoder.chances(photos)[masked]
        torch.testing.assert_close(chances, photos[places][:, -CLASSES:])
        seen |= {tuple(row) for row in places.nonzero().tolist()}
    assert len(seen) == sum(numbers)


def test_activations_are_recomputed_on_request() -> None:
    plain, saving = encoder_of(2), encoder_of(2)
    saving.checkpoint_activations()
    gradients = []
    for encoder in (plain, saving):
        encoder(drawn_regions([2, 5])).square().sum().backward()
        gradients.append([weight.grad for weight in encoder.parameters()])
    torch.testing.assert_close(*gradients)


def test_what_regions_do_not_have_is_refused() -> None:
    with pytest.raises(ModelError, match="no size in pixels"):
        encoder_of(1).resized(32)
    for options, why in (
        ({"feature": 3}, "options has feature: 3, and regions have whole numbers of features, classes, most"),
        ({"features": "many"}, "options has features: many"),
        ({"most": 0}, "options.most is 0; it must be more than 0"),
        ({"classes": -1}, "options.classes is -1; it must not be negative"),
    ):
        with pytest.raises(ConfigError, match=why):
            ImageEncoderConfig(name="regions", options=options)
    for given in ({"weights": "pretrained"}, {"mirror": True}):
        with pytest.raises(ConfigError, match="starts at random, and sees no mirror images"):
            ImageEncoderConfig(name="regions", **given)
