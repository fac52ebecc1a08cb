import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import error
from tests.search.indexes import Indexed
from tests.server.conftest import library  # noqa: F401
from tests.server.serving import serving

QUICK = ("--seconds", 0.5, "--clients", 2, "--rate", 10, "-k", 3)


def test_json(lexlip: Callable[..., Any], library: Indexed) -> None:  # noqa: F811
    report = json.loads(lexlip("bench", "serve", "--index", library.words, *QUICK, "--json").stdout)
    assert report["conditions"]["documents"] == 19
    assert report["start_s"] > 0 < report["first_ms"]
    assert report["memory_mb"] > 50
    for what in ("searches", "thumbnails"):
        assert list(report[what]) == ["closed", "open"]
        for values in report[what].values():
            assert 0 < values["p50"] <= values["p95"] <= values["p99"] <= values["max"]
            assert values["rate"] > 0
            assert values["errors"] == {}


def test_text_of_a_server_that_runs(lexlip: Callable[..., Any], library: Indexed) -> None:  # noqa: F811
    with serving(library.bm25) as server:
        lines = lexlip("bench", "serve", "--url", server.client.base_url, *QUICK).stdout.splitlines()
    assert lines[0].startswith("18 photos, k = 3; ")
    assert lines[1].split() == ["milliseconds", "p50", "p95", "p99", "max", "per", "s", "errors"]
    assert [line.partition(",")[0] for line in lines[2:]] == ["searches"] * 2 + ["thumbnails"] * 2


def test_what_cannot_be_measured(lexlip: Callable[..., Any], tmp_path: Path) -> None:
    said = error(lexlip("bench", "serve", "--index", tmp_path / "none", code=2))
    assert said.startswith("the server did not start: there is no index at ")
    said = error(lexlip("bench", "serve", "--url", "http://127.0.0.1:9", code=2))
    assert "does not answer" in said
    assert "leave it out" in error(lexlip("bench", "serve", "--url", "x", "--index", "y", code=2))
