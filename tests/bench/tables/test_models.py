from pathlib import Path
from typing import Any

import pytest

from lexlip.bench.tables import TABLES
from lexlip.bench.tables.first_stages import TableSettings
from lexlip.bench.tables.models import (
    difference,
    layers,
    left_out,
    measure_models,
    methods_of,
    objectives,
    towers,
    trained_on,
    training_photos,
    validated_models,
)
from lexlip.data import Scenes
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import evaluate
from lexlip.models.load import load_model
from lexlip.search.engines.exact import engine_for
from lexlip.training.run_folder import Lineage, lineage
from tests.tiny import tiny_model, tiny_stage
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


PHASE_1 = {"mlm": 1.0, "image_to_text": 1.0, "text_to_text": 1.0}
PHASE_2 = {"queue": 64}


def label(tmp_path: Path, first: dict[str, Any] | None, second: dict[str, Any] | None, **top: Any) -> str:
    """How a run of phase 2 that follows one of phase 1 is called, or either alone."""
    runs = [objective for objective in (first, second) if objective is not None]
    init = top.pop("init", None)
    for number, objective in enumerate(runs):
        run = write_run(tmp_path / str(number), {"init": init, "objective": objective, **top})
        init = str(run)
    return difference(lineage(run))


Keys = dict[str, Any]
FROM_MINI = "LexLIP from mini: phase 2, image FLOPS, text FLOPS; with anchors"
DENSE_1, DENSE_2 = {**PHASE_1, **NO_WORDS}, {**PHASE_2, **NO_WORDS}


@pytest.mark.parametrize(
    ("first", "second", "top", "says"),
    [
        (PHASE_1, PHASE_2, {}, "LexLIP"),
        (PHASE_1, None, {}, "LexLIP without phase 2"),
        ({**PHASE_1, "mlm": 0}, PHASE_2, {}, "LexLIP without L_self"),
        ({**PHASE_1, "image_to_text": 0}, PHASE_2, {}, "LexLIP without L_i2t"),
        ({**PHASE_1, "text_to_text": 0}, PHASE_2, {}, "LexLIP without L_t2t"),
        ({**PHASE_1, "contrastive": 0}, PHASE_2, {}, "LexLIP without L_baco"),
        (None, PHASE_2, {}, "LexLIP without L_self, L_i2t, L_t2t, L_baco"),
        (None, {}, {}, "LexLIP without L_self, L_i2t, L_t2t, phase 2"),
        (PHASE_1, {**PHASE_2, "contrastive": 0}, {}, "LexLIP without phase 2"),
        ({**PHASE_1, "flops_image": 0}, {**PHASE_2, "flops_image": 0}, {}, "LexLIP without image FLOPS"),
        ({**PHASE_1, "flops_text": 0}, PHASE_2, {}, "LexLIP"),  # phase 2 has it
        ({**PHASE_1, "anchor_words": 0.3}, PHASE_2, {}, "LexLIP; with anchors"),
        ({**PHASE_1, "caption_gated": 0.1}, PHASE_2, {}, "LexLIP; with caption gates"),
        (PHASE_1, {**PHASE_2, "topk": [32, 8]}, {}, "LexLIP; with top-K losses"),
        (PHASE_1, {**PHASE_2, "topk": [8], "topk_contrastive": 0}, {}, "LexLIP"),
        (PHASE_1, PHASE_2, {"preset": "faithful"}, "LexLIP; with faithful preset"),
        (PHASE_1, PHASE_2, {"preset": "paper"}, "LexLIP; with paper preset"),
        (DENSE_1, DENSE_2, {"model": {"kind": "dense"}}, "Dense"),  # which has no FLOPS
        (DENSE_1, None, {"model": {"kind": "dense"}}, "Dense without phase 2"),
        (None, {**PHASE_2, "anchor_align": 0.5}, {"init": "mini"}, FROM_MINI),
    ],
)
def test_what_is_off_and_what_is_added(
    tmp_path: Path,
    first: dict[str, Any] | None,
    second: dict[str, Any] | None,
    top: dict[str, Any],
    says: str,
) -> None:
    assert label(tmp_path, first, second, **top) == says


