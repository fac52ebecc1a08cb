from pathlib import Path

import pytest

from lexlip.bench.tables.definitions import TABLES
from lexlip.bench.tables.models import measure_models, methods_of, validated_models
from lexlip.bench.tables.settings import TableSettings
from lexlip.data import Scenes
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import evaluate
from lexlip.models.load import load_model
from lexlip.search.open_engine import engine_for
from tests.training.run_folders import write_run

SCENES = Scenes(12, seed=0)
NO_WORDS = {"flops_image": 0, "flops_text": 0}
DENSE = {"model": {"kind": "dense"}, "objective": NO_WORDS}


@pytest.fixture
def run(tmp_path: Path, model_folder: Path) -> str:
    """A run of the first phase, with a validation."""
    objective = {"mlm": 1, "image_to_text": 1, "text_to_text": 1}
    return str(write_run(tmp_path / "run", {"objective": objective}, [20, 30], model_folder))


def test_methods_are_those_of_the_table(run: str, tmp_path: Path) -> None:
    assert methods_of(TABLES["1"], [run, "mini"]) == {run: None, "mini": None}
    assert methods_of(TABLES["3"], [run]) == {run: "LexLIP without phase 2"}
    of_vldeformer = methods_of(TABLES["vldeformer-5"], [run])[run]
    assert str(of_vldeformer).startswith("without composed negatives, ")
    be = write_run(tmp_path / "be", {"model": {"kind": "be"}, "objective": {"triplet": 1, **NO_WORDS}})
    with pytest.raises(ConfigError, match="a run's model is a be one"):
        methods_of(TABLES["3"], [str(be)])
    with pytest.raises(DataError, match="is neither a training run nor one of its checkpoints"):
        methods_of(TABLES["3"], ["mini"])


def test_rows_are_what_evaluate_says(run: str, model_folder: Path) -> None:
    settings = TableSettings(topks=(None, 4), workers=0)
    rows, notes = measure_models(TABLES["1"], [run, "bm25"], SCENES, "my photos", settings)
    assert [(row.model, row.documents) for row in rows] == [
        (run, "all"),
        (run, "top-4"),
        ("bm25", "captions"),
    ]
    model = load_model(model_folder)
    engine_of = engine_for(model)[1]
    for row, kept in zip(rows, (None, 4), strict=False):
        assert row.report == evaluate(model, SCENES, engine_of, kept, workers=0)
    assert rows[2].report == evaluate_bm25(SCENES)
    assert notes == [
        "Measured on my photos: 12 images, 60 captions, one pool, lucene and bm25 engines.",
        TABLES["1"].paper,
    ]


def test_rows_of_ablations_are_named_by_their_method(run: str) -> None:
    settings = TableSettings(workers=0, engine="exact")
    [row], notes = measure_models(TABLES["3"], [run], SCENES, "x", settings)
    assert row.method == "LexLIP without phase 2"
    assert notes[0] == "Measured on x: 12 images, 60 captions, one pool, exact engine."


def test_rows_of_the_runs_own_validations(run: str, tmp_path: Path) -> None:
    dense = str(write_run(tmp_path / "dense", DENSE, [5]))
    ce = {"model": {"kind": "ce"}, "objective": {"contrastive": 0, "matching": 1, **NO_WORDS}}
    pairs = str(write_run(tmp_path / "ce", ce, [7]))
    rows, notes = validated_models(TABLES["1"], [run, dense, pairs])
    assert [row.documents for row in rows] == ["all", "dense", "pairs"]
    assert [row.report and row.report.mean_recall for row in rows] == [30, 5, 7]  # the best of each
    assert notes[0] == (
        "Validation on scenes:400:1000000 (10 images, 50 captions), by brute force, at each run's best"
        " checkpoint."
    )


def test_validations_on_different_photos_are_told(run: str, tmp_path: Path) -> None:
    other = str(
        write_run(tmp_path / "other", {"data": {"val": [{"path": "coco.json", "split": "val"}]}}, [1])
    )
    _, notes = validated_models(TABLES["1"], [run, other])
    assert notes[0] == (
        "Validation by brute force, at each run's best checkpoint, but on different photos:"
        f" {run}: scenes:400:1000000 (10 images, 50 captions); {other}: coco.json (val) (10 images,"
        " 50 captions)."
    )


def test_what_is_missing(run: str, model_folder: Path) -> None:
    with pytest.raises(DataError, match="has no validation results"):
        validated_models(TABLES["1"], [str(model_folder)])
    with pytest.raises(ModelError, match="no model 'maxi'"):
        measure_models(TABLES["1"], [run, "maxi"], SCENES, "x", TableSettings())
