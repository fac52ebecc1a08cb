from dataclasses import replace

import pytest
import timm
import torch
from timm.models import beit
from torch import Tensor, nn
from torch.func import functional_call

from lexlip.config import ImageEncoderConfig
from lexlip.errors import ModelError
from tests.encoders.some_encoders import BEIT, STRETCHED, SWIN, transformers, with_random_positions
from tests.tiny import TINY, tiny_photos


class TokenStates(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, pixels: Tensor) -> Tensor:
        return self.body.fc_norm(self.body.forward_features(pixels))


@pytest.mark.filterwarnings("ignore::UserWarning:timm")
@transformers
@pytest.mark.parametrize("patches", [3, 9])
def test_another_size_is_as_timm_resizes_weights(config: ImageEncoderConfig, module, patches: int) -> None:
    encoder = with_random_positions(config)
    size = config.size // 6 * patches
    photos = tiny_photos(2, size)
    tokens = encoder(photos)

    body = timm.create_model(config.name, num_classes=0, img_size=size, **config.options).eval()
    stored = {name: weight.detach().requires_grad_() for name, weight in encoder.body.named_parameters()}
    loaded = module.checkpoint_filter_fn(dict(stored), body)  # timm's own resizing, done differentiably
    loaded = {f"body.{name}": weight for name, weight in loaded.items()}
    expected = functional_call(TokenStates(body), loaded, (photos / 255 - 0.5) / 0.5)
    torch.testing.assert_close(tokens, expected, rtol=1e-4, atol=1e-5)

    weights = torch.randn_like(tokens)
    (tokens * weights).sum().backward()
    (expected * weights).sum().backward()
    stretched = [name for name in stored if name.endswith(STRETCHED)]
    assert len(stretched) == (2 if module is beit else 1)
    for name in stretched:
        gradient = encoder.body.get_parameter(name).grad
        assert gradient.abs().max() > 1e-3
        torch.testing.assert_close(gradient, stored[name].grad, rtol=1e-4, atol=1e-4)


@transformers
def test_a_size_of_ones_own_is_untouched(config: ImageEncoderConfig, module) -> None:
    encoder = with_random_positions(config)
    body = timm.create_model(config.name, num_classes=0, img_size=config.size, **config.options).eval()
    body.load_state_dict(encoder.body.state_dict())
    photos = tiny_photos(2, config.size)
    expected = body.fc_norm(body.forward_features((photos / 255 - 0.5) / 0.5))
    encoder(tiny_photos(1, config.size * 2))  # another size in between leaves nothing behind
    torch.testing.assert_close(encoder(photos), expected)


def test_prefix_tokens_keep_their_positions() -> None:
    encoder = with_random_positions(replace(TINY.image, layers=1))  # [CLS] and 4 x 4
    resized = encoder.resized(16)  # [CLS] and 2 x 2
    grid = encoder.position[1:].T.reshape(1, 16, 4, 4)
    expected = nn.functional.interpolate(grid, (2, 2), mode="bicubic", antialias=True)[0].flatten(1).T
    torch.testing.assert_close(resized.position, torch.cat([encoder.position[:1], expected]))


def test_swin_is_resized_but_takes_one_size_at_a_time() -> None:
    encoder = with_random_positions(SWIN)
    with pytest.raises(
        ModelError, match="'swin_tiny_patch4_window7_224' takes no photos of 128 x 128 pixels"
    ):
        encoder(tiny_photos(1, 128))
    fresh = timm.create_model(SWIN.name, num_classes=0, img_size=128, **SWIN.options)
    resized = encoder.resized(128)
    assert {k: v.shape for k, v in resized.body.state_dict().items()} == {
        k: v.shape for k, v in fresh.state_dict().items()
    }
    assert resized(tiny_photos(1, 128)).shape == (1, 16, 64)


def test_relative_positions_stay_exact_under_autocast() -> None:
    encoder = with_random_positions(BEIT)
    attention = encoder.body.blocks[0].attn
    encoder(tiny_photos(1, 96))
    with torch.no_grad():
        exact = attention._get_rel_pos_bias()
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(attention._get_rel_pos_bias(), exact, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore")  # torch.compile's own, of Python and of its caches
def test_torch_compile_makes_one_graph_of_each_size() -> None:
    """What the interpolation needs is made once beside the graph: tracing it takes minutes."""
    encoder = with_random_positions(replace(BEIT, options={**BEIT.options, "depth": 2}))
    graphs = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(encoder, backend=count, dynamic=False, fullgraph=True)
    for number, size in enumerate((96, 64, 96), 1):
        photos = tiny_photos(2, size)
        found, expected = compiled(photos), encoder(photos)
        torch.testing.assert_close(found, expected)
        assert len(graphs) == min(number, 2)
        table = encoder.body.blocks[1].attn.relative_position_bias_table
        (gradient,) = torch.autograd.grad(found.square().sum(), table)
        (other,) = torch.autograd.grad(expected.square().sum(), table)
        torch.testing.assert_close(gradient, other)
