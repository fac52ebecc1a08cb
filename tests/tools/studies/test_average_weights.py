from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lexlip.models.lexlip import LexLIP
from tests.tiny import TINY, tiny_model
from tools.studies.average_weights import main


def test_the_mean_of_two_models(tmp_path: Path) -> None:
    models = [tiny_model(seed=0), tiny_model(seed=1)]
    for name, model in zip("ab", models, strict=True):
        model.save(tmp_path / name)
    main([str(tmp_path / "mean"), f"{tmp_path / 'a'}=3", f"{tmp_path / 'b'}=1"])
    mean = LexLIP.from_pretrained(tmp_path / "mean").state_dict()
    for name, value in models[0].state_dict().items():
        expected = 0.75 * value + 0.25 * models[1].state_dict()[name] if value.is_floating_point() else value
        assert torch.allclose(mean[name], expected, atol=1e-6), name


@pytest.mark.parametrize("parts", [[], ["a=1"], ["a=1", "b"], ["a=1", "b=none"], ["a=1", "b=0"]])
def test_bad_arguments(parts: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage: python"):
        main(["mean", *parts])


def test_models_of_another_kind(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "a")
    other = replace(TINY, image=replace(TINY.image, options={**TINY.image.options, "embed_dim": 32}))
    tiny_model(other).save(tmp_path / "b")
    with pytest.raises(SystemExit, match=r"Error: .*b is not the same kind of model as .*a"):
        main([str(tmp_path / "mean"), f"{tmp_path / 'a'}=1", f"{tmp_path / 'b'}=1"])
    with pytest.raises(SystemExit, match="Error: "):
        main([str(tmp_path / "mean"), f"{tmp_path / 'a'}=1", f"{tmp_path / 'none'}=1"])
