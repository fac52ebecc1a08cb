from pathlib import Path
from typing import Any

import pytest

from lexlip.bench.tables.ablations import difference, left_out
from lexlip.errors import ConfigError
from lexlip.training.run_folder import lineage
from tests.tiny import tiny_stage
from tests.training.run_folders import write_run

PHASE_1 = {"mlm": 1.0, "image_to_text": 1.0, "text_to_text": 1.0}
PHASE_2 = {"queue": 64}


def label(tmp_path: Path, first: dict[str, Any] | None, second: dict[str, Any] | None, **top: Any) -> str:
    """How a run of phase 2 that follows one of phase 1 is called, or either alone."""
    runs = [objective for objective in (first, second) if objective is not None]
    init = top.pop("init", None)
    for number, objective in enumerate(runs):
        run = write_run(tmp_path / str(number), {"init": init, "objective": objective, **top})
        init = str(run)
    return str(difference(lineage(run)))


def test_the_full_method(tmp_path: Path) -> None:
    assert label(tmp_path, PHASE_1, PHASE_2) == "LexLIP"


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (PHASE_1, None, "LexLIP without phase 2"),
        ({**PHASE_1, "mlm": 0}, PHASE_2, "LexLIP without L_self"),
        ({**PHASE_1, "image_to_text": 0}, PHASE_2, "LexLIP without L_i2t"),
        ({**PHASE_1, "text_to_text": 0}, PHASE_2, "LexLIP without L_t2t"),
        ({**PHASE_1, "contrastive": 0}, PHASE_2, "LexLIP without L_baco"),
        (None, PHASE_2, "LexLIP without L_self, L_i2t, L_t2t, L_baco"),
        (None, {}, "LexLIP without L_self, L_i2t, L_t2t, phase 2"),
        (PHASE_1, {**PHASE_2, "contrastive": 0}, "LexLIP without phase 2"),
        ({**PHASE_1, "flops_image": 0}, {**PHASE_2, "flops_image": 0}, "LexLIP without image FLOPS"),
        ({**PHASE_1, "flops_text": 0}, PHASE_2, "LexLIP"),  # phase 2 has it
        ({**PHASE_1, "anchor_words": 0.3}, PHASE_2, "LexLIP; with anchors"),
        (PHASE_1, {**PHASE_2, "topk": [32, 8]}, "LexLIP; with top-K losses"),
        (PHASE_1, {**PHASE_2, "topk": [8], "topk_contrastive": 0}, "LexLIP"),
    ],
)
def test_what_is_off_and_what_is_added(
    tmp_path: Path, first: dict[str, Any] | None, second: dict[str, Any] | None, says: str
) -> None:
    assert label(tmp_path, first, second) == says


def test_dense_vectors_have_no_flops(tmp_path: Path) -> None:
    off = {"flops_image": 0, "flops_text": 0}
    model = {"kind": "dense"}
    assert label(tmp_path / "a", {**PHASE_1, **off}, {**PHASE_2, **off}, model=model) == "Dense"
    assert label(tmp_path / "b", {**PHASE_1, **off}, None, model=model) == "Dense without phase 2"


def test_the_preset(tmp_path: Path) -> None:
    assert label(tmp_path, PHASE_1, PHASE_2, preset="faithful") == "LexLIP; with faithful preset"


def test_what_came_before_may_be_unknown(tmp_path: Path) -> None:
    says = label(tmp_path, None, {**PHASE_2, "anchor_align": 0.5}, init="mini")
    assert says == "LexLIP from mini: phase 2, image FLOPS, text FLOPS; with anchors"


FULL = {
    "model": {"kind": "vldeformer", "image": {"weights": "lite0.safetensors"}, "text": {"name": "MINILM"}},
    "objective": {"composed_negatives": True, "flops_image": 0, "flops_text": 0},
}
CE = {
    "model": {**FULL["model"], "kind": "ce"},
    "objective": {"contrastive": 0, "matching": 1, "flops_image": 0, "flops_text": 0},
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
        "a pre-trained text encoder",
        "a pre-trained image encoder",
        "a trained cross-encoder",
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


def test_other_kinds_have_no_row_in_table_3(tmp_path: Path) -> None:
    losses = {"triplet": 1.0, "flops_image": 0, "flops_text": 0}
    with pytest.raises(ConfigError, match="a run's model is a be one"):
        label(tmp_path, losses, None, model={"kind": "be"})
