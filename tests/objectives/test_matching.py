import torch

from lexlip.objectives.matching import matching


def test_matching_is_torch_s_cross_entropy_of_two_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 2, generator=generator)
    labels = torch.tensor([1, 1, 1, 0, 0, 0, 0])
    odds = logits[:, 1] - logits[:, 0]
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(matching(odds[:3], odds[3:]), expected)
