import numpy as np

from tools.studies.languages_through import same_words


def test_words_that_both_have() -> None:
    found = same_words(["cat", "dog", "tree"], ["tree", "bird", "cat", "sky"])
    assert found.toarray().tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert found.dtype == np.float32
    assert np.array_equal(np.array([[2, 3, 4]], np.float32) @ found, [[4, 0, 2, 0]])
