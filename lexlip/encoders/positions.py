"""Position embeddings and biases of a square grid of image tokens, at another size than their own."""

from __future__ import annotations

import functools
import math
import warnings

import torch
from timm.layers import resample_abs_pos_embed, resize_rel_pos_bias_table
from timm.models.beit import Attention, Beit, gen_relative_position_index
from torch import Tensor


def resample_positions(position: Tensor, tokens: int, prefix: int) -> Tensor:
    """Return position embeddings [P, D] of a square grid as [tokens, D] of another grid.

    The first `prefix` tokens of both, such as [CLS], stay as they are. ValueError: the others are no square.
    """
    if len(position) == tokens:
        return position
    before, after = math.isqrt(len(position) - prefix), math.isqrt(tokens - prefix)
    if before**2 + prefix != len(position) or after**2 + prefix != tokens:
        raise ValueError(f"its {tokens} tokens do not form a square")
    resampled: Tensor = resample_abs_pos_embed(
        position[None], [after, after], [before, before], num_prefix_tokens=prefix
    )
    return resampled[0]


def resize_bias_table(table: Tensor, grid: int, distances: int) -> Tensor:
    """Return a BEiT's relative position biases [own distances, heads] for another grid, as timm resizes them.

    `grid` is the number of tokens along a side of the other grid, which has `distances`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about the way timm indexes
        resized: Tensor = resize_rel_pos_bias_table(table, (grid, grid), (distances, table.shape[1]))
    return resized


def allow_any_size(body: Beit) -> None:
    """Let a BEiT take photos of any size: the forward pass interpolates its relative position biases."""
    if body.pos_embed is None and body.rel_pos_bias is None:  # true for every BEiT in timm
        for block in body.blocks:
            block.attn.__class__ = _AnySizeAttention
        body.patch_embed.strict_img_size = False


class _AnySizeAttention(Attention):
    """BEiT's attention at any size: the relative positions of its own grid, stretched over another.

    The number of tokens tells the grid, so that checkpointed blocks see the same grid when recomputed.
    """

    def forward(self, x: Tensor, shared_rel_pos_bias: Tensor | None = None) -> Tensor:
        self.grid = math.isqrt(x.shape[1] - 1)  # all tokens but [CLS]
        states: Tensor = super().forward(x, shared_rel_pos_bias)
        return states

    def _get_rel_pos_bias(self) -> Tensor:
        own = self.window_size[0]
        if self.grid == own:
            bias: Tensor = super()._get_rel_pos_bias()
            return bias
        table = self.relative_position_bias_table  # [distances, heads]
        stretch, index = _stretch(own, self.grid, table.device), _index(own, self.grid, table.device)
        with torch.autocast(table.device.type, enabled=False):
            return (stretch @ table)[index].permute(2, 0, 1).unsqueeze(0)  # [1, heads, P, P]


@torch.compiler.assume_constant_result
def _stretch(own: int, grid: int, device: torch.device) -> Tensor:
    """Return the matrix of `_relative_positions`; torch.compile calls it once and does not look inside."""
    return _relative_positions(own, grid, device)[0]


@torch.compiler.assume_constant_result
def _index(own: int, grid: int, device: torch.device) -> Tensor:
    """Return the rows of `_relative_positions`, likewise."""
    return _relative_positions(own, grid, device)[1]


@functools.lru_cache(maxsize=16)
def _relative_positions(own: int, grid: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return what BEiT's position biases need on another grid than their own.

    timm's geometric interpolation is linear in the table. Applied to the unit matrix it gives its own matrix,
    through which a gradient can flow without a detour through the CPU in each step: float32 [distances of
    `grid`, distances of `own`]. Beside it int64 [P, P]: the row of the resized table that belongs to each
    pair of tokens.
    """
    with torch.inference_mode(False), torch.no_grad():  # the cache outlives the mode of its first caller
        index = gen_relative_position_index((grid, grid))
        distances = (2 * own - 1) ** 2 + 3
        stretch = resize_bias_table(torch.eye(distances), grid, int(index.max()) + 1)
        return stretch.to(device), index.to(device)
