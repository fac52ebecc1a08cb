"""Photos are exported as if they had been indexed first."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from lexlip.other_engines import export as module
from lexlip.other_engines.engine_contract import ENGINES
from lexlip.queries.photo_vectors import PhotoVectors

Run = Callable[..., Result]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("engine", list(ENGINES))
def test_the_same_bytes_as_indexing_first(lexlip: Run, tmp_path: Path, photos: Path, engine: str) -> None:
    how = ("--topk", 8, "--quantization", "paper", "--exclude", "3.jpg")
    lexlip("index", photos, *how)
    lexlip("export", engine, "--output", "first")
    lexlip("export", engine, photos, *how, "--output", "straight")
    assert files(tmp_path / "straight") == files(tmp_path / "first") != {}
    assert '"photos": 5' in (tmp_path / "straight" / "export.json").read_text()
    assert not list(tmp_path.glob(".straight*"))


def test_an_interrupted_export_goes_on(
    lexlip: Run, tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexlip("export", "qdrant", photos, "--output", "whole")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "export", interrupted)
        said = lexlip("export", "qdrant", photos, "--output", "out", code=130).output
    assert "run the same command again to go on" in said
    assert not (tmp_path / "out").exists()
    lexlip("export", "qdrant", photos, "--output", "out")
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not list(tmp_path.glob(".out*"))


def test_what_does_not_go_together_is_one_sentence(
    lexlip: Run, tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*options: object) -> str:
        return lexlip("export", "qdrant", *options, "--output", "out", code=2).output

    monkeypatch.setattr(PhotoVectors, "__init__", None)  # nothing is encoded
    assert "leave it or SOURCE out" in refused(photos, "--index", "one")
    assert "--topk is for a SOURCE, and none is given" in refused("--topk", 8)
    assert "'bm25' is not a model of words" in refused(photos, "--model", "bm25")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    assert "out holds other files, such as thesis.txt" in refused(photos)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "packaged", "photos"]
