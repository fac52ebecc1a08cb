import re
import signal
from pathlib import Path

import pytest

from lexlip.models.lexlip import LexLIP
from lexlip.training import packaging
from tests.cli.conftest import Run, as_json, error
from tests.cli.interrupted import encoding
from tests.training.run_folders import write_run


@pytest.fixture
def run(tmp_path: Path, model_folder: Path) -> Path:
    return write_run(tmp_path / "runs" / "mine", {"data": {"train": ["scenes:80:1"]}}, [10], model_folder)


def test_a_run_becomes_a_model_that_is_indexed_and_searched(lexlip: Run, run: Path, photos: Path) -> None:
    lines = lexlip("package", "runs/mine", "own").stdout.splitlines()
    assert re.fullmatch(r"own: \d+ words, \d+\.\d MB, \d+\.\d s", lines[0])
    assert lines[1:] == [
        "documents are balanced by 40 captions and 40 photos",
        "photos need torch, as this image encoder has no graph for ONNX Runtime",
        "lexlip index PHOTOS --model own",
    ]
    assert lexlip("index", "photos", "--model", "own").stdout.startswith("6 photos, ")
    assert as_json(lexlip, "search", "two dogs in the snow")["hits"]


def test_json(lexlip: Run, run: Path) -> None:
    answer = as_json(lexlip, "package", "runs/mine/best", "own", "scenes:40:3")
    model = LexLIP.from_pretrained("own")
    assert answer.pop("seconds") > 0
    assert answer.pop("megabytes") == sum(file.stat().st_size for file in Path("own").iterdir()) / 1e6
    assert answer == {
        "model": "own",
        "identity": model.identity,
        "words": len(model.vocabulary),
        "captions": 20,
        "photos": 20,
        "needs_torch": True,
        "metric": "cosine",
    }


def test_what_is_not_balanced_says_so(lexlip: Run, model_folder: Path) -> None:
    result = lexlip("package", model_folder, "own")
    assert result.stderr == "note: documents are not balanced: name photos with captions as SOURCE\n"
    assert "balanced" not in result.stdout


def test_photos_that_need_no_torch(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = packaging.Package("own@1", 5, 1.0, 20, 20, needs_torch=False)
    monkeypatch.setattr(packaging, "package", lambda *given: made)
    assert "photos and sentences need no torch\n" in lexlip("package", "run", "own").stdout


def test_bad_input(lexlip: Run, run: Path) -> None:
    assert error(lexlip("package", "nothing", "own", code=2)).startswith("no model 'nothing': ")
    assert error(lexlip("package", "runs/mine", "none/own", code=2)).startswith(
        "cannot write the model none/own"
    )
    assert error(lexlip("package", "runs/mine", "runs", code=2)) == (
        "runs holds more than a model, such as mine: give another folder"
    )
    assert error(lexlip("package", "runs/mine", ".", code=2)) == ". exists already: give another folder"
    assert error(lexlip("package", "runs/mine", "own", "nowhere", code=2)) == "nowhere does not exist"
    assert error(lexlip("package", "runs/mine", "own", "--device", "gpu", code=2)).startswith("device 'gpu' ")
    assert "Missing argument 'FOLDER'" in lexlip("package", "runs/mine", code=2).stderr
    assert not Path("own").exists()


@pytest.mark.parametrize(
    ("end", "there"),
    [
        (signal.SIGINT, True),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, False, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_command_changes_nothing(
    lexlip: Run, tmp_path: Path, run: Path, model_folder: Path, end: signal.Signals, there: bool
) -> None:
    if there:
        lexlip("package", model_folder, "own")
    before = {file.name: file.read_bytes() for file in Path("own").glob("*")}
    with encoding(tmp_path, "package", "runs/mine", "own") as process:
        code, stdout, stderr = process.end(end)
    assert stdout == ""
    if end == signal.SIGINT:
        says = "Error: interrupted: nothing was changed; run the same command again\n"
        assert (code, stderr) == (130, says)
    assert {file.name: file.read_bytes() for file in Path("own").glob("*")} == before
    lexlip("package", "runs/mine", "own")
    assert LexLIP.from_pretrained("own").balance is not None