FULL = {
    "model": {"kind": "vldeformer", "image": {"weights": "lite0.safetensors"}, "text": {"name": "MINILM"}},
    "objective": {"composed_negatives": True, **NO_WORDS},
}

CE = {
    "model": {**FULL["model"], "kind": "ce"},
    "objective": {"contrastive": 0, "matching": 1, **NO_WORDS},
}


@pytest.mark.parametrize(
    ("model", "objective", "says"),
    [
        ({}, {}, []),
        ({}, {"contrastive": 0, "triplet": 1}, ["contrastive loss"]),
        ({}, {"composed_negatives": False}, ["composed negatives"]),
        ({"pooling": "cls"}, {}, ["mean pooling"]),
        ({"kind": "dense"}, {"composed_negatives": False}, ["composed negatives", "mean pooling"]),
        ({"kind": "dense", "pooling": "mean"}, {"composed_negatives": False}, ["composed negatives"]),
        ({"kind": "lightningdot"}, {"composed_negatives": False}, ["composed negatives", "mean pooling"]),
    ],
)
def test_what_a_run_leaves_out_of_vldeformer(
    tmp_path: Path, model: dict[str, Any], objective: dict[str, Any], says: list[str]
) -> None:
    before = write_run(tmp_path / "ce", CE)
    changed = {
        "model": {**FULL["model"], **model},
        "objective": {**FULL["objective"], **objective},
        "init": str(before),
    }
    assert left_out(lineage(write_run(tmp_path / "run", changed))) == says


def test_a_start_without_pre_training_or_decomposing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {**FULL, "model": {"kind": "vldeformer"}})
    assert left_out(lineage(run)) == [
        *("a pre-trained text encoder", "a pre-trained image encoder", "a trained cross-encoder"),
    ]
    again = write_run(tmp_path / "again", {**FULL, "model": {"kind": "vldeformer"}, "init": str(run)})
    assert "a trained cross-encoder" in left_out(lineage(again))


def test_a_cross_encoder_is_what_was_not_decomposed(tmp_path: Path) -> None:
    """A run with triplets is one without the contrastive loss instead."""
    ce = write_run(tmp_path / "ce", CE)
    assert left_out(lineage(ce)) == ["decomposing"]
    scratch = write_run(tmp_path / "scratch", {**CE, "model": {"kind": "ce"}})
    assert left_out(lineage(scratch)) == [
        *("decomposing", "a pre-trained text encoder", "a pre-trained image encoder"),
    ]
    triplets = {**FULL["objective"], "contrastive": 0, "triplet": 1}
    run = write_run(tmp_path / "run", {**FULL, "objective": triplets, "init": str(ce)})
    assert left_out(lineage(run)) == ["contrastive loss"]


def test_a_start_from_a_model_without_its_run(tmp_path: Path) -> None:
    tiny_stage("ce").save(tmp_path / "models" / "ce")
    origin = str(tmp_path / "models" / "ce")
    run = write_run(tmp_path / "run", {**FULL, "model": {"kind": "vldeformer"}, "init": origin})
    assert left_out(lineage(run)) == []
    gone = write_run(tmp_path / "gone", {**FULL, "init": "nowhere"})
    assert left_out(lineage(gone)) == ["a trained cross-encoder"]


DOT = {"kind": "lightningdot"}


def line_of(folder: Path, *phases: dict[str, Any], init: str | None = None) -> Lineage:
    """Runs of these objectives, one from the other."""
    for number, objective in enumerate(phases):
        sections = {"model": DOT, "objective": {**objective, **NO_WORDS}, "init": init}
        init = str(write_run(folder / str(number), sections))
    return lineage(Path(str(init)))


