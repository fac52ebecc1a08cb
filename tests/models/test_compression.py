import numpy as np

from lexlip.models.compression import BLOCK, compress, expand, from_int4, int4_rows


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rows = np.array([1e-3, 1, 30, 1, 0])[:, None]
    return {
        "conv.weight": (random.normal(size=(4, 3, 2, 2)) * rows[:4, :, None, None]).astype(np.float32),
        "linear.weight": (random.normal(size=(5, 7)) * rows).astype(np.float32),
        "linear.bias": random.normal(size=5).astype(np.float32),
        "norm.num_batches_tracked": np.array(100_001),
    }


def test_every_row_of_a_matrix_is_kept_within_half_a_step() -> None:
    before, after = weights(), expand(compress(weights()))
    assert after.keys() == before.keys()
    step = np.abs(before["linear.weight"]).max(axis=1) / 127
    error = np.abs(after["linear.weight"] - before["linear.weight"]).max(axis=1)
    assert (error <= 0.501 * step).all()
    assert compress(before)["linear.weight.int8"].dtype == np.int8


def test_convolutions_and_vectors_keep_half_precision() -> None:
    before, after = weights(), expand(compress(weights()))
    for name in ("conv.weight", "linear.bias"):
        np.testing.assert_array_equal(after[name], before[name].astype(np.float16))
    assert after["norm.num_batches_tracked"] == 100_001


def test_compressing_twice_changes_nothing_more() -> None:
    once = expand(compress(weights()))
    twice = expand(compress(once))
    for name, weight in once.items():
        np.testing.assert_allclose(twice[name], weight, rtol=1e-6, atol=0)


def test_weights_that_are_not_compressed_pass() -> None:
    before = weights()
    after = expand(before)
    assert all(after[name] is weight for name, weight in before.items())


def test_four_bits_come_back_exactly() -> None:
    random = np.random.default_rng(0)
    scales = random.normal(size=(7, 3)).astype(np.float16)
    whole = random.integers(-8, 8, size=(7, 3, BLOCK))
    whole[..., 5] = -8  # as in GGML's Q4_0, where a block's farthest entry is -8
    scales[2, 1] = 0
    weights = (whole * scales[..., None].astype(np.float32)).reshape(7, 3 * BLOCK).astype(np.float32)
    packed, found = int4_rows(weights)
    assert (packed.shape, packed.dtype, found.dtype) == ((7, 3 * BLOCK // 2), np.uint8, np.float16)
    np.testing.assert_array_equal(from_int4(packed, found), weights)
    np.testing.assert_array_equal(expand({"a.int4": packed, "a.blocks": found})["a"], weights)


def test_four_bits_keep_all_but_the_other_end_within_half_a_step() -> None:
    weights = np.random.default_rng(0).normal(size=(50, 2 * BLOCK)).astype(np.float32)
    packed, scales = int4_rows(weights)
    steps = np.repeat(np.abs(scales.astype(np.float32)), BLOCK, axis=1)
    errors = np.abs(from_int4(packed, scales) - weights) / steps
    assert errors.max() <= 1.01  # of what is as far on the other side, which has 7 steps
    assert (errors > 0.51).mean() < 0.05
