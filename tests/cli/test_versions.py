"""What `lexlip --version` says, and that it is quick: nothing heavy is imported."""

import json
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

from anserini_bridge import find_java, lucene_version
from lexlip.cli import versions

Run = Callable[..., Any]


def test_versions_of_what_is_installed(lexlip: Run) -> None:
    java = find_java()
    assert lexlip("--version").stdout.splitlines() == [
        f"lexlip, version {version('lexlip')}",
        f"Lucene {lucene_version()}",
        f"Java {java.version}, from {java.origin}",
        f"torch {version('torch')}",
    ]


def test_nothing_heavy_is_imported(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = """
import json, sys
from click.testing import CliRunner
from lexlip.cli import main
code = CliRunner().invoke(main, ["--version"]).exit_code
print(json.dumps([code, sorted({name.split(".")[0] for name in sys.modules} & set(
    "torch numpy scipy transformers huggingface_hub pyserini jnius PIL yaml".split()))]))
"""
    assert json.loads(run_python("-c", code).stdout) == [0, []]


def test_what_is_missing_is_said(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from anserini_bridge import runtime
    from anserini_bridge.errors import NoJar, NoJava

    def missing(error: Exception) -> Callable[[], str]:
        def fail() -> str:
            raise error

        return fail

    monkeypatch.setattr(runtime, "lucene_version", missing(NoJar("no jar here")))
    monkeypatch.setattr(runtime, "find_java", missing(NoJava("none found")))
    monkeypatch.setattr(versions, "version", lambda name: "1" if name == "lexlip" else missing_package())
    assert lexlip("--version").stdout.splitlines() == [
        "lexlip, version 1",
        "Lucene is missing: no jar here",
        "Java is missing: none found",
        "torch is not installed",
    ]


def missing_package() -> str:
    raise versions.PackageNotFoundError


@pytest.mark.parametrize(
    ("typed", "found"),
    [(["ind"], ["index"]), (["search", "--query-e"], ["--query-encoder"]), (["pre"], ["pretrain"])],
)
def test_the_shell_completes(lexlip: Run, typed: list[str], found: list[str]) -> None:
    from click.testing import CliRunner

    from lexlip.cli import main

    environment = {
        "_LEXLIP_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["lexlip", *typed]),
        "COMP_CWORD": str(len(typed)),
    }
    done = CliRunner().invoke(main, [], prog_name="lexlip", env=environment)
    assert done.stdout.splitlines() == [f"plain,{name}" for name in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(lexlip: Run, shell: str) -> None:
    from click.testing import CliRunner

    from lexlip.cli import main

    done = CliRunner().invoke(main, [], prog_name="lexlip", env={"_LEXLIP_COMPLETE": f"{shell}_source"})
    assert done.exit_code == 0
    assert f"_LEXLIP_COMPLETE={shell}_complete" in done.stdout
