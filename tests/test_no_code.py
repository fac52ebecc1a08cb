"""No file of a stranger runs code: each call that could run some says that it must not."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_MODELS = ("from_pretrained", "from_config")
OTHERS = ("SentenceTransformer", "SparseEncoder", "CrossEncoder", "pipeline", "load_dataset")
UNPICKLING = {"benchmarks/worker.py"}  # speaks to a process that it started


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """The file, the name and the call of every call."""
    return [
        (str(file.relative_to(ROOT)), ast.unparse(node.func), node)
        for package in ("lexlip", "anserini_bridge", "benchmarks", "tools")
        for file in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
    ]


def says(call: ast.Call, name: str, value: bool) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return isinstance(given.get(name), ast.Constant) and given[name].value is value  # type: ignore[attr-defined]


def test_no_model_brings_code() -> None:
    found = 0
    for file, name, call in calls():
        owner, _, method = name.rpartition(".")
        if (owner.startswith("Auto") and method in OF_MODELS) or method in OTHERS:
            found += 1
            assert says(call, "trust_remote_code", False), f"{file}:{call.lineno} {name}"
    assert found > 8


def test_nothing_is_unpickled() -> None:
    for file, name, call in calls():
        where = f"{file}:{call.lineno} {name}"
        assert name != "torch.load" or says(call, "weights_only", True), where
        assert not says(call, "allow_pickle", True), where
        assert name not in ("pickle.load", "pickle.loads") or file in UNPICKLING, where
        assert name not in ("yaml.unsafe_load", "yaml.full_load", "eval", "exec"), where
