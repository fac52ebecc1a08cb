import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def find(tmp_path: Path) -> list[str]:
    result = subprocess.run(
        ["/bin/sh", ROOT / "tools" / "find_python.sh"],
        env={"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv")},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_shims_that_start_nothing_are_passed_over(tmp_path: Path) -> None:
    for version in ("3.14", "3.13", "3.12", "3.11"):
        program(tmp_path / "bin" / f"python{version}", "echo 'pyenv: command not found' >&2; exit 127")
    assert find(tmp_path) == []
    program(tmp_path / "bin" / "python", f'exec "{sys.executable}" "$@"')
    (found,) = find(tmp_path)
    assert Path(found).samefile(sys.executable)


def test_one_of_each_version_newest_first(tmp_path: Path) -> None:
    """Each fake one answers as a Python of its version would."""
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15"):
        program(tmp_path / "bin" / f"python{version}", f"echo {version} /usr/bin/python{version}")
    program(tmp_path / "bin" / "python3", "echo 3.15 /usr/bin/python3.15")
    known = ("3.14", "3.13", "3.12", "3.11")
    assert find(tmp_path) == [f"/usr/bin/python{version}" for version in known]


def test_pythons_of_pyenv_and_paths_with_spaces(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python3", "echo 3.11 /a place/python3")
    program(tmp_path / "pyenv" / "versions" / "3.12.7" / "bin" / "python3", "echo 3.12 /pyenv/python3")
    assert find(tmp_path) == ["/pyenv/python3", "/a place/python3"]


def test_a_python_without_venv_is_passed_over(tmp_path: Path) -> None:
    if sys.version_info[:2] not in {(3, 11), (3, 12), (3, 13), (3, 14)}:
        pytest.skip("the script looks for other Pythons than this one")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "venv.py").write_text("raise ImportError")
    program(tmp_path / "bin" / "python3", f'PYTHONPATH="{tmp_path / "lib"}" exec "{sys.executable}" "$@"')
    assert find(tmp_path) == []


def test_of_an_environment_the_python_that_made_it(tmp_path: Path) -> None:
    if sys.version_info[:2] not in {(3, 11), (3, 12), (3, 13), (3, 14)}:
        pytest.skip("the script looks for other Pythons than this one")
    venv.create(tmp_path / "venv", symlinks=True)
    program(tmp_path / "bin" / "python3", f'exec "{tmp_path / "venv/bin/python3"}" "$@"')
    (found,) = find(tmp_path)
    assert not Path(found).is_relative_to(tmp_path)
    assert Path(found).samefile(sys.executable)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_says_what_to_install(tmp_path: Path) -> None:
    line = ["make", "-C", str(ROOT), "demo", "PYTHON=", f"LEAN={tmp_path / 'lean'}"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 2
    assert "(on Debian: sudo apt-get install python3 python3-venv)" in done.stderr
    assert not list(tmp_path.iterdir())