ALL = {"vmlm": 1, "smrm": 1}


@pytest.mark.parametrize(
    ("phases", "label"),
    [
        ([{}], "CMR"),
        ([ALL], "CMR + VMLM + SMRM"),
        ([{"vmlm": 1}, {}], "CMR + VMLM, then CMR"),
        ([{"contrastive": 0, "smrm": 1}, {"smrm": 0.5}], "SMRM, then CMR + SMRM"),
        ([{**ALL, "fused": False}], "CMR + VMLM unfused + SMRM unfused"),
        ([{**ALL, "smrm_loss": "kl"}], "CMR + VMLM + SMRM-KL"),
        ([{**ALL, "fused": False, "smrm_loss": "kl"}], "CMR + VMLM unfused + SMRM-KL unfused"),
    ],
)
def test_objectives_phase_by_phase(tmp_path: Path, phases: list[dict[str, Any]], label: str) -> None:
    assert objectives(line_of(tmp_path, *phases)) == label


def test_objectives_of_a_start_without_its_run_and_of_other_kinds(tmp_path: Path) -> None:
    assert objectives(line_of(tmp_path / "a", {}, init="mini")) == "from mini, then CMR"
    run = write_run(tmp_path / "b", {})
    with pytest.raises(ConfigError, match="a run's model is a lexlip one"):
        objectives(lineage(run))


def test_towers_are_those_of_the_first_phase(tmp_path: Path) -> None:
    image = {"name": "tf_efficientnet_lite0", "weights": "lite0.safetensors", "layers": 2}
    first = write_run(tmp_path / "a", {"model": {"image": image, "text": {"name": "MINILM"}}})
    second = write_run(tmp_path / "b", {"init": str(first)})
    label = "image tf_efficientnet_lite0, pre-trained, and 2 layers; text MINILM"
    assert towers(lineage(second)) == label
    other = write_run(tmp_path / "c", {"init": "mini"})
    assert towers(lineage(other)).endswith("random; text random BERT; from mini")


def test_training_photos_are_counted(tmp_path: Path) -> None:
    train = [{"path": "scenes:1500:0"}, {"path": "scenes:20:1"}]
    for name, data, label in (
        ("a", {"train": train}, "1,520 training photos"),
        ("b", {"train": [{"path": "nowhere.tar"}]}, "an unknown number of training photos"),
        ("c", {"train": train, "sample": 1000}, "1,000 training photos"),
        ("d", {"train": train, "sample": 2000}, "1,520 training photos"),
        ("e", {"train": train, "epoch": "pairs"}, "7,600 training pairs"),
        ("f", {"train": train, "epoch": "pairs", "sample": 50}, "50 training pairs"),
        ("g", {"train": [{"path": "nowhere.tar"}], "sample": 1000}, "1,000 training photos"),
    ):
        assert training_photos(lineage(write_run(tmp_path / name, {"data": data}))) == label


def test_what_a_model_was_trained_on(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", {"data": {"train": [{"path": "one.tar"}, {"path": "two.tar"}]}})
    second = {"data": {"train": [{"path": "two.tar"}, {"path": "three.tar"}]}, "init": str(first)}
    assert trained_on(str(write_run(tmp_path / "b", second))) == "one.tar, two.tar, three.tar"
    third = write_run(tmp_path / "c", {"data": {"train": [{"path": "one.tar"}]}, "init": "mini"})
    assert trained_on(str(third)) == "mini, one.tar"
    assert trained_on("mini") is None


def test_layers_of_the_text_encoder(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "words")
    tiny_stage("be").save(tmp_path / "be")
    assert [layers(str(tmp_path / name)) for name in ("words", "be")] == ["1 layers"] * 2
    assert (layers("mini"), layers("bm25")) == ("4 layers", None)
    with pytest.raises(ModelError, match="no model 'maxi'"):
        layers("maxi")
