from pathlib import Path

import pytest

from lexlip.other_engines.export import export
from tests.other_engines.exported import queries, random_rows, write_index
from tests.other_engines.real_servers import address
from tools.studies.solr_weights import compare


@pytest.mark.servers
def test_both_ways_find_the_same_scores(tmp_path: Path) -> None:
    solr = address("solr")
    export(write_index(tmp_path / "index", random_rows(1000)), "solr", tmp_path / "out")
    rows = compare(tmp_path / "out", queries(5), solr)
    assert [row["way"] for row in rows] == ["frequencies", "frequencies, minExactCount", "payloads"]
    assert all(row["equal"] for row in rows)
    assert rows[2]["megabytes"] > rows[0]["megabytes"] == rows[1]["megabytes"] > 0
