"""The quick command lines of the pages that people begin with run as they stand, and print what is shown."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from lexlip.cli import main
from lexlip.cli.demo import PHOTOS
from lexlip.machine.resources import describe
from lexlip.models.model_folder import PACKAGED
from tests.conftest import ROOT
from tests.data.pictures import write_tar
from tests.docs.pages import Piece
from tests.docs.test_commands import CALLS, arguments

PAGES = (
    "README.md",
    "docs/explain.md",
    "docs/export.md",
    "docs/library.md",
    "docs/mcp.md",
    "docs/measure.md",
    "docs/searching.md",
    "docs/start.md",
    "docs/upkeep.md",
)
CPU = str(describe()["cpu"])
CPU_OF_PAGES = "AMD EPYC"

ELSEWHERE = "lexlip serve", "--server"
"""What answers until it is stopped, and what asks a server: run by test_long_commands.py and tests/server."""


def run(folder: Path, given: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder, which is the home folder, too."""
    own = [re.sub(r"^~(?=/)|^/mnt", str(folder), argument) for argument in given]
    environment = {"HOME": str(folder), "COLUMNS": "200"}
    if own[0] == "mcp":  # it takes the process's own output
        return subprocess.run(
            [sys.executable, "-m", "lexlip", *own],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=300,
        )
    with contextlib.chdir(folder):
        done = CliRunner(env=environment).invoke(main, own, prog_name="lexlip")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(own, done.exit_code, done.stdout, done.stderr)


def shown(block: Piece, line: Piece) -> list[str]:
    """The output below a line of a block that begins with `$ `: up to an empty line or the next command."""
    rows = block.text.splitlines()[line.line - block.line :]
    if not rows[0].startswith("$ "):
        return []
    while rows[0].endswith("\\"):
        rows = rows[1:]
    output = []
    for row in rows[1:]:
        if row.startswith("$ "):
            break
        output.append(row)
    return [row for row in output if row.strip()]


def form(row: str) -> str:
    """A row without its numbers, its units of size, and the words of a list of weighted words."""
    row = re.sub(r"\d[\d,.]*", "0", row)
    row = re.sub(r"\b0 (?:kB|MB|bytes)\b", "0 kB", row)
    row = re.sub(r"(?:\S+:0 ?)+", "word:0 ", row)
    return " ".join(row.split())


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages take as there: photos in several folders, an index of them, captioned photos in a tar."""
    if not (PACKAGED / "mini" / "config.json").exists():
        pytest.skip("no model is packaged")
    folder = tmp_path_factory.mktemp("given")
    for place in ("photos", "Pictures", "disk/scans"):
        shutil.copytree(PHOTOS, folder / place, ignore=shutil.ignore_patterns("*.md"))
    (folder / "Pictures/holidays").mkdir()
    shutil.copy(PHOTOS / "chelsea.jpg", folder / "Pictures/holidays/0017.jpg")
    shutil.copy(PHOTOS / "chelsea.jpg", folder / "photo.jpg")
    shutil.copy(PHOTOS / "astronaut.jpg", folder)
    texts = {path.stem: b"a photo of something" for path in PHOTOS.glob("*.jpg")}
    files = {f"{path.stem}.jpg": path.read_bytes() for path in PHOTOS.glob("*.jpg")}
    write_tar(folder / "val-0000.tar", files | {f"{name}.txt": text for name, text in texts.items()})
    for source, index in (("~/Pictures", ".lexlip"), ("photos", ".demo"), ("photos", "photos-index")):
        assert not run(folder, ["index", source, "--index", index]).returncode
    return folder


def change(photos: Path) -> None:
    """One photo more, one less, one other."""
    shutil.copy(PHOTOS / "coffee.jpg", photos / "new.jpg")
    shutil.copy(PHOTOS / "rocket.jpg", photos / "camera.jpg")
    (photos / "grass.jpg").unlink()


def quick(page: str) -> list[tuple[Piece, Piece]]:
    """The lines of a page that are run, each with its block."""
    return [
        (block, line)
        for block, line in CALLS
        if line.page == page and not any(part in line.text for part in ELSEWHERE)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page(
    page: str, given: Path, towns_home: Path, cache_home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(given, folder, symlinks=True)
    shutil.copytree(towns_home, cache_home, copy_function=os.symlink, dirs_exist_ok=True)
    ran = 0
    for block, line in quick(page):
        command = arguments(line.text)
        assert command
        if command == ["index", "--update"]:
            change(folder / "Pictures")
        elif command[:2] == ["index", "photos"]:
            shutil.rmtree(folder / ".demo")  # the page shows what is printed of a new one
        done = run(folder, command)
        assert done.returncode == 0, f"{line}: {line.text}\n{done.stderr}"
        compare(block, line, done, folder)
        ran += 1
    assert ran


def compare(block: Piece, line: Piece, done: subprocess.CompletedProcess[str], folder: Path) -> None:
    """Compare what a page shows below a line with what the command printed in a folder, in form."""
    written = (done.stdout + done.stderr).replace(f"{folder}/", "").replace(CPU, CPU_OF_PAGES)
    printed = [form(row) for row in written.splitlines()]
    for row in shown(block, line):
        assert form(row) in printed, f"{line}: {row}\n{written}"


def test_lines_with_output_are_found() -> None:
    """Those of serve.md are compared by test_long_commands.py."""
    found = {line.page for block, line in CALLS if shown(block, line)}
    assert found == {"docs/explain.md", "docs/start.md", "docs/serve.md"}


def test_the_keys_that_a_page_lists(given: Path) -> None:
    """The keys of `lexlip search --json` are those that searching.md explains, all of them."""
    page = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
    said = re.search(r"^What `--json` has:.*?(?=\n\n|\Z)", page, re.MULTILINE | re.DOTALL)
    assert said
    answer = json.loads(run(given, ["search", "a cup of coffee", "--json"]).stdout)
    assert set(re.findall(r"`([a-z_]+)`", said[0])) == {*answer, *answer["hits"][0]}


@pytest.mark.parametrize(
    ("row", "same"),
    [
        (
            "15 photos, 480 postings, 67 kB in .demo, 0.9 s (17 photos/s)",
            "9 photos, 1,480 postings, 1.2 MB in .demo, 3 s (1 photos/s)",
        ),
        ("  1  0.362  photos/coffee.jpg", "  2  0.1  photos/coffee.jpg"),
        ("   table:0.128 bowl:0.084", "   cup:0.3 top:0.2 wood:0.1"),
    ],
)
def test_what_has_one_form(row: str, same: str) -> None:
    assert form(row) == form(same)


def test_what_has_another_form() -> None:
    assert form("  1  0.362  photos/coffee.jpg") != form("  1  photos/coffee.jpg  0.362")
    assert form("15 photos in .demo") != form("15 photos in .lexlip")
