from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from lexlip.config import LOSSES, Config, ImageEncoderConfig, ObjectiveConfig
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


def study(tmp_path: Path, **configs: Config) -> tool.Study:
    """A study of systems on a few photos."""
    photos = write_photos(tmp_path / "photos", 6)
    return tool.Study(configs, tool.views_of(FROZEN, tmp_path / "views.npy"), photos, tmp_path / "work")


@pytest.mark.parametrize("name", ["sparse", "caption-gated"])
def test_a_run_is_trained_and_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = study(tmp_path, **{name: FROZEN})
    figures = here.run(name, (3, 1e-3, 0.1))
    assert set(figures) == {"all", "top-32"}
    assert set(figures["all"]) == {"t2i", "i2t", "mean", "words@10"}
    place = here.work / name / "seed-3-rate-0.001-temperature-0.1"
    used = (place / "config.yaml").read_text()
    assert "temperature: 0.1" in used
    assert "lr: 0.001" in used
    assert not (place / "checkpoints").exists()
    assert not (place / "model").exists()
    monkeypatch.setattr(tool, "train", None)
    assert here.run(name, (3, 1e-3, 0.1)) == figures
    assert (here.work / f"{name}.jsonl").read_text().count("\n") == 1


def test_words_are_made_of_the_best_dense_model_of_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vectors stay as they are in D2S, and change where words and vectors teach each other."""
    monkeypatch.setattr("lexlip.training.lexicon_fit.LEAST_CAPTIONS", 10)
    monkeypatch.setattr("lexlip.training.lexicon_fit.NEAREST", 4)
    monkeypatch.setattr("lexlip.training.lexicon_fit.balance_of", lambda *_: None)
    dense_objective = ObjectiveConfig(flops_image=0, flops_text=0)
    model = replace(FROZEN.model, kind="dense", pooling="mean")
    dense = replace(FROZEN, model=model, objective=dense_objective)
    words = replace(model, kind="lexlip", joint=16)
    of_dense = replace(FROZEN, init="as the study says", model=words)
    frozen = {"image_encoder": 0, "text_encoder": 0, "text_head.project": 0, "image_head.project": 0}
    configs = {
        "dense": dense,
        "d2s": replace(
            of_dense,
            objective=ObjectiveConfig(contrastive=0, dense_distillation=1, expansion_warmup=0.9),
            optim=replace(FROZEN.optim, lr_scale=frozen),
        ),
        "self-distilled": replace(
            of_dense,
            objective=ObjectiveConfig(contrastive=0, self_distillation=1),
            optim=replace(FROZEN.optim, lr_scale={"image_encoder": 0, "text_encoder": 0}),
        ),
    }
    for name in ("RATES", "TEMPERATURES"):
        monkeypatch.setattr(tool, name, getattr(tool, name)[:1])
    here = study(tmp_path, **configs)
    settings = 2, tool.RATES[0], tool.TEMPERATURES[0]
    teacher = here.trained("dense", settings)
    projections = {}
    for name in ("d2s", "self-distilled"):
        trained = here.trained(name, settings)
        assert (here.work / "words-of-dense" / "start-2").is_dir()
        weights = load_file(trained / "model.safetensors")
        projections[name] = weights["text_head.project.weight"]
        assert set(here.run(name, settings)) == {"all", "top-32"}
    assert len((here.work / "dense.jsonl").read_text().splitlines()) == 1
    own = load_file(teacher / "model.safetensors")["text_projection.weight"]
    np.testing.assert_array_equal(projections["d2s"], own)
    assert np.abs(projections["self-distilled"] - own).max() > 0


def test_the_best_setting_of_each_kind_of_documents_is_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def run(self: tool.Study, name: str, setting: tool.Setting) -> tool.Figures:
        seed, rate, temperature = setting
        asked.append(setting)
        means = {"all": 10 + seed - abs(rate - 2e-4), "top-32": 20 + seed - abs(temperature - 0.1)}
        recalls = {f"R@{k}": float(k + seed) for k in (1, 5, 10)}
        return {name: {"t2i": recalls, "i2t": recalls, "mean": mean} for name, mean in means.items()}

    monkeypatch.setattr(tool.Study, "run", run)
    tool.Study({"sparse": FROZEN}, None, Path(), Path()).compare("sparse")
    lines = capsys.readouterr().out.splitlines()
    assert len({*asked}) == 9 + 2 + 2
    assert lines[0].startswith("| sparse | all | 0.0002 | 0.03 | 3.0 ± 1.0 | 7.0 ± 1.0 | 12.0 ± 1.0 |")
    assert lines[1].startswith("| sparse | top-32 | 0.0002 | 0.1 |")


def test_the_systems_differ_in_their_objectives_alone() -> None:
    configs = {
        name: tool.config_of(name, Path("photos"), (Path("text"), Path("image"))) for name in tool.SYSTEMS
    }
    sparse, dense = configs["sparse"], configs["dense"]
    assert (sparse.data, sparse.model, sparse.optim) == (
        configs["anchors"].data,
        configs["anchors"].model,
        configs["anchors"].optim,
    )
    assert not sparse.objective.anchors
    assert configs["anchors"].objective.anchors
    assert replace(dense.model, kind="lexlip", pooling=None) == sparse.model
    for name, config in configs.items():
        assert config.data == sparse.data
        assert replace(config.model, kind="lexlip", pooling=None, joint=0) == sparse.model
        assert replace(config.optim, lr_scale={}) == replace(sparse.optim, lr_scale={})
        assert bool(config.model.joint) == tool.SYSTEMS[name].of_dense
    assert replace(configs["d2s"].model, kind="dense", joint=0) == dense.model
    assert sparse.model.head == "fitted"
    losses = {
        name: {loss for loss in LOSSES if getattr(config.objective, loss)} for name, config in configs.items()
    }
    assert losses["d2s"] == {"dense_distillation", "flops_image", "flops_text"}
    assert losses["self-distilled"] == {"self_distillation", "flops_image", "flops_text"}
    assert losses["caption-gated"] == {"anchor_contrastive", "caption_gated", "flops_image"}


def test_missing_photos_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nowhere/flickr8k/val-0000\.tar does not exist; "):
        tool.main(tmp_path / "nowhere", tmp_path / "work", [])
    assert not list(tmp_path.iterdir())
