import numpy as np
import torch

from lexlip.training.averages import average


def test_a_mean_with_weights() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3)]
    states = [{"a": torch.from_numpy(array), "b": torch.tensor([4])} for array in arrays]
    mean = average(states, [1, 2, 5])
    np.testing.assert_allclose(mean["a"], np.average(arrays, axis=0, weights=[1, 2, 5]), rtol=1e-5, atol=1e-6)
    assert mean["b"].tolist() == [4]


def test_what_is_alike_stays_bit_for_bit() -> None:
    value = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    for share in (0.1, 0.3, 0.7):
        assert torch.equal(average([{"a": value}, {"a": value.clone()}], [1 - share, share])["a"], value)
