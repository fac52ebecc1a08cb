import pytest
import torch

from lexlip.objectives.anchor import align, predict_words
from tests.objectives.some_vectors import V, vectors
from tests.reference.losses import (
    naive_align,
    naive_predict_words,
)


def test_align() -> None:
    texts, bags = vectors(4, 4), vectors(4, 5)
    torch.testing.assert_close(align(texts, bags), naive_align(texts, bags))
    torch.testing.assert_close(align(texts, 3 * texts), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_predict_words() -> None:
    logits = 4 * vectors(3, 6)
    counts = torch.tensor([[2.0, 0, 1, 0, 0, 0, 0, 0], [0] * 8, [0, 0, 0, 0, 0, 0, 0, 5]])
    assert predict_words(logits, counts).item() == pytest.approx(
        naive_predict_words(logits, counts), rel=1e-5
    )
    assert predict_words(logits, torch.zeros(3, V)).item() == 0
    without = predict_words(logits[[0, 2]], counts[[0, 2]])
    assert predict_words(logits, counts).item() == pytest.approx(without.item() * 2 / 3, rel=1e-5)
