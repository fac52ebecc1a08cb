import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.models import model_folder as folder
from lexlip.models.lexlip import LexLIP
from lexlip.models.load import load_model
from lexlip.models.model_folder import (
    CHECKSUMS,
    PACKAGED,
    check_model,
    is_packaged,
    model_folder,
    sha256,
    write_checksums,
)
from tests.flipped import files_of, flipped
from tests.tiny import tiny_dense, tiny_model
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


def test_which_names_are_of_packaged_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_packaged("mini")
    assert is_packaged(str(PACKAGED / "mini"))
    assert not is_packaged("maxi")
    assert not is_packaged("../weights/mini")
    tiny_model().save(tmp_path / "mini")
    assert not is_packaged("mini")
    assert not is_packaged(str(tmp_path / "mini"))


def test_a_run_means_its_best_checkpoint(tmp_path: Path, model_folder: Path) -> None:
    run = write_run(tmp_path / "run", {}, [1], model_folder)
    assert folder.model_folder(run) == run / "best"
    assert folder.model_folder(run / "best") == run / "best"
    assert folder.model_folder(model_folder) == model_folder
    best = (run / "best").resolve()
    assert folder.lasting_name(str(run)) == folder.lasting_name(str(run / "best")) == str(best)
    with pytest.raises(ModelError, match="no model 'nothing'"):
        folder.model_folder("nothing")


@pytest.fixture
def model(model_folder: Path, tmp_path: Path) -> Path:
    """A model that a test may change."""
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


def test_a_saved_model_is_whole(model: Path, tmp_path: Path) -> None:
    assert check_model(model) == []
    tiny_dense().save(tmp_path / "dense")
    assert check_model(tmp_path / "dense") == []
    assert check_model("bm25") == []


def test_the_packaged_models_are_whole() -> None:
    for config in PACKAGED.glob("*/config.json"):
        assert check_model(config.parent) == []


def test_every_flipped_bit_is_found(model: Path) -> None:
    (model / "README.md").unlink()  # its owner edits it
    for file in files_of(model):
        for share in (0.0, 0.5, 0.99):
            with flipped(file, share), pytest.raises(ModelError) as caught:
                check_model(model)
            assert str(caught.value).startswith(f"the model in {model} is damaged: ")
            if file.name not in (CHECKSUMS, "config.json"):
                says = f"{file.name} is not as it was when the model was saved, so copy the model again"
                assert str(caught.value).endswith(says)
    assert check_model(model) == []


def test_a_missing_file(model: Path) -> None:
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match=r"is damaged: .*No such file.*tokenizer_config\.json"):
        check_model(model)


def test_of_an_older_model_the_weights_are_known_by_its_identity(model: Path) -> None:
    (model / CHECKSUMS).unlink()
    others = ["config.json", "vocabulary.txt", "tokenizer.json", "tokenizer_config.json"]
    assert check_model(model) == others
    with (
        flipped(model / "model.safetensors"),
        pytest.raises(ModelError, match=r"model\.safetensors is not as"),
    ):
        check_model(model)


def test_a_file_that_is_written_later_is_added(model: Path) -> None:
    (model / "honest_end.json").write_text("{}")
    assert check_model(model) == ["honest_end.json"]
    write_checksums(model, ["honest_end.json"])
    assert check_model(model) == []
    with flipped(model / "honest_end.json"), pytest.raises(ModelError, match=r"honest_end\.json is not as"):
        check_model(model)


def test_sha256sum_reads_the_checksums(model: Path) -> None:
    file = model / "vocabulary.txt"
    assert sha256(file) == hashlib.sha256(file.read_bytes()).hexdigest()
    subprocess.run(
        ["sha256sum", "--check", "--strict", CHECKSUMS], cwd=model, check=True, capture_output=True
    )
