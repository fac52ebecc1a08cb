"""Every block of Python in the documentation compiles; those of tasks run, in the order of their page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from lexlip.cli.demo import PHOTOS
from lexlip.models.model_folder import PACKAGED
from tests.docs.pages import Piece, blocks

BLOCKS = list(blocks("python"))
MEASUREMENTS = {"docs/engine.md", "docs/measure.md"}  # of a million documents; of downloaded ones
TASKS = sorted({block.page for block in BLOCKS} - MEASUREMENTS)
NAMES = ("chelsea.jpg", "coffee.jpg", "raccoon.jpg", "rocket.jpg")


def given() -> dict[str, Any]:
    """The names that pages take as known: three documents of four words, and two queries."""
    vectors = sparse.csr_matrix(np.array([[3, 0, 0, 1], [0, 2, 0, 5], [1, 1, 4, 0]], np.int32))
    return {
        "words": ["dog", "cat", "snow", "cup"],
        "ids": ["a", "b", "c"],
        "vectors": vectors,
        "queries": vectors[:2],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages take as there: a folder of photos, an index of it, and a photo."""
    if not (PACKAGED / "mini" / "config.json").exists():
        pytest.skip("no model is packaged")
    import lexlip

    folder = tmp_path_factory.mktemp("docs")
    (folder / "photos").mkdir()
    date = Image.Exif()
    date.get_ifd(0x8769)[0x9003] = "2015:04:08 12:00:00"  # DateTimeOriginal
    for name in NAMES:
        with Image.open(PHOTOS / name) as photo:
            photo.save(folder / "photos" / name, exif=date)
    shutil.copy(PHOTOS / "chelsea.jpg", folder / "photo.jpg")
    lexlip.index(folder / "photos", folder / ".lexlip")
    return folder


def test_blocks_are_found() -> None:
    assert {"README.md", "docs/start.md", "docs/searching.md", "docs/lucene.md"} <= {
        block.page for block in BLOCKS
    }


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_compiles(block: Piece) -> None:
    compile(block.text, block.page, "exec")


@pytest.mark.parametrize("page", TASKS)
def test_the_blocks_of_a_page(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    names = given()
    for block in BLOCKS:
        if block.page == page:
            run(block, names)
    if page == "README.md":
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == "4 photos, 0 skipped"
        assert shown[1].startswith("1 0.")
        assert "chelsea.jpg ['cat', " in shown[1]


def run(block: Piece, names: dict[str, Any]) -> None:
    """Run a block with the names of its page; a traceback has the page's own line numbers."""
    exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec"), names)


def test_what_a_user_can_fix_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The block that opens an index where there is none."""
    (block,) = (block for block in BLOCKS if "except lexlip.FixableError" in block.text)
    monkeypatch.chdir(tmp_path)
    run(block, {})
    assert capsys.readouterr().out.startswith("there is no index at .lexlip")
