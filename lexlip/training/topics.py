"""Topics of photos: k-means of their vectors' main directions, on the device of a run."""

from __future__ import annotations

import torch
from torch import Tensor

DIRECTIONS = 64  # in which topics are looked for
ROUNDS = 4  # of subspace iteration: a topic needs no exact singular vectors
LLOYD_ROUNDS = 10
AT_A_TIME = 2**24  # distances: 64 MB


def topics_of(vectors: Tensor, transposed: Tensor, number: int, seed: int) -> Tensor:
    """Return which of so many topics each vector is of, int64 [n]; they are sparse, [n, V] and [V, n]."""
    rng = torch.Generator(vectors.device).manual_seed(seed)
    return k_means(main_directions(vectors, transposed, DIRECTIONS, rng), number, rng)


def main_directions(vectors: Tensor, transposed: Tensor, number: int, rng: torch.Generator) -> Tensor:
    """Return vectors [n, V] projected on an orthonormal basis of about their first right singular vectors.

    Subspace iteration (Halko et al., 2011, Algorithm 4.4). The basis may be turned, which leaves distances as
    they are. [n, `number`], or fewer if the vectors have not as many.
    """
    size = min(number, *vectors.shape)
    basis = torch.randn(vectors.shape[1], size, generator=rng, device=vectors.device)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(transposed @ (vectors @ basis)).Q
    return vectors @ basis


def k_means(points: Tensor, number: int, rng: torch.Generator) -> Tensor:
    """Return the cluster of each of n points, int64 [n]: Lloyd's rounds after a k-means++ start."""
    centres = _far_apart(points, number, rng)
    for _ in range(LLOYD_ROUNDS):
        clusters = _nearest(points, centres)
        sums = torch.zeros_like(centres).index_add_(0, clusters, points)
        counts = clusters.bincount(minlength=number)[:, None]
        centres = torch.where(counts > 0, sums / counts.clamp(min=1), centres)  # an empty one stays
    return _nearest(points, centres)


def _far_apart(points: Tensor, number: int, rng: torch.Generator) -> Tensor:
    """Return so many of the points, each drawn by its squared distance from those before (k-means++)."""
    device, last = points.device, len(points) - 1
    drawn = torch.randint(len(points), (1,), generator=rng, device=device)
    centres = [points[drawn]]
    squares = torch.full((len(points),), torch.inf, device=device)
    for _ in range(number - 1):
        squares = torch.minimum(squares, (points - centres[-1]).square().sum(dim=1))
        sums = squares.double().cumsum(0)
        share = torch.rand(1, generator=rng, device=device, dtype=torch.float64)
        drawn = torch.searchsorted(sums, share * sums[-1], right=True).clamp(max=last)
        centres.append(points[drawn])
    return torch.cat(centres)


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    parts = points.split(max(1, AT_A_TIME // len(centres)))
    return torch.cat([torch.cdist(part, centres).argmin(dim=1) for part in parts])
