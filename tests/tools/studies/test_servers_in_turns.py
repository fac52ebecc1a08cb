from pathlib import Path

import pytest

from lexlip.other_engines.export import export
from tests.other_engines.exported import random_rows, write_index
from tests.other_engines.real_servers import address
from tools.studies import servers_in_turns as study


def test_each_query_counts_by_its_fastest_round(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([5.0, 1.0, 3.0, 2.0, 2.0, 9.0])
    asked: list[tuple[str, int]] = []
    clock = [0.0]
    monkeypatch.setattr(study.time, "perf_counter", lambda: clock[0])

    def system(name: str) -> study.Search:
        def search(query: study.Query) -> tuple[list[str], list[float]]:
            asked.append((name, query[0]))
            if name == "slow":
                clock[0] += next(seconds)
            return [name], [float(query[0])]

        return search

    found = study.ask({"quick": system("quick"), "slow": system("slow")}, [{0: 7}, {0: 8}])
    once = [("quick", 7), ("quick", 8), ("slow", 7), ("slow", 8)]
    assert asked == once * study.ROUNDS
    assert found["slow"].ms == [2000, 1000]
    assert found["quick"].answers == [(["quick"], [7.0]), (["quick"], [8.0])]


@pytest.mark.servers
def test_all_find_the_same_scores(tmp_path: Path) -> None:
    engines = ("opensearch", "solr")
    addresses = address("opensearch"), address("solr")
    index = write_index(tmp_path / "index", random_rows(500))
    for engine in engines:
        export(index, engine, tmp_path / engine)
    rows = random_rows(6)[:5]  # without the last, which has no words
    found = list(study.compare(index, rows, (tmp_path / "opensearch", tmp_path / "solr"), addresses))
    assert len({row["system"] for row in found}) == 4
    assert len({row["words"] for row in found}) == 2
    assert all(row["equal"] == 1 for row in found)
    assert all(0.9 <= row["recall@10"] <= 1 for row in found if row["words"] == 24)  # some scores are equal
