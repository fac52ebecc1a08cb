import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.training.momentum import KeyQueue, follow

WIDTH = 5


def keys(number: int, seed: int) -> Tensor:
    return torch.rand(number, WIDTH, generator=torch.Generator().manual_seed(seed)) + 0.1


def held(queue: KeyQueue) -> list[tuple[int, list[float]]]:
    """The queue's images and keys, sorted."""
    found, images = queue.contents()
    return sorted(zip(images.tolist(), found.tolist(), strict=True))


@pytest.mark.parametrize("length", [1, 4, 5, 7, 12])
@pytest.mark.parametrize("sizes", [[4] * 6, [1] * 9, [3, 5, 0, 2, 11], [30, 2]])
def test_the_queue_holds_the_last_keys(length: int, sizes: list[int]) -> None:
    """Whether or not its length is a multiple of the batch; against a plain list."""
    queue, history, image = KeyQueue(length, WIDTH), [], 100
    assert queue.filled == 0
    for seed, size in enumerate(sizes):
        batch, images = keys(size, seed), torch.arange(image, image + size)
        image += size
        queue.enqueue(batch, images)
        units = [(row / row.norm()).bfloat16().tolist() for row in batch]
        history += zip(images.tolist(), units, strict=True)
        assert queue.filled == min(len(history), length)
        assert held(queue) == sorted(history[-length:])


def test_an_empty_queue_has_no_keys() -> None:
    found, images = KeyQueue(4, WIDTH).contents()
    assert found.shape == (0, WIDTH)
    assert images.shape == (0,)


def test_keys_are_unit_vectors_without_a_gradient() -> None:
    queue, batch = KeyQueue(4, WIDTH), keys(3, 0).requires_grad_()
    queue.enqueue(batch * 7, torch.arange(3))
    found, _ = queue.contents()
    assert not found.requires_grad
    torch.testing.assert_close(found.float(), F.normalize(batch.detach(), dim=1), rtol=1e-2, atol=1e-3)


def test_keys_that_are_compared_by_dot_product_keep_their_lengths() -> None:
    queue, batch = KeyQueue(4, WIDTH, torch.float32, "dot"), 7 * keys(3, 0)
    queue.enqueue(batch, torch.arange(3))
    assert torch.equal(queue.contents()[0], batch)


def test_a_queue_is_saved_whole() -> None:
    queue, other = KeyQueue(4, WIDTH), KeyQueue(4, WIDTH)
    for seed in range(3):
        queue.enqueue(keys(3, seed), torch.arange(3) + 3 * seed)
    other.load_state_dict(queue.state_dict())
    assert held(other) == held(queue)
    for each in (queue, other):
        each.enqueue(keys(2, 9), torch.tensor([50, 51]))
    assert held(other) == held(queue)


def test_the_moving_average_over_several_steps() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    follower = copy.deepcopy(model).requires_grad_(False)
    expected = {name: parameter.tolist() for name, parameter in follower.named_parameters()}

    def mean(key: object, weight: object) -> object:
        if isinstance(key, list) and isinstance(weight, list):
            return [mean(k, w) for k, w in zip(key, weight, strict=True)]
        return 0.9 * key + (1 - 0.9) * weight

    for _ in range(5):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        model(torch.randn(4, 3))  # moves the batch norm's statistics
        follow(follower, model, 0.9)
        for name, parameter in model.named_parameters():
            expected[name] = mean(expected[name], parameter.tolist())
    for name, parameter in follower.named_parameters():
        torch.testing.assert_close(parameter, torch.tensor(expected[name]), rtol=1e-5, atol=1e-6)
    assert not torch.equal(follower[0].weight, model[0].weight)
    for (name, ours), theirs in zip(follower.named_buffers(), model.buffers(), strict=True):
        assert torch.equal(ours, theirs), name
    assert int(follower[1].num_batches_tracked) == 5
