import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.models.model_checksums import FILE, check_model, sha256, write_checksums
from lexlip.models.model_folder import PACKAGED
from tests.flipped import files_of, flipped
from tests.tiny import tiny_dense


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
            if file.name not in (FILE, "config.json"):
                says = f"{file.name} is not as it was when the model was saved, so copy the model again"
                assert str(caught.value).endswith(says)
    assert check_model(model) == []


def test_a_missing_file(model: Path) -> None:
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match=r"is damaged: .*No such file.*tokenizer_config\.json"):
        check_model(model)


def test_of_an_older_model_the_weights_are_known_by_its_identity(model: Path) -> None:
    (model / FILE).unlink()
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
    subprocess.run(["sha256sum", "--check", "--strict", FILE], cwd=model, check=True, capture_output=True)
