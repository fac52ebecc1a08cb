import numpy as np
import pytest
import torch

from lexlip.training.topics import k_means, main_directions


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_main_directions_keep_products_and_nearly_all_that_they_can() -> None:
    noise = np.random.default_rng(1)
    left, right = noise.standard_normal((60, 5)), noise.standard_normal((5, 40))
    flat = torch.from_numpy((left * [9, 7, 5, 3, 2]) @ right).float()
    projected = main_directions(flat, flat.t(), 5, rng())  # of rank 5: nothing is lost
    torch.testing.assert_close(projected @ projected.t(), flat @ flat.t(), rtol=1e-3, atol=0.05)
    vectors = flat + torch.from_numpy(noise.standard_normal((60, 40))).float()
    best = torch.linalg.svdvals(vectors)[:8].square().sum()
    assert 0.98 * best < main_directions(vectors, vectors.t(), 8, rng()).square().sum() <= best * (1 + 1e-5)
    assert main_directions(vectors[:3], vectors[:3].t(), 8, rng()).shape == (3, 3)


def test_clusters_are_around_their_means() -> None:
    """Points in heaps that are far apart; and of any points each is nearest to the mean of its cluster."""
    middles = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0], [30.0, 30.0]])
    heaps = torch.arange(5).repeat(20)
    found = k_means(middles[heaps] + torch.rand(100, 2, generator=rng(1)), 5, rng())
    assert len(found.unique()) == 5
    for heap in range(5):
        assert len(found[heaps == heap].unique()) == 1
    points = torch.rand(40, 3, generator=rng(2))
    found = k_means(points, 3, rng())
    means = torch.stack([points[found == cluster].mean(dim=0) for cluster in range(3)])
    assert (torch.cdist(points, means).argmin(dim=1) == found).float().mean() > 0.9
    assert torch.equal(k_means(points, 3, rng()), found)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_more_clusters_than_points_that_differ(number: int) -> None:
    points = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).repeat(4, 1)
    found = k_means(points, number, rng())
    assert len(found.unique()) == min(number, 2)
    assert torch.equal(found[::2], found[:1].expand(4))
