import numpy as np
import torch

from lexlip.objectives.masked_regions import class_divergence, regression


def test_losses_by_their_formulas() -> None:
    rng = np.random.default_rng(0)
    predicted, given = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    found = regression(torch.tensor(predicted), torch.tensor(given))
    np.testing.assert_allclose(found, np.linalg.norm(predicted - given, axis=1) ** 2 / 6)
    chances = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
    chances[1] = [0, 0, 1, 0, 0, 0]  # what is never so adds nothing
    found = class_divergence(torch.tensor(predicted), torch.tensor(chances))
    expected = []
    for logits, row in zip(predicted, chances, strict=True):
        q = np.exp(logits) / np.exp(logits).sum()
        expected.append(sum(r * np.log(r / q[c]) for c, r in enumerate(row) if r > 0))
    np.testing.assert_allclose(found, expected)
    same = class_divergence(torch.tensor(np.log(chances[[0]])), torch.tensor(chances[[0]]))
    np.testing.assert_allclose(same, [0], atol=1e-12)
