"""What all commands share: help at once, one sentence for what a user can mend."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from anserini_bridge import find_java, jvm, lucene_version
from anserini_bridge.errors import NoJar, NoJava
from lexlip.cli import main
from tests.cli.conftest import Run
from tests.conftest import ROOT

COMMANDS = ["index", "search", "evaluate", "table", "pretrain", "bench", "doctor"]

RunPython = Callable[..., subprocess.CompletedProcess[str]]


def test_help_and_versions_import_nothing_heavy(run_python: RunPython) -> None:
    code = f"""
import json, sys
from click.testing import CliRunner
from lexlip.cli import main
commands = [["--version"], ["--help"], *[[command, "--help"] for command in {COMMANDS}]]
pages = [CliRunner().invoke(main, command) for command in commands]
heavy = {{name.split(".")[0] for name in sys.modules}} & set(
    "torch numpy scipy transformers timm torchvision huggingface_hub pyserini PIL tqdm yaml jnius"
    " statistics".split())
print(json.dumps([sorted(heavy), [page.exit_code for page in pages], [page.output for page in pages]]))
"""
    heavy, codes, pages = json.loads(run_python("-c", code).stdout)
    assert heavy == []
    assert codes == [0] * 9
    assert all(command in pages[1] for command in COMMANDS)
    assert all(f"Usage: main {command}" in page for command, page in zip(COMMANDS, pages[2:], strict=True))


def test_versions_of_what_is_installed(lexlip: Run) -> None:
    java = find_java()
    assert lexlip("--version").stdout.splitlines() == [
        f"lexlip, version {version('lexlip')}",
        f"Lucene {lucene_version()}",
        f"Java {java.version}, from {java.origin}",
        f"torch {version('torch')}",
    ]


def test_what_is_missing_is_said(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Any:
        raise error

    monkeypatch.setattr(jvm, "lucene_version", lambda: fail(NoJar("no jar here")))
    monkeypatch.setattr(jvm, "find_java", lambda: fail(NoJava("none found")))
    monkeypatch.setattr(
        "importlib.metadata.version",
        lambda name: "1" if name == "lexlip" else fail(PackageNotFoundError()),
    )
    assert lexlip("--version").stdout.splitlines() == [
        "lexlip, version 1",
        "Lucene is missing: no jar here",
        "Java is missing: none found",
        "torch is not installed",
    ]


@pytest.mark.parametrize(
    ("typed", "found"),
    [(["ind"], ["index"]), (["search", "--query-e"], ["--query-encoder"]), (["pre"], ["pretrain"])],
)
def test_the_shell_completes(typed: list[str], found: list[str]) -> None:
    words = {"COMP_WORDS": " ".join(["lexlip", *typed]), "COMP_CWORD": str(len(typed))}
    environment = {"_LEXLIP_COMPLETE": "bash_complete", **words}
    done = CliRunner().invoke(main, [], prog_name="lexlip", env=environment)
    assert done.stdout.splitlines() == [f"plain,{name}" for name in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = CliRunner().invoke(main, [], prog_name="lexlip", env={"_LEXLIP_COMPLETE": f"{shell}_source"})
    assert done.exit_code == 0
    assert f"_LEXLIP_COMPLETE={shell}_complete" in done.stdout


def test_python_m_lexlip(run_python: RunPython) -> None:
    result = run_python("-m", "lexlip", "--help")
    assert result.returncode == 0
    assert result.stdout.startswith("Usage: lexlip [OPTIONS] COMMAND")
    assert result.stderr == ""


@pytest.mark.parametrize(("before", "code"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)])
def test_ctrl_c_at_the_start_leaves_no_traceback(run_python: RunPython, before: str, code: int) -> None:
    """While modules are imported; where Ctrl-C is ignored, as behind nohup, it stays so."""
    begin = f"""
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.{before})
class Press:
    def find_spec(name, *_):
        if name == "lexlip.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press)
