"""Code flows one way: photos, data, encoders and models, sparse, anserini_bridge, search, answers."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = (
    "torch",
    "torchvision",
    "transformers",
    "timm",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "jnius",
    "PIL",
)

MUST_NOT_IMPORT = {
    "anserini_bridge": ("lexlip", "torch", "transformers", "timm"),
    "lexlip/data": tuple(
        f"lexlip.{part}"
        for part in ("encoders", "models", "objectives", "training", "search", "evaluation", "cli")
    )
    + ("anserini_bridge", "torch", "transformers", "timm"),
    **{
        f"lexlip/{part}": (
            *(f"lexlip.{other}" for other in ("data", "training", "search", "evaluation", "cli")),
            "anserini_bridge",
        )
        for part in ("encoders", "models", "objectives", "sparse")
    },
    "lexlip/search": ("lexlip.training", "lexlip.evaluation", "lexlip.cli"),
    "lexlip/evaluation": ("lexlip.training", "lexlip.cli"),
    "lexlip/training": ("lexlip.cli", "anserini_bridge"),
    "lexlip/benchmark": ("lexlip.cli",),
}


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, folder
    return found


def imports(path: Path, module_level: bool = False) -> Iterator[str]:
    """What a file imports, by full name; with `module_level` only what is imported when it is."""
    pending: list[ast.AST] = list(ast.parse(path.read_text(encoding="utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif module_level and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or for_types_only(node)
        ):
            continue
        else:
            pending += ast.iter_child_nodes(node)


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("folder", MUST_NOT_IMPORT)
def test_one_direction(folder: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(folder)
        for name in imports(path)
        if within(name, MUST_NOT_IMPORT[folder])
    }
    assert not wrong


def test_the_command_line_imports_late() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files("lexlip/cli")
        for name in imports(path, module_level=True)
        if within(name, HEAVY) or (within(name, ("lexlip", "anserini_bridge")) and not allowed_early(name))
    }
    assert not wrong


def allowed_early(name: str) -> bool:
    return within(name, ("lexlip.errors", "lexlip.cli", "lexlip.__version__")) or name == "lexlip"


def test_folders_are_concepts() -> None:
    vague = {"utils.py", "helpers.py", "misc.py", "common.py"}
    found = [path for folder in ("lexlip", "anserini_bridge", "tests") for path in files(folder)]
    assert not [path for path in found if path.name in vague]
