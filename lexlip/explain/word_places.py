"""Where in a picture a model sees each word: its weight at every position that max pooling chooses from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lexlip.data.upright import as_seen, seen_part
from lexlip.errors import ModelError
from lexlip.explain.weighted_words import columns_of
from lexlip.queries.photo_encoder import PhotoEncoder

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP


@dataclass(frozen=True)
class WordPlaces:
    """The weights log(1 + relu(logit)) of W words at the positions of an image encoder.

    The encoder's grid divides a part of the picture into rows and columns. A word's weight in the picture is
    the maximum over all positions. What a position says is not of its cell alone: an encoder looks around it.
    Of a model that also looks at the mirror image, a position has the mean of both views, while a word's
    weight is the mean of both maxima, so it may be larger than all of them.

    Attributes:
        words: W different words.
        rows, columns: of the grid.
        box: the part of the picture that the grid covers: left, top, right and bottom in fractions of its
            width and height; all of it if the model squashes pictures, a square if it crops them.
        values: float32 [W, rows * columns], row by row.
        special: float32 [W, S], the weights at pooled positions that lie nowhere in the picture, such as
            [CLS]; S is 0 for models that do not pool these.
        weights: float32 [W], of the words in the picture.
    """

    words: tuple[str, ...]
    rows: int
    columns: int
    box: tuple[float, float, float, float]
    values: NDArray[np.float32]
    special: NDArray[np.float32]
    weights: NDArray[np.float32]

    def grid(self, word: str) -> NDArray[np.float32]:
        """Return a word's weights as a grid, [rows, columns]."""
        return self.values[self.words.index(word)].reshape(self.rows, self.columns)

    def weight(self, word: str) -> float:
        """Return a word's weight in the picture, p."""
        return float(self.weights[self.words.index(word)])

    def winner(self, word: str) -> tuple[int, int] | None:
        """Return the row and column, from 0, of the position that max pooling took.

        None if the word is not in the picture, or a special position won.
        """
        grid, special = self.grid(word), self.special[self.words.index(word)]
        if self.weight(word) == 0 or np.max(grid) < np.max(special, initial=0):
            return None
        row, column = divmod(int(np.argmax(grid)), self.columns)
        return row, column

    def cell(self, row: int, column: int) -> tuple[float, float, float, float]:
        """Return a position's part of the picture: left, top, right and bottom in fractions of it."""
        left, top, right, bottom = self.box
        wide, high = (right - left) / self.columns, (bottom - top) / self.rows
        x, y = left + column * wide, top + row * high
        return x, y, left + (column + 1) * wide, top + (row + 1) * high

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and lists; a word's values are shares of its weight, 0 … 1."""
        shares = self.values / np.maximum([[self.weight(word)] for word in self.words], 1e-12)
        return {
            "rows": self.rows,
            "columns": self.columns,
            "box": list(self.box),
            "words": {word: row.round(4).tolist() for word, row in zip(self.words, shares, strict=True)},
            "weights": {word: self.weight(word) for word in self.words},
            "special": {word: row.tolist() for word, row in zip(self.words, self.special, strict=True)},
        }


def places(model: LexLIP | PhotoEncoder, picture: Image.Image, words: str | Sequence[str]) -> WordPlaces:
    """Return where in a picture a model sees words; their weights are those of `LexLIP.encode_image`.

    Args:
        model: the encoder.
        picture: of any size and mode; places are those of the picture as it is seen (see `as_seen`).
        words: of the vocabulary; a single string is one word.

    Raises:
        DataError: the vocabulary lacks a word.
        ModelError: the positions of the image encoder form no square, or the model does not see words at
            positions.
    """
    if model.config.joint:
        raise ModelError(
            f"'{model.name}' sees words in a picture as a whole: it cannot be said where they are"
        )
    words = tuple(dict.fromkeys([words] if isinstance(words, str) else words))
    columns = columns_of(model.vocabulary, words)
    image = model.config.image
    picture = as_seen(picture)
    grids, specials, weights = [], [], []
    for mirrored, (values, prefix) in enumerate(_views(model, picture, columns)):
        side = math.isqrt(values.shape[1] - prefix)
        if side * side != values.shape[1] - prefix:
            raise ModelError(
                f"the positions of '{image.name}' form no square: it cannot be said where words are"
            )
        grid = values[:, prefix:].reshape(-1, side, side)
        grids.append((grid[:, :, ::-1] if mirrored else grid).reshape(len(words), side * side))
        specials.append(values[:, : prefix if model.config.special_positions else 0])
        weights.append(np.concatenate([grids[-1], specials[-1]], axis=1).max(axis=1))
    mean = [np.mean(views, axis=0) for views in (grids, specials, weights)]
    return WordPlaces(words, side, side, seen_part(picture.size, image), *mean)


def _views(
    model: LexLIP | PhotoEncoder, picture: Image.Image, columns: Sequence[int]
) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Yield the weights of words at every position, [W, P], and how many positions lie nowhere.

    The picture comes first, then its mirror image if the model looks at it.
    """
    if isinstance(model, PhotoEncoder):
        for pixels in model.views(model.pixels(picture)):
            yield model.at_positions(pixels, columns)[0].T, 0
        return
    import torch

    from lexlip.encoders.image import to_batch
    from lexlip.machine.device import copied, encoding

    batch = to_batch(picture, model.config.image)
    chosen = torch.tensor(columns, dtype=torch.int64, device=model.device)
    model.eval()
    for view in (batch, batch.flip(3)) if model.config.image.mirror else (batch,):
        with torch.inference_mode(), encoding(model.device):
            states = model.image_encoder(copied(view, model.device))  # [1, P, D]
            values = model.vectors(model.image_head.at_positions(states, chosen))  # [1, P, W]
        yield values[0].t().float().cpu().numpy(), model.image_encoder.prefix_tokens
