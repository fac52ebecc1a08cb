from pathlib import Path
from typing import Any

import pytest

from lexlip.bench.tables.run_labels import layers, objectives, towers, trained_on, training_photos
from lexlip.errors import ConfigError, ModelError
from lexlip.training.run_folder import Lineage, lineage
from tests.tiny import tiny_model, tiny_stage
from tests.training.run_folders import write_run

NO_WORDS = {"flops_image": 0, "flops_text": 0}
DOT = {"kind": "lightningdot"}


def line_of(folder: Path, *phases: dict[str, Any], init: str | None = None) -> Lineage:
    """Runs of these objectives, one from the other."""
    for number, objective in enumerate(phases):
        sections = {"model": DOT, "objective": {**objective, **NO_WORDS}, "init": init}
        init = str(write_run(folder / str(number), sections))
    return lineage(Path(str(init)))


@pytest.mark.parametrize(
    ("phases", "label"),
    [
        ([{}], "CMR"),
        ([{"vmlm": 1, "smrm": 1}], "CMR + VMLM + SMRM"),
        ([{"vmlm": 1}, {}], "CMR + VMLM, then CMR"),
        ([{"contrastive": 0, "smrm": 1}, {"smrm": 0.5}], "SMRM, then CMR + SMRM"),
    ],
)
def test_objectives_phase_by_phase(tmp_path: Path, phases: list[dict[str, Any]], label: str) -> None:
    assert objectives(line_of(tmp_path, *phases)) == label


@pytest.mark.parametrize(
    ("keys", "label"),
    [
        ({}, "CMR + VMLM + SMRM"),
        ({"fused": False}, "CMR + VMLM unfused + SMRM unfused"),
        ({"smrm_loss": "kl"}, "CMR + VMLM + SMRM-KL"),
        ({"fused": False, "smrm_loss": "kl"}, "CMR + VMLM unfused + SMRM-KL unfused"),
    ],
)
def test_what_is_fused_and_compared(tmp_path: Path, keys: dict[str, Any], label: str) -> None:
    assert objectives(line_of(tmp_path, {"vmlm": 1, "smrm": 1, **keys})) == label


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
    run = write_run(tmp_path / "a", {"data": {"train": train}})
    assert training_photos(lineage(run)) == "1,520 training photos"
    gone = write_run(tmp_path / "b", {"data": {"train": [{"path": "nowhere.tar"}]}})
    assert training_photos(lineage(gone)) == "an unknown number of training photos"
    for name, data, label in (
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
