from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from benchmarks.corpus.synthetic import SHAPES, Shape
from benchmarks.corpus.vector_statistics import fit, main, measure, synthetic

SMALL = Shape(vocabulary=600, terms=(40, 10), query_terms=(20, 6), topics=20, candidates=300)


def test_fitting_gives_back_what_was_asked_for() -> None:
    found = fit(*synthetic(SMALL, 5_000, 1_000))
    assert 450 < found.vocabulary <= 600  # some are in no photo
    assert found.terms == pytest.approx((40, 10), rel=0.1)
    assert found.query_terms == pytest.approx((20, 6), rel=0.1)
    wider = fit(*synthetic(Shape(**{**vars(SMALL), "spread": 1.0}), 5_000, 1_000))
    assert wider.spread > found.spread + 0.15


def test_measures_on_vectors_that_are_small_enough_to_see() -> None:
    photos = csr_matrix([[0.6, 0.8, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]])
    found = measure(photos, csr_matrix([[1.0, 0, 0, 0]]), kept=2, terms=2, k=2)
    assert found["terms"] == 4 / 3
    assert found["terms in use"] == 3
    assert found["first weight"] == pytest.approx((0.8 + 1 + 1) / 3)
    assert found["last weight"] == pytest.approx(0.6 / 3)
    assert found["postings touched / N"] == pytest.approx(2 / 3)
    assert found["share with 1 terms"] == pytest.approx(2 / 3)
    assert found["share with 3 terms"] == 0
    assert found["cosine 1"] == 1
    assert found["cosine 2"] == pytest.approx(0.6)
    assert found["score 2 / bound"] == pytest.approx(0.6)
    assert found["block entries / postings"] == 3 / 4  # all three are one block
    assert found["blocks that reach score 2"] == 1


def test_the_fitted_shape_is_about_as_hard_as_the_real_vectors_were() -> None:
    """Figures of the packaged model's vectors, 28,549 photos; see Shape."""
    found = measure(*synthetic(SHAPES["mini"], 28_549, 300))
    real = {
        "postings touched / N": 1.36,
        "share with 3 terms": 0.198,
        "score 10 / bound": 0.41,
        "cosine 10": 0.559,
        "blocks that reach score 10": 0.423,
    }
    for name, value in real.items():
        assert found[name] == pytest.approx(value, rel=0.2), name


def test_both_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, captions = synthetic(SMALL, 500, 100)
    save_npz(tmp_path / "photos.npz", photos)
    save_npz(tmp_path / "captions.npz", captions)
    main(str(tmp_path / "photos.npz"), str(tmp_path / "captions.npz"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Shape(vocabulary=")
    table = [line.split() for line in lines if line.startswith("score 10 / bound")]
    assert len(table) == 2  # for 12 and for 50 terms
    for row in table:
        real, made = map(float, row[-2:])
        assert np.isclose(real, made, rtol=0.3)
