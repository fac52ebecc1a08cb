from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.cli.demo import PHOTOS
from lexlip.config import ImageEncoderConfig, ModelConfig
from lexlip.data import decode
from lexlip.encoders.image import to_pixels
from lexlip.errors import DataError, ModelError
from lexlip.explain.weighted_words import words_of_picture
from lexlip.explain.word_places import WordPlaces, places
from lexlip.models.lexlip import LexLIP
from tests.tiny import TINY, tiny_model

CONVOLUTIONAL = replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=96))
SWIN = replace(
    TINY,
    image=ImageEncoderConfig(
        name="swin_tiny_patch4_window7_224",
        options={"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 1, 1)},
        size=64,
    ),
)
DEEPER = replace(TINY, image=replace(TINY.image, layers=1))
SPECIAL = replace(TINY, special_positions=True)
LOCAL = replace(TINY, image=replace(TINY.image, options={**TINY.image.options, "depth": 0}))
"""Without attention a position sees its own 8 x 8 pixels only."""


def noise(size: tuple[int, int], seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def squashing(config: ModelConfig) -> ModelConfig:
    return replace(config, image=replace(config.image, resize="squash"))


def sample(name: str) -> Image.Image:
    return decode((PHOTOS / name).read_bytes(), 224)


@pytest.mark.parametrize(
    ("config", "side"),
    [(TINY, 4), (SPECIAL, 4), (DEEPER, 4), (CONVOLUTIONAL, 3), (SWIN, 2), (squashing(TINY), 4)],
    ids=["ViT", "ViT with [CLS]", "ViT with layers", "convolutional", "Swin", "squashing"],
)
@pytest.mark.parametrize("size", [(40, 40), (90, 50), (31, 70)])
def test_the_maxima_are_the_picture_s_vector(config: ModelConfig, side: int, size: tuple[int, int]) -> None:
    model, picture = tiny_model(config), noise(size)
    with torch.no_grad():
        model.image_head.bias[::2] -= 20  # words that are not there
    where = places(model, picture, model.vocabulary.words)
    vector = model.encode_image([picture]).toarray()[0]
    assert (where.rows, where.columns, where.values.shape) == (side, side, (len(vector), side**2))
    assert where.special.shape == (len(vector), 1 if config.special_positions else 0)
    pooled = np.concatenate([where.values, where.special], axis=1).max(axis=1)
    np.testing.assert_allclose(pooled, vector, rtol=0, atol=1e-5)
    assert [where.weight(word) for word in where.words] == pytest.approx(list(vector), abs=1e-5)
    assert 0 < np.count_nonzero(vector) < len(vector)


@pytest.mark.parametrize("config", [TINY, SPECIAL, CONVOLUTIONAL])
def test_each_value_is_the_vector_of_one_position(config: ModelConfig) -> None:
    """As the head gives it if it may pool that position alone."""
    model, picture = tiny_model(config), noise((50, 40))
    where = places(model, picture, model.vocabulary.words)
    with torch.inference_mode():
        states = model.image_encoder(to_pixels(picture, model.config.image)[None])
        alone = torch.eye(states.shape[1], dtype=torch.bool)
        expected = model.vectors(model.image_head(states.expand(len(alone), -1, -1), alone)).numpy()
    prefix = model.image_encoder.prefix_tokens
    np.testing.assert_allclose(where.values, expected[prefix:].T, atol=1e-5)
    np.testing.assert_allclose(where.special, expected[:prefix].T[:, : where.special.shape[1]], atol=1e-5)


def test_a_word_that_only_a_special_position_has_won_is_nowhere() -> None:
    model, picture = tiny_model(SPECIAL), noise((40, 40))
    where = places(model, picture, model.vocabulary.words)
    for row, word in enumerate(where.words):
        best = where.values[row].max()
        if where.weight(word) == 0 or where.special[row, 0] > best:
            assert where.winner(word) is None
        else:
            assert where.winner(word) == divmod(int(where.values[row].argmax()), 4)
    winners = {where.winner(word) for word in where.words if where.weight(word)}
    assert None in winners
    assert len(winners) > 1


@pytest.mark.parametrize("config", [TINY, SPECIAL], ids=["ViT", "ViT with [CLS]"])
def test_with_the_mirror_image_a_position_has_the_mean_of_both_views(config: ModelConfig) -> None:
    model, picture = tiny_model(config), noise((50, 40))
    plain = places(model, picture, model.vocabulary.words)
    mirrored = places(model, picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT), model.vocabulary.words)
    model.mirror(True)
    both = places(model, picture, model.vocabulary.words)
    for word in both.words[:50]:
        expected = (plain.grid(word) + mirrored.grid(word)[:, ::-1]) / 2
        np.testing.assert_allclose(both.grid(word), expected, atol=1e-5)
    vector = model.encode_image(picture).toarray()[0]
    np.testing.assert_allclose(both.weights, vector, atol=1e-5)
    np.testing.assert_allclose(both.weights, (plain.weights + mirrored.weights) / 2, atol=1e-5)


def test_words_are_in_the_order_asked() -> None:
    model, picture = tiny_model(), noise((40, 40))
    whole = places(model, picture, model.vocabulary.words)
    some = places(model, picture, ["snow", "dog", "snow"])
    assert some.words == ("snow", "dog")
    for word in some.words:
        np.testing.assert_allclose(some.grid(word), whole.grid(word), atol=1e-6)
    assert places(model, picture, []).values.shape == (0, 16)


def test_modes_are_those_of_encoding() -> None:
    model, picture = tiny_model(), noise((40, 40)).convert("L")
    where = places(model, picture, model.vocabulary.words)
    vector = model.encode_image([picture]).toarray()[0]
    np.testing.assert_allclose(where.values.max(axis=1), vector, atol=1e-5)


# ---- where a cell is in the picture ----


def changed(model: LexLIP, size: tuple[int, int], spot: tuple[int, int]) -> list[tuple[float, ...]]:
    """The cells, in pixels, that a bright spot around a point changes."""
    grey, bright = Image.new("RGB", size, "#707070"), Image.new("RGB", size, "#707070")
    (x, y), wide, high = spot, size[0] // 32, size[1] // 32
    bright.paste((255, 255, 0), (x - wide, y - high, x + wide, y + high))
    before, after = (places(model, picture, model.vocabulary.words) for picture in (grey, bright))
    moved = np.abs(after.values - before.values).max(axis=0) > 1e-6
    cells = [after.cell(*divmod(int(position), after.columns)) for position in np.flatnonzero(moved)]
    return [tuple(edge * size[axis % 2] for axis, edge in enumerate(cell)) for cell in cells]


@pytest.mark.parametrize("size", [(128, 128), (256, 128), (128, 320)])
@pytest.mark.parametrize(("column", "row"), [(0, 0), (1, 2), (3, 1)])
def test_squashed_cells_cover_the_whole_picture(size: tuple[int, int], column: int, row: int) -> None:
    wide, high = size[0] // 4, size[1] // 4
    cell = column * wide, row * high, (column + 1) * wide, (row + 1) * high
    middle = column * wide + wide // 2, row * high + high // 2
    assert changed(tiny_model(squashing(LOCAL)), size, middle) == [pytest.approx(cell)]


def test_cropped_cells_cover_the_square_in_the_middle() -> None:
    model, size = tiny_model(LOCAL), (256, 128)  # the crop is 64 … 192
    for x, y in [(80, 16), (112, 48), (144, 80), (176, 112)]:
        assert changed(model, size, (x, y)) == [pytest.approx((x - 16, y - 16, x + 16, y + 16))]
    assert changed(model, size, (20, 64)) == changed(model, size, (236, 64)) == []
    assert places(model, noise(size), ["dog"]).box == (0.25, 0, 0.75, 1)


def test_mini_finds_a_flag_where_it_is() -> None:
    model = LexLIP.from_pretrained("mini").fold_batch_norms()
    astronaut = sample("astronaut.jpg")
    seen = words_of_picture(model, astronaut)
    where = places(model, astronaut, list(seen.weights))
    assert (where.rows, where.columns, where.box) == (8, 8, (0, 0, 1, 1))
    assert where.weights.tolist() == pytest.approx(list(seen.weights.values()), abs=1e-5)
    winner = where.winner("flag")
    assert winner is not None
    assert winner[1] == 0


# ---- the rest ----


def test_plain() -> None:
    values = np.array([[0.5, 1.0, 0, 0], [0, 0, 0, 0]], np.float32)
    special = np.array([[2.0], [0]], np.float32)
    where = WordPlaces(("dog", "cat"), 2, 2, (0, 0, 1, 1), values, special, special[:, 0])
    assert where.to_dict() == {
        "rows": 2,
        "columns": 2,
        "box": [0, 0, 1, 1],
        "words": {"dog": [0.25, 0.5, 0, 0], "cat": [0, 0, 0, 0]},
        "weights": {"dog": 2, "cat": 0},
        "special": {"dog": [2], "cat": [0]},
    }
    assert where.winner("dog") is where.winner("cat") is None


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    with pytest.raises(DataError, match=r"^the vocabulary has no word 'snwo'; near it: snow$"):
        places(model, noise((40, 40)), ["dog", "snwo"])
    with pytest.raises(DataError, match=r"^the vocabulary has no word 'Ωx'$"):
        places(model, noise((40, 40)), ["Ωx"])
    monkeypatch.setattr(model.image_encoder, "prefix_tokens", 2)
    with pytest.raises(ModelError, match="form no square"):
        places(model, noise((40, 40)), ["dog"])
