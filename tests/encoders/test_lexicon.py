import pytest
import torch
import torch.nn.functional as F

from lexlip.encoders.chunked_logits import max_pooled_logits
from lexlip.encoders.lexicon import BagOfWords, LexiconHead, sparse_vector
from tests.encoders.test_chunked_logits import B, D, P, V, inputs
from tests.reference.pooling import naive_max_pooled_logits, naive_sparse_vector


def test_relu_and_log_commute_with_the_maximum() -> None:
    hidden, decoder, mask = inputs()
    bias = torch.linspace(-2, 1, V)
    ours = sparse_vector(max_pooled_logits(hidden, decoder, mask) + bias)
    torch.testing.assert_close(ours, naive_sparse_vector(hidden, decoder, bias, mask))
    assert (ours == 0).any()
    assert (ours >= 0).all()


@pytest.mark.parametrize("width_in", [D, 9])
def test_the_head_is_bert_s(width_in: int) -> None:
    torch.manual_seed(0)
    embeddings = torch.randn(V, D)
    head = LexiconHead(width_in, embeddings)
    states, (_, _, mask) = torch.randn(B, P, width_in), inputs()
    with torch.no_grad():
        head.bias.uniform_()
    projected = states if width_in == D else head.project(states)
    hidden = head.norm(F.gelu(head.dense(projected)))
    torch.testing.assert_close(head.hidden(states), hidden)
    torch.testing.assert_close(head.hidden(states[1, mask[1]]), hidden[1, mask[1]])
    expected = naive_max_pooled_logits(hidden, embeddings, mask) + head.bias
    torch.testing.assert_close(head(states, mask), expected)
    assert head.decoder.data_ptr() != embeddings.data_ptr()  # a copy, trained on its own


def test_the_maximum_of_all_positions_is_the_head_s() -> None:
    torch.manual_seed(0)
    head, states = LexiconHead(6, torch.randn(11, 4)), torch.randn(3, 5, 6)
    torch.nn.init.normal_(head.bias)
    columns = torch.tensor([7, 0, 3])
    at = head.at_positions(states, columns)
    assert at.shape == (3, 5, 3)
    whole = head(states, torch.ones(3, 5, dtype=torch.bool))
    torch.testing.assert_close(at.amax(dim=1), whole[:, columns])


def test_bag_of_words() -> None:
    bag = BagOfWords(4)
    present = torch.tensor([[True, False, True, False], [False] * 4])
    torch.testing.assert_close(bag(present), torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0]]))
    bag.set_weights(torch.tensor([0.5, 2.0, 30.0, 0.0]))
    torch.testing.assert_close(bag(torch.ones(1, 4, dtype=torch.bool)), torch.tensor([[0.5, 2, 30, 1e-3]]))
    bag(present).sum().backward()
    assert bag.weight.grad is not None
    assert (bag.weight.grad != 0).tolist() == [True, False, True, False]
    bag.set_weights(torch.tensor([1e3] * 4))  # more than exp can hold
    torch.testing.assert_close(bag(present[:1]), torch.tensor([[1e3, 0, 1e3, 0]]))


def test_words_bring_their_companions_along() -> None:
    bag = BagOfWords(5, companions=2)
    weights = torch.tensor([1.0, 2, 3, 4, 5])
    columns = torch.tensor([[1, 2], [2, 2], [0, 4], [3, 3], [1, 0]])
    bag.set_weights(weights, columns)
    torch.testing.assert_close(bag.values, 0.05 * weights[:, None].expand(5, 2))
    with torch.no_grad():
        bag.values.copy_(torch.tensor([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6], [0.7, 0.8], [0.9, 1.0]]))
    present = torch.tensor(
        [[True, True, False, False, False], [False] * 5, [False, False, True, False, True]]
    )
    expected = torch.zeros(3, 5)
    for text, held in enumerate([[0, 1], [], [2, 4]]):
        for word in held:
            expected[text, word] += weights[word]
            for companion, value in zip(columns[word].tolist(), bag.values[word].tolist(), strict=True):
                expected[text, companion] += max(0.0, value)
    torch.testing.assert_close(bag(present), expected)
    bag(present).sum().backward()
    assert bag.values.grad.tolist() == [[1, 1], [1, 0], [1, 1], [0, 0], [1, 1]]
