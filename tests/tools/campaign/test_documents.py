from pathlib import Path
from random import Random

import numpy as np
import pytest

from tools.campaign.contract import Broken
from tools.campaign.documents import (
    OPERATIONS,
    WORDS,
    State,
    change,
    check_one_of,
    write_in_segments,
)


def test_brute_force_is_a_sum_over_shared_words() -> None:
    state = State.random(Random(0), 40)
    query = np.arange(len(WORDS)) % 3
    ids, scores = state.search(query, 10)
    plain = [(sum(int(w) * int(q) for w, q in zip(row, query, strict=True))) for row in state.vectors]
    best = sorted(range(40), key=lambda row: (-plain[row], row))[:10]
    assert ids == [state.ids[row] for row in best if plain[row]]
    assert scores == [plain[row] for row in best if plain[row]]


def test_an_upsert_puts_what_it_replaces_last() -> None:
    state, new = State.random(Random(0), 4), State.random(Random(1), 2, first=1)
    after = state.upserted(new)
    assert after.ids == ("d0.jpg", "d3.jpg", "d1.jpg", "d2.jpg")
    assert np.array_equal(after.vectors[2:], new.vectors)
    assert after != state


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_product_does_what_a_change_says(tmp_path: Path, operation: str) -> None:
    wanted, index = change(operation, 1), tmp_path / "index"
    if wanted.old is not None:
        write_in_segments(index, wanted.old)
        assert check_one_of(index, [wanted.old, wanted.new], Random(0)) is wanted.old
    wanted.apply(index)
    assert check_one_of(index, [wanted.new], Random(0)) is wanted.new


def test_another_state_is_noticed(tmp_path: Path) -> None:
    state = State.random(Random(0), 10)
    write_in_segments(tmp_path / "index", state)
    other = State(state.ids, state.vectors.copy())
    other.vectors[3, 5] += 1
    with pytest.raises(Broken, match=r"^the index holds 10 documents that are neither the old state nor the"):
        check_one_of(tmp_path / "index", [other], Random(0))
