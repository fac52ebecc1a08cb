from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.config import Config, ImageEncoderConfig
from lexlip.data import open_sources
from tests.conftest import write_photos
from tests.tiny import TINY
from tests.training.small_run import SMALL
from tools.studies import sparse_and_dense as tool

FROZEN = replace(
    SMALL,
    model=replace(TINY, image=ImageEncoderConfig(name="mobilenetv2_035", size=32, layers=1), head="fitted"),
    data=replace(SMALL.data, views=2, workers=0, sizes=()),
    optim=replace(SMALL.optim, lr_scale={"image_encoder.body": 0}, steps=2, micro_batch=None),
)


def test_views_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tool.views_of(FROZEN, tmp_path / "views.npy")
    source = open_sources(FROZEN.data.train)
    assert first.states.shape[:2] == (len(source.captioned()), 2)
    monkeypatch.setattr(tool, "encode_views", None)
    again = tool.views_of(FROZEN, tmp_path / "views.npy")
    np.testing.assert_array_equal(again.states, first.states)
    assert [path.name for path in tmp_path.iterdir()] == ["views.npy"]


def test_a_run_is_trained_and_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = write_photos(tmp_path / "photos", 6)
    views = tool.views_of(FROZEN, tmp_path / "views.npy")
    folder = tmp_path / "sparse"
    figures = tool.run(FROZEN, (3, 1e-3, 0.1), views, photos, folder)
    assert set(figures) == {"all", "top-32"}
    assert set(figures["all"]) == {"t2i", "i2t", "mean", "words@10"}
    place = folder / "seed-3-rate-0.001-temperature-0.1"
    used = (place / "config.yaml").read_text()
    assert "temperature: 0.1" in used
    assert "lr: 0.001" in used
    assert not (place / "checkpoints").exists()
    monkeypatch.setattr(tool, "train", None)
    assert tool.run(FROZEN, (3, 1e-3, 0.1), views, photos, folder) == figures
    assert (tmp_path / "sparse.jsonl").read_text().count("\n") == 1


def test_the_best_setting_of_each_kind_of_documents_is_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def run(config: Config, setting: tool.Setting, *_: object) -> tool.Figures:
        seed, rate, temperature = setting
        asked.append(setting)
        means = {"all": 10 + seed - abs(rate - 2e-4), "top-32": 20 + seed - abs(temperature - 0.1)}
        recalls = {f"R@{k}": float(k + seed) for k in (1, 5, 10)}
        return {name: {"t2i": recalls, "i2t": recalls, "mean": mean} for name, mean in means.items()}

    monkeypatch.setattr(tool, "run", run)
    tool.compare("sparse", FROZEN, None, Path(), Path())
    lines = capsys.readouterr().out.splitlines()
    assert len({*asked}) == 9 + 2 + 2
    assert lines[0].startswith("| sparse | all | 0.0002 | 0.03 | 3.0 ± 1.0 | 7.0 ± 1.0 | 12.0 ± 1.0 |")
    assert lines[1].startswith("| sparse | top-32 | 0.0002 | 0.1 |")


def test_the_systems_differ_in_their_objectives_alone(tmp_path: Path) -> None:
    sparse, anchors, dense = (
        tool.config_of(system, Path("photos"), (Path("text"), Path("image"))) for system in tool.SYSTEMS
    )
    assert (sparse.data, sparse.model, sparse.optim) == (anchors.data, anchors.model, anchors.optim)
    assert not sparse.objective.anchors
    assert anchors.objective.anchors
    assert sparse.data == dense.data
    assert replace(dense.model, kind="lexlip", pooling=None) == sparse.model
    assert replace(dense.optim, lr_scale={}) == replace(sparse.optim, lr_scale={})
    assert sparse.model.head == "fitted"


def test_missing_photos_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nowhere/flickr8k/val-0000\.tar does not exist; "):
        tool.main(tmp_path / "nowhere", tmp_path / "work", [])
    assert not list(tmp_path.iterdir())
