import json
from random import Random

from tools.campaign.mutations import mutate, mutate_tree, text


def test_damage_is_the_same_for_a_seed_and_different_for_others() -> None:
    data = bytes(range(256)) * 4
    damaged = [mutate(Random(seed), data) for seed in range(50)]
    assert damaged == [mutate(Random(seed), data) for seed in range(50)]
    assert len(set(damaged)) > 40


def test_only_the_header_is_damaged() -> None:
    data = bytes(range(256)) * 4
    changed = [
        one for one in (mutate(Random(seed), data, within=16) for seed in range(200)) if len(one) == len(data)
    ]
    assert any(one != data for one in changed)
    assert all(one[40:] == data[40:] for one in changed)


def test_trees_stay_json_and_the_given_one_stays_as_it_is() -> None:
    tree = {"a": [1, {"b": "x"}], "c": None}
    before = json.dumps(tree)
    changed = [json.dumps(mutate_tree(Random(seed), tree)) for seed in range(100)]
    assert json.dumps(tree) == before
    assert len(set(changed)) > 30


def test_texts_hold_what_is_hostile() -> None:
    texts = "".join(text(Random(seed)) for seed in range(500))
    assert {"\0", "\ud800", "\u2028", "^"} <= set(texts)
