"""A hub that cannot be reached, which no test needs: the address is one where nobody answers."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lexlip.models.model_folder import PACKAGED

CONFIGS = Path(__file__).parents[2] / "configs"
Python = Callable[..., subprocess.CompletedProcess[str]]
SCENES = (
    "pretrain",
    CONFIGS / "mini-phase1.yaml",
    "data.train=[scenes:8:0]",
    "data.val=[scenes:8:9]",
    "optim.batch=4",
    "out=run",
)


ASK = """
import json, sys
from click.testing import CliRunner
from lexlip.cli import main
done = [CliRunner().invoke(main, arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stderr) for one in done]))
"""


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_asked_once(run_python: Python, tmp_path: Path) -> None:
    """Not again and again for minutes, as the hub's own library does: for a model, and for its encoders."""
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
    commands = (
        ("index", PACKAGED.parent / "photos", "--index", "ix", "--model", "me/none"),
        (*SCENES, "model.image.weights=null", "model.text.name=me/none"),
        (*SCENES, "model.image.weights=pretrained", "model.text.name=null", "model.text.tokenizer=captions"),
    )
    named = json.dumps([list(map(str, command)) for command in commands])
    done = run_python("-c", ASK, named, **nowhere)
    for code, said in json.loads(done.stdout.splitlines()[-1]):
        assert code == 2
        assert "no folder has that name, and the model hub cannot be reached" in said
        assert "Retry" not in said
    assert "Retry" not in done.stderr
