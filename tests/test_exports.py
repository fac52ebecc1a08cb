"""What `import lexlip` offers."""

import subprocess
import sys
from importlib.metadata import version

import pytest

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


@pytest.mark.parametrize("package", ["lexlip", "lexlip.errors", "anserini_bridge"])
def test_importing_the_package_loads_nothing_heavy(package: str) -> None:
    code = f"import sys, {package}; print([m for m in ('torch', 'numpy', 'jnius') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
