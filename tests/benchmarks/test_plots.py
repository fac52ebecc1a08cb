import json
import sys
from pathlib import Path

import pytest

from benchmarks.peers import LIBRARIES
from benchmarks.plots import COLOURS, draw, draw_costs, read_results
from lexlip.errors import ConfigError, DataError, what_is_missing
from tests.benchmarks.reports import report


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "large.json", tmp_path / "small.json"]
    for path, documents in zip(paths, (100_000, 10_000), strict=True):
        path.write_text(json.dumps(report(documents)))
    return paths


def test_results_come_by_size(files: list[Path]) -> None:
    assert [result["conditions"]["documents"] for result in read_results(files)] == [10_000, 100_000]


def test_pictures(files: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    paths = draw(read_results(files), tmp_path / "new" / "plots")
    setting = "500-words-top-32-query-12-k-10-threads-1"
    names = [f"recall-10000-{setting}", f"recall-100000-{setting}", f"size-{setting}"]
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in names for kind in ("svg", "png")]
    for path in paths:
        assert path.stat().st_size > 5_000
    picture = paths[0].read_text()
    assert "<svg" in picture
    assert "<!-- lexlip -->" in picture
    assert "<!-- lexlip-single -->" in picture
    assert "<!-- lexlip, approximate -->" in picture
    assert "<!-- faiss-hnsw -->" in picture  # one line, and no label for each setting
    assert "<!-- faiss-hnsw-ef16 -->" not in picture
    assert "<!-- index, MB -->" in paths[4].read_text()


def test_only_what_differs_in_size_alone_is_compared_by_size(files: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    files[0].write_text(json.dumps(report(100_000, terms=50)))
    assert all(path.name.startswith("recall-") for path in draw(read_results(files), tmp_path))


def test_one_size_has_no_picture_of_sizes(files: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    assert len(draw(read_results(files[:1]), tmp_path)) == 2


def test_every_library_has_a_colour() -> None:
    assert COLOURS.keys() == LIBRARIES.keys()


def test_without_matplotlib(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError) as error:
        draw(read_results(files), tmp_path / "plots")
    assert what_is_missing(error.value) == "this needs matplotlib: pip install 'lexlip[draw]'"


def test_a_folder_that_cannot_be_written(files: list[Path]) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    with pytest.raises(ConfigError, match=r"cannot write the pictures to .*large.json: "):
        draw(read_results(files), files[0])


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"conditions": {"documents": 3}}'])
def test_what_is_no_report(text: str, tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(DataError, match=r"file.json is not a report of lexlip bench engine --json"):
        read_results([tmp_path / "file.json"])


def test_a_report_that_is_not_there() -> None:
    with pytest.raises(DataError, match="cannot read /no/file: No such file"):
        read_results(["/no/file"])


def test_the_exact_engine_stands_for_its_library(files: list[Path]) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    draw_costs(figure, read_results(files))
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert lines["lexlip"].get_ydata().tolist() == [1000 / 9_000] * 2
