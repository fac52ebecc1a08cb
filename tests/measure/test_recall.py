import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.encoders.text import word_tokenizer
from lexlip.measure.recall import recall_at_k, words_at_10
from lexlip.vocabulary import Vocabulary
from tests.reference.ranking import naive_recall


def test_recall_by_hand() -> None:
    results = [["a", "b", "c"], ["c", "b"], [], ["x"]]
    relevant = [{"b"}, {"c", "z"}, {"a"}, set()]
    assert recall_at_k(results, relevant, ks=(1, 2, 3)) == {"R@1": 25.0, "R@2": 50.0, "R@3": 50.0}
    assert recall_at_k([], []) == {"R@1": 0.0, "R@5": 0.0, "R@10": 0.0}


def test_recall_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    names = [f"{i}" for i in range(30)]
    results = [list(rng.permutation(names)[: rng.integers(0, 12)]) for _ in range(200)]
    relevant = [set(rng.choice(names, rng.integers(1, 4))) for _ in range(200)]
    found = recall_at_k(results, relevant)
    assert found == {f"R@{k}": pytest.approx(naive_recall(results, relevant, k)) for k in (1, 5, 10)}


def test_as_many_answers_as_questions() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        recall_at_k([["a"]], [{"a"}, {"b"}])


WORDS = ["[CLS]", ",", "the", "dog", "cat", "snow", *(f"w{i}" for i in range(10))]


@pytest.fixture
def vocabulary() -> tuple[Vocabulary, list[int]]:
    """The words above with a tokenizer's numbers, and the numbers of its special pieces."""
    tokenizer = word_tokenizer([" ".join(WORDS[1:])])
    return Vocabulary.from_words(WORDS, tokenizer), tokenizer.all_special_ids


def measure(vocabulary: tuple[Vocabulary, list[int]], weights: dict[str, float], caption: str) -> float:
    lexicon, special = vocabulary
    row = np.zeros((1, len(WORDS)), dtype=np.float32)
    for word, weight in weights.items():
        row[0, WORDS.index(word)] = weight
    tokens = {int(lexicon.token_ids[WORDS.index(word)]) for word in caption.split()}
    return words_at_10(csr_matrix(row), lexicon, [tokens], special)


def test_words_at_10_by_hand(vocabulary) -> None:
    ten = {f"w{i}": 1.0 for i in range(10)}
    assert measure(vocabulary, {"dog": 1, "cat": 2}, "the dog") == pytest.approx(0.1)  # of ten, not of two
    assert measure(vocabulary, ten, "w0 w1 w2") == pytest.approx(0.3)
    assert measure(vocabulary, {**ten, "dog": 2.0, "cat": 0.5}, "dog cat") == pytest.approx(
        0.1
    )  # cat is 12th
    assert measure(vocabulary, {}, "dog") == 0


def test_signs_and_special_pieces_leave_their_place_to_the_next(vocabulary) -> None:
    weights = {**{f"w{i}": 2.0 for i in range(9)}, "[CLS]": 9.0, ",": 8.0, "dog": 1.0}
    assert measure(vocabulary, weights, "[CLS] , dog") == pytest.approx(0.1)


def test_function_words_keep_their_place_but_are_no_hit(vocabulary) -> None:
    weights = {**{f"w{i}": 2.0 for i in range(9)}, "the": 9.0, "dog": 1.0}
    assert measure(vocabulary, weights, "the dog") == 0


def test_words_at_10_is_a_mean_over_images(vocabulary) -> None:
    lexicon, special = vocabulary
    rows = np.zeros((2, len(WORDS)), dtype=np.float32)
    rows[:, WORDS.index("dog")] = 1
    dog = int(lexicon.token_ids[WORDS.index("dog")])
    assert words_at_10(csr_matrix(rows), lexicon, [{dog}, set()], special) == pytest.approx(0.05)
