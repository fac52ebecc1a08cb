import torch

from lexlip.models.compression import compress, expand


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "conv.weight": torch.randn(4, 3, 2, 2) * torch.tensor([1e-3, 1, 30, 0]).view(4, 1, 1, 1),
        "linear.weight": torch.randn(5, 7) * torch.tensor([1e-3, 1, 30, 1, 0])[:, None],
        "linear.bias": torch.randn(5),
        "norm.num_batches_tracked": torch.tensor(100_001),
    }


def test_every_row_of_a_matrix_is_kept_within_half_a_step() -> None:
    before, after = weights(), expand(compress(weights()))
    assert after.keys() == before.keys()
    step = before["linear.weight"].abs().amax(dim=1) / 127
    error = (after["linear.weight"] - before["linear.weight"]).abs().amax(dim=1)
    assert (error <= 0.501 * step).all()
    assert compress(before)["linear.weight.int8"].dtype == torch.int8


def test_convolutions_and_vectors_keep_half_precision() -> None:
    before, after = weights(), expand(compress(weights()))
    for name in ("conv.weight", "linear.bias"):
        torch.testing.assert_close(after[name], before[name].half())
    assert after["norm.num_batches_tracked"] == 100_001


def test_compressing_twice_changes_nothing_more() -> None:
    once = expand(compress(weights()))
    twice = expand(compress(once))
    for name, weight in once.items():
        torch.testing.assert_close(twice[name], weight, rtol=1e-6, atol=0)


def test_weights_that_are_not_compressed_pass() -> None:
    before = weights()
    after = expand(before)
    assert all(after[name] is weight for name, weight in before.items())
