"""The rooms of the house, from the ground up: code imports only what lies below."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lexlip", "anserini_bridge", "benchmarks")

ROOMS = """
    anserini_bridge.errors anserini_bridge.given_files anserini_bridge.memory_limits
    anserini_bridge.sparse_rows
    lexlip.errors lexlip.registry
    lexlip.machine
    lexlip.config lexlip.config_files
    lexlip.words
    lexlip.sparse
    lexlip.data.upright
    lexlip.data
    lexlip.encoders
    lexlip.models
    lexlip.queries
    lexlip.objectives
    anserini_bridge
    lexlip.retrieval
    lexlip.search.engines
    lexlip.search.stages
    lexlip.search
    lexlip.other_engines
    lexlip.explain
    lexlip.indexing
    lexlip.search_servers
    lexlip.cluster
    lexlip.measure
    lexlip.training
    lexlip.bench
    lexlip.bench.tables
    benchmarks.corpus
    benchmarks.peers
    benchmarks
    lexlip.mcp
    lexlip
    lexlip.server
    lexlip.cli
    lexlip.__main__
""".split()
"""Every folder, and every module of the top level, lowest first."""

FOREIGN = {
    "anserini_bridge": ("lexlip", "torch", "transformers", "timm"),
    "lexlip.data": ("anserini_bridge", "torch", "transformers", "timm"),
    **dict.fromkeys(
        ("lexlip.encoders", "lexlip.models", "lexlip.objectives", "lexlip.sparse"),
        ("lexlip.data", "anserini_bridge"),
    ),
    "lexlip.training": ("anserini_bridge",),
}
"""By room what it must not import, though some of it lies below."""

OF_FILES = "anserini_bridge.storage"
"""How files are replaced: training does it too, and knows nothing else of indexes."""

HEAVY = "torch torchvision transformers timm tokenizers safetensors numpy scipy jnius PIL".split()


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


SHARED = (
    *("anserini_bridge.errors", "anserini_bridge.given_files", "anserini_bridge.memory_limits"),
    "anserini_bridge.sparse_rows",
    "lexlip.data.upright",
)
"""Modules that every room may use: they know nothing of Lucene, nor where photos are."""


def room_of(module: str) -> str:
    """A folder, a module of the top level, or a shared one."""
    path = MODULES[module]
    top = path.parent == ROOT / "lexlip"
    return module if top or module in SHARED else ".".join(path.parent.relative_to(ROOT).parts)


@cache
def imported(module: str) -> tuple[str, ...]:
    """All that a module imports, in functions and for types alone too, by full name."""
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[str]:
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def own(name: str) -> str:
    """The module of the project that a name is in, or is; "" if none."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_every_room_has_its_place() -> None:
    assert set(map(room_of, MODULES)) == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below(room: str) -> None:
    height = ROOMS.index(room)
    wrong = {
        f"{module} imports {name}"
        for module in MODULES
        if room_of(module) == room
        for name in imported(module)
        if (found := own(name)) and room_of(found) != room and ROOMS.index(room_of(found)) > height
    }
    assert not wrong


def test_no_files_go_round_in_circles() -> None:
    graph = {
        module: {found for name in imported(module) if (found := own(name)) not in ("", module)}
        for module in MODULES
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("room", FOREIGN)
def test_a_room_does_without_what_is_foreign_to_it(room: str) -> None:
    wrong = {
        f"{module} imports {name}"
        for module in MODULES
        if room_of(module) == room
        for name in imported(module)
        if within(name, FOREIGN[room])
        and not within(name, SHARED)
        and not (room == "lexlip.training" and within(name, (OF_FILES,)))
    }
    assert not wrong


def test_the_command_line_starts_without_anything_heavy() -> None:
    code = f"import sys, lexlip.cli; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_files_are_named_after_what_is_in_them() -> None:
    vague = {"utils.py", "helpers.py", "misc.py", "common.py"}
    folders = (*PACKAGES, "tests", "tools")
    assert not [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name in vague]


def test_a_module_s_name_is_its_own_or_its_folder_makes_it_plain() -> None:
    """A command has the name of what it does, and an engine or an index that of its kind."""
    of_kinds = {"bm25", "dense", "impact", "lucene", "errors"}
    names = [
        path.stem
        for path in MODULES.values()
        if path.stem != "__init__" and path.parent != ROOT / "lexlip" / "cli"
    ]
    assert {name for name in names if names.count(name) > 1} <= of_kinds
