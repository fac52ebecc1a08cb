import subprocess
import sys
from pathlib import Path

import pytest
from package_checkpoint import package

from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_checksums import check_model
from tests.conftest import ROOT
from tests.tiny import CAPTIONS, tiny_model

SCRIPT = ROOT / "tools" / "package_checkpoint.py"


def test_a_package_is_a_small_model_with_the_name_of_its_folder(tmp_path: Path) -> None:
    model = tiny_model()
    model.save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "optimizer.safetensors").write_bytes(b"")
    package(tmp_path / "checkpoint", tmp_path / "tiny")
    packaged = LexLIP.from_pretrained(tmp_path / "tiny")
    assert packaged.name == "tiny"
    ours, theirs = (each.encode_text(CAPTIONS).toarray() for each in (packaged, model))
    assert abs(ours - theirs).max() < 0.2
    assert {path.suffix for path in (tmp_path / "tiny").iterdir()} <= {".json", ".md", ".txt", ".safetensors"}
    assert not (tmp_path / "tiny" / "optimizer.safetensors").exists()


def test_a_package_with_a_bank(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "checkpoint")
    package(tmp_path / "checkpoint", tmp_path / "tiny", ["scenes:60:1", "scenes:60:7"])
    assert check_model(tmp_path / "tiny") == []
    balance = LexLIP.from_pretrained(tmp_path / "tiny").balance
    assert balance is not None
    assert balance.photos.queries.shape[0] == 60  # a caption of the half that is no photo
    assert balance.captions.queries.shape[0] == 60
    with pytest.raises(DataError, match="a bank needs 16 photos and as many captions"):
        package(tmp_path / "checkpoint", tmp_path / "tiny", ["scenes:9:1"])


def test_what_is_no_model_is_refused_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, tmp_path / "nothing", tmp_path / "tiny"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("no model ")
    assert done.stderr.count("\n") == 1
