from pathlib import Path

import numpy as np
import pytest

from lexlip.search.stages.honest_end import end_of
from tests.tools.studies.test_cut_off_fit import fitted, made, observation
from tools.studies.cut_off_fit import LOSS, kept
from tools.studies.cut_off_report import CONSTANTS, draw, methods, shown, silent, table, threshold_of


def test_silent_and_shown() -> None:
    seen = [observation(100, "letters", 0.5, 0, []), observation(100, "letters", 0.2, 0, [])]
    assert silent(seen, [0.5, 0.3]) == 0.5
    np.testing.assert_array_equal(shown(seen, [0.5, 0.3]), [1, 0])


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_threshold_loses_what_it_may(name: str) -> None:
    observations = made()
    end = CONSTANTS[name]
    threshold = threshold_of(observations, end)
    captions = [seen for seen in observations if seen.kind == "caption"]
    assert kept(captions, [end(seen, threshold) for seen in captions]) == pytest.approx(1 - LOSS, abs=0.01)


def test_the_fitted_end_is_the_one_that_searches_use() -> None:
    observations, calibration = made(), fitted()
    end = methods(calibration)["fitted"]
    assert [end(seen, 0.0) for seen in observations] == [
        end_of(seen.signs, calibration) for seen in observations
    ]


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    observations, calibration = made(), fitted()
    lines = table(observations, observations, calibration).splitlines()
    assert [line for line in lines if line and line[0] != "|"] == [
        *("fitted on", "held out", "methods, held out"),
    ]
    (row,) = [line for line in lines if line.startswith("| constant score")]
    assert "/ 0.0 /" not in row
    assert sum(line.startswith("| here | 100 |") for line in lines) == 2
    draw(observations, calibration, tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").read_text().count("fitted") >= 1
