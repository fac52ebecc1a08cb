"""Every block of Python in the documentation compiles; those of tasks run, in the order of their page.

So does what `python -c` runs; what uploads a model uploads a tiny one to nowhere.
"""

from __future__ import annotations

import re
import shlex
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from lexlip.cli.demo import PHOTOS
from lexlip.models.model_folder import PACKAGED
from tests.docs.pages import Piece, blocks
from tests.docs.test_commands import lines
from tests.tiny import tiny_model

BLOCKS = list(blocks("python"))
OTHER_TOOLS = "docs/measure.md"
MILLION = "docs/notes/2026-11-26-engine-updates.md"  # of documents
TASKS = sorted({block.page for block in BLOCKS} - {OTHER_TOOLS, MILLION})
PROGRAMS = [
    Piece(line.page, line.line, shlex.split(line.text)[2])
    for block in blocks("")
    for line in lines(block)
    if re.match(r"python3? -c ", line.text)
]
"""What `python -c` runs."""
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
    assert {"README.md", "docs/start.md", "docs/python.md", "docs/lucene.md"} <= {
        block.page for block in BLOCKS
    }


@pytest.mark.parametrize("block", [*BLOCKS, *PROGRAMS], ids=str)
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


def test_pyserini_finds_what_lexlip_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyserini", reason="pyserini is not installed: pip install 'lexlip[anserini]'")
    import lexlip

    (block,) = (block for block in BLOCKS if "from pyserini.pyclass" in block.text)
    monkeypatch.chdir(folder)
    run(block, {})
    hits = [line.split() for line in capsys.readouterr().out.splitlines()]
    with lexlip.PhotoSearch(".lexlip") as photos:
        ours = photos.text("a cat with big eyes", k=3).hits
    assert [id for id, _ in hits] == [hit.id for hit in ours]
    assert [float(score) for _, score in hits] == pytest.approx([hit.score for hit in ours])


@pytest.mark.slow
def test_the_blocks_for_other_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With drawn scenes in place of the photos that mteb downloads."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed: pip install 'lexlip[mteb]'")
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from tests.measure.mteb_tasks import task

    monkeypatch.setattr(mteb, "get_tasks", lambda tasks: [task(name) for name in tasks])
    monkeypatch.setattr(mteb, "evaluate", partial(mteb.evaluate, cache=None))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if block.page == OTHER_TOOLS:
            run(block, names)
    scores = [result.scores["test"][0] for result in names["results"].task_results]
    assert [0 <= of_task["hit_rate_at_1"] <= 1 for of_task in scores] == [True, True]
    assert {"dogs", "snow"} <= {word for word, _ in names["words"]}
    assert (tmp_path / "mini-encoder").is_dir()


def test_a_line_uploads_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (program for program in PROGRAMS if "push_to_hub" in program.text)
    sent = []

    def push(folder: Path, name: str, private: bool) -> str:
        sent.append((name, private, sorted(path.name for path in folder.iterdir())))
        return "the page"

    monkeypatch.setattr("lexlip.models.dual_encoder.push", push)
    monkeypatch.chdir(tmp_path)
    tiny_model().save("own")
    run(line, {})
    ((name, private, files),) = sent
    assert (name, private) == ("me/own", False)
    assert {"config.json", "model.safetensors", "README.md"} <= set(files)


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
