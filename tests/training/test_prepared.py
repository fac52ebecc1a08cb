from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from lexlip.config import SourceConfig
from lexlip.data import Scenes
from lexlip.errors import ConfigError, DataError
from lexlip.training import prepared
from lexlip.training.augmentation import encode_without_torch
from lexlip.training.loop import prepare, pretrain
from lexlip.training.teacher import FILE, Teacher
from tests.tiny import tiny_model
from tests.training.small_run import WITH_DECODERS, with_data
from tests.training.test_loop import check_same

CONFIG = replace(
    WITH_DECODERS,
    model=replace(WITH_DECODERS.model, head="fitted", companions=2),
    optim=replace(WITH_DECODERS.optim, steps=2),
)


def test_a_prepared_run_is_the_run_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_model(seed=3).save(tmp_path / "teacher")
    objective = replace(CONFIG.objective, distillation=1.0)
    config = replace(CONFIG, teacher=str(tmp_path / "teacher"), objective=objective)
    whole = pretrain(replace(config, out=str(tmp_path / "whole")))
    config = replace(config, out=str(tmp_path / "run"))
    run = prepare(config)
    assert (run / FILE).is_file()
    assert not (run / "last").exists()
    monkeypatch.setattr("lexlip.training.initialisation.fit_text_head", lambda *_: pytest.fail("fitted"))
    monkeypatch.setattr(Teacher, "encoding", lambda *_: pytest.fail("encoded"))
    check_same(pretrain(config), whole)
    assert f"the run starts from {run / 'prepared'}" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="holds a run already"):
        prepare(config)


@pytest.mark.parametrize("changed", ["seed", "captions", "damaged", "unreadable"])
def test_what_belongs_to_another_run_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    config = replace(CONFIG, out=str(tmp_path / "run"), optim=replace(CONFIG.optim, steps=1))
    folder = prepare(config) / prepared.FOLDER
    if changed == "seed":
        config = replace(config, seed=6)
    elif changed == "captions":
        config = with_data(config, train=(SourceConfig("scenes:25:0"),))
    else:
        file = folder / ("model.safetensors" if changed == "damaged" else prepared.FILE)
        file.write_bytes(file.read_bytes()[:-9])
    pretrain(config)
    why = "it was made from another config" if changed in ("seed", "captions") else "it cannot be read"
    assert f"{folder} is not used: {why}" in capsys.readouterr().err


def test_weights_that_changed_are_noticed(tmp_path: Path) -> None:
    weights = tmp_path / "image.safetensors"
    image = replace(CONFIG.model.image, weights=str(weights))
    config = replace(CONFIG, model=replace(CONFIG.model, image=image))
    weights.write_bytes(b"first")
    first = prepared._made_from(config, Scenes(3, seed=0))
    assert prepared._made_from(config, Scenes(3, seed=0)) == first
    weights.write_bytes(b"other")
    assert prepared._made_from(config, Scenes(3, seed=0)) != first


def test_runs_that_share_make_views_heads_and_a_teacher_s_vectors_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_model(seed=3).save(tmp_path / "teacher")
    config = with_data(
        replace(
            CONFIG,
            teacher=str(tmp_path / "teacher"),
            objective=replace(CONFIG.objective, distillation=1.0),
            optim=replace(CONFIG.optim, lr_scale={"image_encoder.body": 0.0}),
        ),
        views=2,
    )
    alone = pretrain(replace(config, out=str(tmp_path / "alone")))
    shared = replace(config, prepared=str(tmp_path / "shared"))
    first = pretrain(replace(shared, out=str(tmp_path / "first")))
    assert not [name for name in ("prepared", FILE) if (first / name).exists()]
    monkeypatch.setattr("lexlip.training.initialisation.fit_text_head", lambda *_: pytest.fail("fitted"))
    monkeypatch.setattr(Teacher, "encoding", lambda *_: pytest.fail("encoded"))
    monkeypatch.setattr(prepared, "encode_views", lambda *_: pytest.fail("views were encoded"))
    without_torch = Mock(wraps=encode_without_torch)  # as photos to validate on are encoded, too
    monkeypatch.setattr(prepared, "encode_without_torch", without_torch)
    capsys.readouterr()
    second = pretrain(replace(shared, out=str(tmp_path / "second"), name="second"))
    without_torch.assert_called_once()
    said = capsys.readouterr().err
    for what in ("views", "model", "teacher"):
        [folder] = (tmp_path / "shared").glob(f"{what}-*")
        assert (str(folder) in said) == (what != "teacher")
    for run in (first, second):
        check_same(run, alone)
    for changed in ({"crop": 0.7}, {"views": 3}, {"train": (SourceConfig("scenes:25:0"),)}):
        other = replace(with_data(shared, **changed), out=str(tmp_path / "other"))
        with pytest.raises(pytest.fail.Exception):
            pretrain(other)


@pytest.mark.parametrize("body", [0.0, 0.5])
def test_views_of_a_body_that_was_trained_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: float
) -> None:
    """A run that starts from another's weights shares its views only if the body is the same."""
    scale = {"image_encoder.body": body}
    config = replace(CONFIG, prepared=str(tmp_path / "shared"), optim=replace(CONFIG.optim, lr_scale=scale))
    before = pretrain(replace(config, out=str(tmp_path / "before")))
    frozen = with_data(
        replace(config, optim=replace(config.optim, lr_scale={"image_encoder.body": 0.0})), views=2
    )
    pretrain(replace(frozen, out=str(tmp_path / "frozen")))
    monkeypatch.setattr(prepared, "encode_views", lambda *_: pytest.fail("views were encoded"))
    after = replace(frozen, init=str(before / "last"), out=str(tmp_path / "after"))
    if body:
        with pytest.raises(pytest.fail.Exception):
            pretrain(after)
    else:
        pretrain(after)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DataError, match=r"taken/model-\w+: Not a directory; when that is mended, "):
        pretrain(replace(CONFIG, prepared=str(tmp_path / "taken"), out=str(tmp_path / "run")))
