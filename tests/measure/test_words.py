from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.data import open_source
from lexlip.encoders.text import word_tokenizer
from lexlip.errors import DataError
from lexlip.measure.words import photo_words, words_at_10, words_scale
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.vocabulary import Vocabulary
from tests.tiny import tiny_model

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
    said = {WORDS.index(word) for word in caption.split()}
    return words_at_10(csr_matrix(row), lexicon, [said], special)


def test_words_at_10_by_hand(vocabulary: tuple[Vocabulary, list[int]]) -> None:
    ten = {f"w{i}": 1.0 for i in range(10)}
    assert measure(vocabulary, {"dog": 1, "cat": 2}, "the dog") == pytest.approx(0.1)  # of ten, not of two
    assert measure(vocabulary, ten, "w0 w1 w2") == pytest.approx(0.3)
    assert measure(vocabulary, {**ten, "dog": 2.0, "cat": 0.5}, "dog cat") == pytest.approx(
        0.1
    )  # cat is 12th
    assert measure(vocabulary, {}, "dog") == 0


def test_signs_and_special_pieces_leave_their_place_to_the_next(
    vocabulary: tuple[Vocabulary, list[int]],
) -> None:
    weights = {**{f"w{i}": 2.0 for i in range(9)}, "[CLS]": 9.0, ",": 8.0, "dog": 1.0}
    assert measure(vocabulary, weights, "[CLS] , dog") == pytest.approx(0.1)


def test_function_words_keep_their_place_but_are_no_hit(vocabulary: tuple[Vocabulary, list[int]]) -> None:
    weights = {**{f"w{i}": 2.0 for i in range(9)}, "the": 9.0, "dog": 1.0}
    assert measure(vocabulary, weights, "the dog") == 0


def test_words_at_10_is_a_mean_over_images(vocabulary: tuple[Vocabulary, list[int]]) -> None:
    lexicon, special = vocabulary
    rows = np.zeros((2, len(WORDS)), dtype=np.float32)
    rows[:, WORDS.index("dog")] = 1
    said = [{WORDS.index("dog")}, set[int]()]
    assert words_at_10(csr_matrix(rows), lexicon, said, special) == pytest.approx(0.05)


def test_the_heaviest_words_of_photos(photos: Path) -> None:
    model = tiny_model()
    (photos / "1.txt").write_text(" ".join(model.vocabulary.words))
    (photos / "2.txt").unlink()
    (photos / "4.jpg").touch()
    (photos / "5.jpg").write_bytes(b"")
    source = open_source(photos)
    found, skipped = photo_words(model, source, 3, [1, 2, 4, 5], workers=0)
    assert [photo.id for photo in found] == ["1.jpg", "2.jpg", "4.jpg"]
    assert [skip.id for skip in skipped] == ["5.jpg"]
    for row, photo in zip((1, 2, 4), found, strict=True):
        vector = model.encode_image([source.image(row, model.config.image.size)]).toarray()[0]
        heaviest = sorted(range(len(vector)), key=lambda column: (-vector[column], column))[:3]
        expected = {model.vocabulary.words[column]: vector[column] for column in heaviest}
        assert photo.words == pytest.approx(expected)
        assert list(photo.words) == list(expected)
        assert (photo.path, photo.captions) == (source.path(row), source.items[row].captions)
    assert found[0].held == [word for word in found[0].words if word not in FUNCTION_WORDS]
    assert (found[1].held, found[1].captions) == ([], ())


def test_no_photo_can_be_read(photos: Path) -> None:
    (photos / "3.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"can be read \(1 tried; 3.jpg: empty file\)"):
        photo_words(tiny_model(), open_source(photos), 3, [3], workers=0)


def test_what_words_at_10_can_be_compared_with(vocabulary: tuple[Vocabulary, list[int]]) -> None:
    lexicon, _ = vocabulary

    def ids(caption: str) -> set[int]:
        return {WORDS.index(word) for word in caption.split()}

    photos = [
        [ids("the dog , snow"), ids("the dog w0")],  # shares: 1/2 of dog and snow, 1/2 of dog and w0
        [ids("cat snow"), ids("cat snow w1 w2"), ids("the")],  # 2/2, 2/4; the has no word that counts
        [ids("dog")],  # alone
    ]
    scale = words_scale(lexicon, photos)
    assert scale.human == pytest.approx((1 / 2 + 1 / 2 + 1 + 1 / 2) / 4)
    assert scale.chance == pytest.approx((2 + 2 + 1 + 1 + 1 + 1) / 30)  # dog, snow, cat, w0, w1, w2
    assert words_scale(lexicon, photos[2:]).human is None


def test_a_constant_list_has_the_chance_of_words_at_10(vocabulary: tuple[Vocabulary, list[int]]) -> None:
    """words@10 itself, with the ten most frequent words for all photos."""
    lexicon, special = vocabulary
    rng = np.random.default_rng(0)
    columns = np.arange(3, len(WORDS))
    photos = [[set(rng.choice(columns, 4, replace=False).tolist())] for _ in range(50)]
    counts = {column: sum(column in captions[0] for captions in photos) for column in columns.tolist()}
    ten = sorted(counts, key=lambda column: -counts[column])[:10]
    row = np.isin(np.arange(len(WORDS)), ten).astype(np.float32)
    found = words_at_10(csr_matrix(np.tile(row, (50, 1))), lexicon, [c[0] for c in photos], special)
    assert words_scale(lexicon, photos).chance == pytest.approx(found)
