from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.system import K, recall_of, seconds_of


def test_recalls_of_a_search() -> None:
    found = {"a": ["1", "2"], "b": ["2", "3", "1"]}

    def search(queries: list[str], k: int) -> tuple[list[list[str]], None]:
        assert k == K
        return [found[query] for query in queries], [None] * len(queries)

    recalls = recall_of(search, ["a", "b"], [{"1"}, {"1"}], "x", TableSettings())
    assert recalls == {"R@1": 50, "R@5": 100, "R@10": 100}


def test_the_first_so_many_queries_are_timed() -> None:
    asked: list[list[int]] = []
    assert seconds_of(lambda queries, k: asked.append(queries), [1, 2, 3], 2) >= 0
    assert asked == [[1, 2]]
