import json
import shutil
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.models import model_folder as folder
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import model_folder
from tests.tiny import tiny_model
from tests.training.run_folders import write_run


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tiny_model().save(tmp_path / "saved")
    return tmp_path / "saved"


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), r"is damaged: .*No such file"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\0" * 100), "is damaged"),
        (lambda f: (f / "vocabulary.txt").unlink(), r"is damaged: .*vocabulary\.txt"),
        (lambda f: (f / "vocabulary.txt").write_text("dog\n"), "is damaged: .*size mismatch"),
        (lambda f: (f / "vocabulary.txt").write_text("zebra\n"), "'zebra' of the vocabulary cannot be made"),
        (lambda f: (f / "vocabulary.txt").write_bytes(b"\xff\xfe"), "is damaged"),
        (lambda f: (f / "config.json").write_text("{"), "is damaged"),
        (lambda f: (f / "config.json").write_text("[]"), "is damaged"),
        (lambda f: (f / "config.json").write_text("{}"), "is damaged: .*format"),
        (lambda f: edit(f / "config.json", format=99), "has format 99; this version reads 1"),
        (lambda f: edit(f / "config.json", model={"imge": {}}), "unknown config key model.imge"),
        (
            lambda f: edit(f / "config.json", text_architecture={"model_type": "no such"}),
            "cannot make the text",
        ),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "cannot read the tokenizer"),
        (lambda f: (f / "tokenizer.json").unlink(), "cannot read the tokenizer"),
    ],
)
def test_damaged_folders(saved: Path, damage, message: str) -> None:
    damage(saved)
    with pytest.raises(ModelError, match=message) as caught:
        LexLIP.from_pretrained(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value) or "vocabulary" in str(caught.value) or "text" in str(caught.value)


def test_missing_models(tmp_path: Path) -> None:
    for name in (tmp_path, tmp_path / "nothing", "nothing"):
        for load in (LexLIP.from_pretrained, load_model):
            with pytest.raises(
                ModelError, match=r"neither a folder with a config\.json nor a packaged model"
            ):
                load(name)


def test_packaged_models_by_name(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(saved, tmp_path / "weights" / "small")
    monkeypatch.setattr("lexlip.models.model_folder.PACKAGED", tmp_path / "weights")
    monkeypatch.chdir(tmp_path)
    assert model_folder("small") == tmp_path / "weights" / "small"
    with pytest.raises(ModelError, match=r"packaged model \(small\)$"):
        model_folder("large")


def test_a_run_means_its_best_checkpoint(tmp_path: Path, model_folder: Path) -> None:
    run = write_run(tmp_path / "run", {}, [1], model_folder)
    assert folder.model_folder(run) == run / "best"
    assert folder.model_folder(run / "best") == run / "best"
    assert folder.model_folder(model_folder) == model_folder
    best = (run / "best").resolve()
    assert folder.lasting_name(str(run)) == folder.lasting_name(str(run / "best")) == str(best)
    with pytest.raises(ModelError, match="no model 'nothing'"):
        folder.model_folder("nothing")
