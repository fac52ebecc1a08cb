"""The commands that a lean installation has, with what it lacks hidden."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lexlip.errors import LexLIPError, MissingPackage
from lexlip.extras import needing_extras, what_is_missing
from tests.conftest import ROOT

HIDE = """
import importlib.util, sys
hidden = "torch torchvision timm transformers pyserini onnx faiss wordcloud matplotlib".split()
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Hide())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name.partition(".")[0] in hidden else find(name, *more)
from click.testing import CliRunner
from lexlip.cli import main
def run(*arguments):
    done = CliRunner().invoke(main, arguments)
    return [done.exit_code, done.stdout, done.stderr]
"""
PHOTOS = ROOT / "lexlip" / "photos"


def test_what_a_lean_installation_can_do(tmp_path: Path) -> None:
    cat, index = str(PHOTOS / "chelsea.jpg"), str(tmp_path / "index")
    commands = [
        ["index", str(PHOTOS), "--index", index],
        ["index", "--index", index, "--update"],
        ["search", "a cat", "--index", index, "-f", "paths"],
        ["search", "--image", cat, "--index", index, "-k", "1", "-f", "paths"],
        ["explain", cat, "--caption", "a cat", "--word", "cat"],
        ["explain", "a cat", "--hit", "chelsea.jpg", "--index", index],
        ["doctor", "--index", index, "--verify"],
    ]
    refused = {
        "torch: pip install 'lexlip[train]'": [
            "index",
            str(PHOTOS),
            "--anew",
            "--device",
            "cuda",
            "--index",
            index,
        ],
        "Anserini: pip install 'lexlip[anserini]'": [
            *("index", str(PHOTOS), "--model", "bm25"),
            *("--index", str(tmp_path / "captions")),
        ],
        "matplotlib: pip install 'lexlip[draw]'": ["explain", cat, "--cloud", str(tmp_path / "cloud.svg")],
    }
    code = f"import json\n{HIDE}\nprint(json.dumps([run(*line) for line in json.loads(sys.argv[1])]))"
    lines = json.dumps([*commands, *refused.values()])
    done = subprocess.run([sys.executable, "-c", code, lines], cwd=ROOT, capture_output=True, text=True)
    answers = json.loads(done.stdout.splitlines()[-1])
    allowed, others = answers[: len(commands)], answers[len(commands) :]
    assert [code for code, _, _ in allowed] == [0] * len(commands), allowed
    assert allowed[2][1].splitlines()[0] == allowed[3][1].strip() == cat
    for says, (code, _, error) in zip(refused, others, strict=True):
        assert (code, error.strip().endswith(f"needs {says}")) == (2, True), error


def test_what_no_extra_brings_stays_an_error() -> None:
    assert what_is_missing(ModuleNotFoundError(name="faiss.swigfaiss")) == (
        "this needs faiss: pip install 'lexlip[dense]'"
    )
    assert what_is_missing(ModuleNotFoundError(name="numpy")) is None


def test_what_python_says() -> None:
    @needing_extras()
    def needs(module: str) -> None:
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)

    with pytest.raises(MissingPackage, match=r"^this needs torch: pip install 'lexlip\[train\]'$") as caught:
        needs("torch.nn")
    assert isinstance(caught.value, LexLIPError)
    assert isinstance(caught.value, ImportError)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nonsense'$"):
        needs("nonsense")


def test_names_and_functions_that_need_an_extra(tmp_path: Path) -> None:
    code = f"""{HIDE}
import lexlip
def says(call):
    try:
        call()
    except lexlip.FixableError as error:
        print(error)
says(lambda: lexlip.LexLIP)
says(lambda: lexlip.index({str(PHOTOS)!r}, "index", "clip"))
says(lambda: lexlip.PhotoSearch("dense"))
"""
    for folder in ("dense", "clip"):
        (tmp_path / folder).mkdir()
    (tmp_path / "clip" / "config.json").write_text('{"model_type": "clip"}')
    (tmp_path / "dense" / "index.json").write_text(
        '{"format_version": 2, "kind": "dense", "directory": "data-1", "documents": 1, "encoder": "x"}'
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    torch = "this needs torch: pip install 'lexlip[train]'"
    faiss = "this needs faiss: pip install 'lexlip[dense]'"
    assert done.stdout.splitlines() == [torch, torch, faiss]
