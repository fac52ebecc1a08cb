"""What `import lexlip` offers."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import anserini_bridge
import lexlip
from tests.conftest import ROOT


def test_what_the_package_exports() -> None:
    from lexlip.models.lexlip import LexLIP
    from lexlip.search.photo_search import PhotoSearch

    assert lexlip.LexLIP is LexLIP
    assert lexlip.PhotoSearch is PhotoSearch
    for name in lexlip.__all__:
        assert getattr(lexlip, name).__name__ == name
    for name in anserini_bridge.__all__:
        assert getattr(anserini_bridge, name) is not None


def test_the_version_is_the_installed_one() -> None:
    assert lexlip.__version__ == version("lexlip")


def test_the_names_of_the_bridge_are_listed_before_they_are_loaded() -> None:
    code = "import sys, anserini_bridge as b; print({*b.__all__} <= {*dir(b)}, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True False\n"


def test_the_packages_say_that_their_types_count() -> None:
    """`tests/typed_use.py` says which; `make check` looks at it."""
    for package in ("lexlip", "anserini_bridge"):
        assert (ROOT / package / "py.typed").exists()


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'clip'"):
        lexlip.clip  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'jvm_of'"):
        anserini_bridge.jvm_of  # noqa: B018


def test_onnx_runtime_keeps_and_sends_no_events(tmp_path: Path) -> None:
    code = (
        "import os, lexlip, onnxruntime as o;"
        f"o.InferenceSession({str(graph_of_one(tmp_path))!r}, providers=['CPUExecutionProvider']);"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    cache = tmp_path / "cache"
    cache.mkdir()
    for own, kept in (({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")):  # who wants it has it
        environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
        environment |= {"XDG_CACHE_HOME": str(cache), "HOME": str(cache), **own}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.stdout == f"{kept}\n", done.stderr
        if kept == "1":
            assert list(cache.rglob("*")) == []


def graph_of_one(folder: Path) -> Path:
    """Write a network of one operator."""
    number = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", [number], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "one.onnx").write_bytes(model.SerializeToString())
    return folder / "one.onnx"


@pytest.mark.parametrize("package", ["lexlip", "lexlip.errors", "anserini_bridge"])
def test_importing_the_package_loads_nothing_heavy(package: str) -> None:
    code = f"import sys, {package}; print([m for m in ('torch', 'numpy', 'jnius') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
