"""What `import lexlip` offers."""

import subprocess
import sys

import pytest

import lexlip


def test_the_package_exports_the_model_and_the_search() -> None:
    from lexlip.models.lexlip import LexLIP
    from lexlip.search.photo_search import PhotoSearch

    assert lexlip.LexLIP is LexLIP
    assert lexlip.PhotoSearch is PhotoSearch


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'clip'"):
        lexlip.clip  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, lexlip; print([m for m in ('torch', 'numpy', 'jnius') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
