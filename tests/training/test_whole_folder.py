import shutil
from pathlib import Path

import pytest

from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_checksums import check_model
from lexlip.training import whole_folder
from lexlip.training.whole_folder import check_place, save_whole
from tests.tiny import tiny_model


def test_a_model_replaces_another_and_its_card_stays(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    check_place(folder)
    save_whole(tiny_model(), folder)
    (folder / "README.md").write_text("# mine\n")
    (folder / "honest_end.json").write_text("{}")  # of the weights before
    with pytest.raises(
        DataError, match=r"own holds more than a model, such as honest_end\.json: give another"
    ):
        check_place(folder, may_replace=True)
    (folder / "honest_end.json").unlink()
    check_place(folder, may_replace=True)
    other = tiny_model(seed=1)
    save_whole(other, folder, small=True)
    assert LexLIP.from_pretrained(folder).identity == other.identity
    assert (folder / "README.md").read_text() == "# mine\n"
    assert check_model(folder) == []
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_what_is_there_already(tmp_path: Path, model_folder: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    with pytest.raises(DataError, match=r"model exists already: give another folder"):
        check_place(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "empty", may_replace=True)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file exists already: give another folder"):
        check_place(tmp_path / "file", may_replace=True)
    (tmp_path / "model" / "checksums.txt").write_text("no sum\n")
    with pytest.raises(DataError, match=r"model holds more than a model, such as README\.md: give another"):
        check_place(tmp_path / "model", may_replace=True)
    with pytest.raises(DataError, match=r"^cannot write the model .*none/own: No such file or directory$"):
        check_place(tmp_path / "none" / "own")


def test_the_folder_one_is_in_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"^\. exists already"):
        check_place(Path(), may_replace=True)


@pytest.mark.parametrize("before", [False, True])
def test_an_interrupted_save_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    if before:
        save_whole(tiny_model(seed=1), tmp_path / "own")
    identity = LexLIP.from_pretrained(tmp_path / "own").identity if before else None

    def fail(*folders: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_folder, "replace_folder", fail)
    with pytest.raises(DataError, match=r"cannot write the model .*own: No space left on device"):
        save_whole(tiny_model(), tmp_path / "own")
    assert [path.name for path in tmp_path.iterdir()] == ["own"] * before
    assert not before or LexLIP.from_pretrained(tmp_path / "own").identity == identity
