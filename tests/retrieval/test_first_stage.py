import numpy as np

from lexlip.retrieval.first_stage import Found


def test_hits_of_an_index_that_does_not_know_which_words_matched() -> None:
    scores = [np.array([2.0, 1.0]), np.array([])]
    one, none = Found.without_words(([["a", "b"], []], scores))
    assert (one.ids, one.scores.tolist(), one.words, one.terms) == (["a", "b"], [2.0, 1.0], [{}, {}], {})
    assert (none.ids, none.scores.tolist(), none.words, none.terms) == ([], [], [], {})
