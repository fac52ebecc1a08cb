import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lexlip.bench.corpus import synthetic
from lexlip.bench.engine import benchmark as module
from lexlip.cli import main

Run = Callable[..., Result]


SMALL = ["--docs", "300", "--queries", "20", "--rounds", "1", "--engine", "lexlip", "--engine", "scipy"]


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SECONDS", "BATCH_SECONDS", "WARM_UP", "REPEATED"):
            patch.setattr(module, name, 0.02)
        small = synthetic.Shape(vocabulary=500, terms=(30, 8), query_terms=(20, 6), topics=20, candidates=200)
        patch.setitem(synthetic.SHAPES, "wide", small)
        patch.setattr(synthetic, "BLOCK", 512)
        yield


@pytest.fixture(scope="module")
def measured(quick: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What the command printed with --json, and its folder, which is not to be changed."""
    folder = tmp_path_factory.mktemp("measured") / "work"
    return CliRunner().invoke(main, ["bench", "engine", *SMALL, "--work-dir", str(folder), "--json"]), folder


def test_pictures(lexlip: Run, measured: tuple[Result, Path]) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    report = json.loads(measured[0].stdout)
    for documents in (300, 600):
        report["conditions"]["documents"] = documents
        Path(f"{documents}.json").write_text(json.dumps(report))
    out = lexlip("bench", "plot", "300.json", "600.json", "--out", "plots").stdout.split()
    assert len(out) == 6
    assert all(Path(path).stat().st_size for path in out)
    assert sum(path.startswith("plots/size-") for path in out) == 2


def test_no_report_to_draw(lexlip: Run) -> None:
    assert "cannot read none.json" in lexlip("bench", "plot", "none.json", "--out", "plots", code=2).stderr
    assert "Missing argument" in lexlip("bench", "plot", "--out", "plots", code=2).stderr
