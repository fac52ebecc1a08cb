import numpy as np

from lexlip.retrieval.near_duplicates import NEAR, group_alike


def test_groups_are_as_a_plain_loop_has_them() -> None:
    generator = np.random.default_rng(0)
    by_id: dict[str, int] = {}
    for number in range(60):
        one = int(generator.integers(0, 8)) << 60  # few, and up to eight bits of noise
        for bit in generator.integers(0, 50, generator.integers(0, 9)).tolist():
            one ^= 1 << bit
        by_id[f"{number}.jpg"] = one
    groups: list[list[str]] = []
    for id in by_id:
        near = [group for group in groups if bin(by_id[group[0]] ^ by_id[id]).count("1") <= NEAR]
        if near:
            near[0].append(id)
        else:
            groups.append([id])
    assert group_alike([(id, id, one) for id, one in by_id.items()]) == groups
    assert 1 < len(groups) < 60


def test_photos_of_which_little_is_known() -> None:
    photos = [
        ("a", "", None),
        ("b", "same", None),
        ("c", "", 7),
        ("d", "same", 7),
        ("e", "", None),
        ("f", "", 7),
    ]
    assert group_alike(photos) == [["a"], ["b", "d"], ["c", "f"], ["e"]]
    assert group_alike([]) == []