sys.argv = ["lexlip", "--help"]
runpy.run_module("lexlip.__main__", run_name="__main__")
"""
    done = run_python("-c", begin)
    assert (done.returncode, done.stderr) == (code, "")


def test_letters_that_the_output_cannot_show_are_replaced(lexlip: Run, photos: Path) -> None:
    """As in a Windows terminal, or with PYTHONIOENCODING=cp1252."""
    (photos / "0.jpg").rename(photos / "雪é.jpg")
    (photos / "雪.jpg").write_text("no photo")
    for arguments, shown in (
        (["index", "photos", "--index", "雪"], ("6 photos", " in ?, ", "\n  \\u96ea.jpg: not an image")),
        (["search", "two dogs", "--index", "雪"], ("photos/?é.jpg\n",)),
        (["search", "two dogs", "--index", "雪", "-f", "paths"], ("photos/?é.jpg\n",)),
        (["words", "photos"], ("photos/?é.jpg\n",)),
    ):
        result = CliRunner(charset="cp1252").invoke(main, arguments)
        assert result.exit_code == 0, result.output
        assert all(text in result.output for text in shown), result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["inde"], "No such command 'inde'. Did you mean 'index'?"),
        (["index", "--foo"], "No such option '--foo'"),
        (["index", "--topk", "0"], "'--topk': '0' is neither a number of at least 1 nor all"),
        (["index", "--topk", "many"], "'--topk': 'many' is neither a number of at least 1 nor all"),
        (
            ["index", "--quantization", "none"],
            "'--quantization': 'none' is not one of 'balanced', 'unit', 'paper'",
        ),
        (["index", "--workers", "-1"], "'--workers': -1 is not in the range x>=0"),
        (["search", "cat", "-k", "0"], "'-k': 0 is not in the range x>=1"),
        (["search", "cat", "--query-topk", "0"], "'--query-topk': '0' is neither a number of at least 1"),
        (["search", ""], "the query is empty: give a sentence"),
        (["search", " \t"], "the query is empty: give a sentence"),
        (["search"], "or --similar ID: only one"),
        (["search", "cat", "--image", "cat.jpg"], "or --similar ID: only one"),
        (["search", os.fsdecode(b"chat noir\xff")], r"'chat noir\xff' is not UTF-8"),
        (["search", "chat \ud800"], r"'chat \xed\xa0\x80' is not UTF-8"),
        (["evaluate"], "Missing argument 'SOURCE'"),
        (["evaluate", ".", "--engine", "faiss"], "'faiss' is not one of 'lucene', 'flat', 'hnsw', 'exact'"),
    ],
)
def test_misuse(lexlip: Run, arguments: list[str], says: str) -> None:
    result = lexlip(*arguments, code=2)
    assert says in result.stderr.splitlines()[-1]
    assert result.stdout == ""


def test_an_error_that_is_not_the_users_is_not_hidden(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from lexlip import data

    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(data, "open_source", fail)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        lexlip("evaluate", ".")


FULL = Path("/dev/full")


def typed(streams: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run lexlip with the redirections of a shell."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", sys.executable, "-m", "lexlip", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("arguments", [["doctor", "--index", "none"], ["--help"], ["--version"]])
def test_a_full_disk_behind_the_output_is_one_sentence(tmp_path: Path, arguments: list[str]) -> None:
    done = typed("> /dev/full", *(tmp_path / "none" if part == "none" else part for part in arguments))
    assert done.returncode == 2
    assert done.stderr == "Error: cannot write the output: No space left on device\n"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
def test_what_cannot_be_told_is_lost_and_fails_nothing(library: Path) -> None:
    """A search tells how long it took."""
    index = library.with_name(".lexlip")
    found = typed("", "search", "red", "--index", index)
    assert "search" in found.stderr
    for streams in ("2> /dev/full", "2>&-"):
        assert typed(streams, "search", "red", "--index", index).stdout == found.stdout
        assert typed(streams, "search", "red", "--index", index).returncode == 0
        gone = typed(streams, "search", "red", "--index", index / "none")
        assert (gone.returncode, gone.stdout, gone.stderr) == (2, "", "")


def test_a_program_that_runs_a_command_keeps_its_streams(library: Path, tmp_path: Path) -> None:
    """What it told before is told before; and a file that got the number of a closed stream stays its own."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from lexlip.cli import main\n"
        f"notes = open({str(tmp_path / 'notes')!r}, 'w')\n"
        "given = sys.stdout, sys.stderr\n"
        "print('before', end=' ', file=sys.stderr)\n"
        f"main(['search', 'red', '--index', {str(library.with_name('.lexlip'))!r}], standalone_mode=False)\n"
        "print('after', file=sys.stderr)\n"
        "assert given == (sys.stdout, sys.stderr)\n"
        "notes.write('a note')\n"
    )
    for streams in ("", ">&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {streams}', "sh", sys.executable, str(program)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.stderr.startswith("before ")
        assert done.stderr.endswith("after\n")
        assert (tmp_path / "notes").read_text() == "a note"


def test_streams_that_are_closed(library: Path, photos: Path, tmp_path: Path) -> None:
    """No file of an index gets the number of one, which libraries would print into."""
    for what in ([], ["-f", "paths"], ["--json"]):
        assert typed(">&-", "search", "red", "--index", library.with_name(".lexlip"), *what).returncode == 0
    index = tmp_path / "new"
    assert typed("<&- >&- 2>&-", "index", photos, "--model", "bm25", "--index", index).returncode == 0
    assert typed("", "search", "red", "--index", index, "--json").returncode == 0
