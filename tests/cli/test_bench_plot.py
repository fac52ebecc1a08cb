import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.benchmarks.reports import report

Run = Callable[..., Result]


def test_pictures(lexlip: Run) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    for documents in (300, 600):
        Path(f"{documents}.json").write_text(json.dumps(report(documents)))
    out = lexlip("bench", "plot", "300.json", "600.json", "--out", "plots").stdout.split()
    assert len(out) == 6
    assert all(Path(path).stat().st_size for path in out)
    assert sum(path.startswith("plots/size-") for path in out) == 2


def test_no_report_to_draw(lexlip: Run) -> None:
    assert "cannot read none.json" in lexlip("bench", "plot", "none.json", "--out", "plots", code=2).stderr
    assert "Missing argument" in lexlip("bench", "plot", "--out", "plots", code=2).stderr
