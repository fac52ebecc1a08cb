import sys
from pathlib import Path

import pytest

from lexlip.bench.tables.response_plot import check_picture, draw_response
from lexlip.bench.tables.row import Row
from lexlip.errors import ConfigError, what_is_missing
from tests.bench.tables.some_table import ALONE, PAIRS, RERANKED


def test_a_picture_has_a_line_for_each_row_that_was_timed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    untimed = Row(model="untimed", documents="dense")
    draw_response([PAIRS, ALONE, RERANKED, untimed], tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "<svg" in text
    for label in ("ce (pairs)", "be (dense)", "be (dense), 20 reranked by ce"):
        assert f"<!-- {label} -->" in text
    assert "untimed" not in text


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are optional: pip install matplotlib")
    check_picture(tmp_path / "plot.PNG")
    with pytest.raises(ConfigError, match=r"plot.doc: name it \."):
        check_picture(tmp_path / "plot.doc")
    with pytest.raises(ConfigError, match="its folder does not exist"):
        check_picture(tmp_path / "nowhere" / "plot.svg")
    with pytest.raises(ConfigError, match="cannot write the picture to"):
        draw_response([ALONE], tmp_path / "nowhere" / "plot.svg")


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError) as error:
        check_picture(tmp_path / "plot.svg")
    assert what_is_missing(error.value) == "this needs matplotlib: pip install 'lexlip[draw]'"
