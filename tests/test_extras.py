"""The commands that a lean installation has, with what it lacks hidden."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lexlip.errors import BRINGS, LexLIPError, MissingPackage, needing_extras, what_is_missing
from tests.conftest import ROOT
from tests.test_layers import MODULES

HIDE = """
import importlib.util, site, sys
from importlib.machinery import PathFinder
hidden = set()
class Hide:
    def find_spec(self, name, path=None, target=None):
        if path is None and name in hidden:
            inside_another = [place for place in sys.path if place not in site.getsitepackages()]
            if found := PathFinder.find_spec(name, inside_another):  # ray has its own psutil
                return found
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Hide())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name.partition(".")[0] in hidden else find(name, *more)
"""
RUN = """
import json
from click.testing import CliRunner
from lexlip.cli import main
def run(*arguments):
    done = CliRunner().invoke(main, arguments)
    return [done.exit_code, done.stdout, done.stderr]
"""
PHOTOS = ROOT / "lexlip" / "photos"

NEEDED_BY = {
    "train": (
        *("lexlip.training", "lexlip.objectives", "lexlip.encoders", "lexlip.models"),
        *("lexlip.bench.tables", "lexlip.bench.encoding"),
        *("lexlip.bench.training_step", "lexlip.search.rerank"),
    ),
    "dense": (
        *("lexlip.search.engines.faiss_index", "lexlip.search.stages.dense", "lexlip.indexing.dense"),
        *("benchmarks.peers.dense", "lexlip.bench.tables.dense_systems"),
    ),
    "openclip": ("lexlip.models.open_clip",),
    "compare": ("lexlip.measure.comparison",),
    "mteb": ("lexlip.measure.mteb_model", "lexlip.models.sparse_encoder"),
    "mcp": ("lexlip.mcp.agent_server",),
}
"""By extra the rooms and modules that it makes importable; all others need none."""


@cache
def modules_without(extra: str) -> list[str]:
    """The modules that are installed, and that an installation with this extra alone (or "") lacks."""
    brought, asked = set(), [("lexlip", extra)]
    while asked:
        package, of_extra = asked.pop()
        if (package, of_extra) in brought:
            continue
        brought.add((package, of_extra))
        with suppress(PackageNotFoundError):  # what another system or Python needs
            for needed in map(Requirement, requires(package) or ()):
                if needed.marker is None or needed.marker.evaluate({"extra": of_extra}):
                    asked += [(canonicalize_name(needed.name), more) for more in ("", *needed.extras)]
    names = {package for package, _ in brought}
    return [
        module
        for module, packages in packages_of_modules().items()
        if names.isdisjoint(map(canonicalize_name, packages))
    ]


packages_of_modules = cache(packages_distributions)
"""It reads all that is installed."""


def hide(extra: str) -> str:
    """Code that hides them."""
    return f"{HIDE}hidden.update({modules_without(extra)})"


def needed_by(module: str) -> str:
    """The extra that a module needs, or ""."""
    places = [(place, extra) for extra, several in NEEDED_BY.items() for place in several]
    fitting = [(len(place), extra) for place, extra in places if f"{module}.".startswith(f"{place}.")]
    return max(fitting, default=(0, ""))[1]


IMPORT = """
import json
from importlib import import_module
for extra, without, wanted in json.load(sys.stdin):
    hidden.clear()
    hidden.update(without)
    for name in [*sys.modules]:
        if name.partition(".")[0] in {*hidden, "lexlip", "anserini_bridge", "benchmarks"}:
            del sys.modules[name]
    for name in wanted:
        try:
            import_module(name)
        except ImportError as error:
            print(f"{name} lacks {error.name} with the extra '{extra}' alone")
"""


@pytest.mark.slow
def test_an_extra_brings_what_its_modules_import() -> None:
    """In one process, as torch is slow to import: what an extra lacks is forgotten before its turn."""
    turns = []
    for extra in ("", *BRINGS):
        own = [module for module in MODULES if needed_by(module) == extra and module != "lexlip.__main__"]
        turns.append((extra, modules_without(extra), [*BRINGS.get(extra, ()), *own]))
    turns.sort(key=lambda turn: "torch" not in turn[1])  # it is imported once
    done = subprocess.run(
        [sys.executable, "-c", HIDE + IMPORT],
        input=json.dumps(turns),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert not done.stdout.splitlines()
    assert done.returncode == 0, done.stderr


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
        "torch: pip install 'lexlip[train]'": [*commands[0], "--anew", "--device", "cuda"],
        "Anserini: pip install 'lexlip[anserini]'": [*commands[0][:3], index + "-bm25", "--model", "bm25"],
        "matplotlib: pip install 'lexlip[draw]'": ["explain", cat, "--cloud", str(tmp_path / "cloud.svg")],
    }
    code = f"{hide('')}{RUN}print(json.dumps([run(*line) for line in json.loads(sys.argv[1])]))"
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
    code = f"""{hide("")}
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
