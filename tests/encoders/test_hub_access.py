"""A hub that cannot be reached, which no test needs: the address is one where nobody answers."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lexlip.models.model_folder import PACKAGED

CONFIGS = Path(__file__).parents[1] / "configs"
Python = Callable[..., subprocess.CompletedProcess[str]]
SCENES = (
    "pretrain",
    CONFIGS / "mini-phase1.yaml",
    "data.train=[scenes:8:0]",
    "data.val=[scenes:8:9]",
    "optim.batch=4",
    "out=run",
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", PACKAGED.parent / "photos", "--index", "ix", "--model", "me/none"),
        pytest.param(
            (*SCENES, "model.image.weights=null", "model.text.name=me/none"), marks=pytest.mark.slow
        ),
        (*SCENES, "model.image.weights=pretrained", "model.text.name=null", "model.text.tokenizer=captions"),
    ],
    ids=["model", "text encoder", "image encoder"],
)
def test_a_hub_that_cannot_be_reached_is_asked_once(
    run_python: Python, tmp_path: Path, arguments: tuple[str | Path, ...]
) -> None:
    """Not again and again for minutes, as the hub's own library does."""
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
    done = run_python("-m", "lexlip", *arguments, **nowhere)
    assert done.returncode == 2
    assert "no folder has that name, and the model hub cannot be reached" in done.stderr
    assert "Retry" not in done.stderr
