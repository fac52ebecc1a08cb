import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_photos
from tests.search.indexes import index_dense, index_words
from tests.tiny import tiny_dense, tiny_stage

Run = Callable[..., Any]
"""The fixture `lexlip`."""

ALL = "two dogs play with a white cat on the boat near the beach"
"""Shares a word with every photo."""

ELSEWHERE = "; to make it elsewhere, give --index ELSEWHERE"


def error(result: Any) -> str:
    """The one sentence that a failed command prints."""
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return str(line.removeprefix("Error: "))


def as_json(lexlip: Run, *arguments: object, code: int = 0) -> dict[str, Any]:
    """What a command says with --json: one line."""
    result = lexlip(*arguments[:1], "--json", *arguments[1:], code=code)
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    return found


def search(lexlip: Run, *arguments: object) -> dict[str, Any]:
    return as_json(lexlip, "search", *arguments)


def printed_without(run_python: Callable[..., Any], heavy: str, *arguments: object) -> list[str]:
    """The lines of a command in a Python of its own, which has loaded none of these modules."""
    code = (
        "import sys; from lexlip.cli import main; main(sys.argv[1:], standalone_mode=False);"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    result = run_python("-c", code, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    *lines, loaded = result.stdout.splitlines()
    assert loaded == "[]"
    return lines


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Six photos, with their index .lexlip beside the folder; not to be changed."""
    folder = tmp_path_factory.mktemp("library")
    photos = write_photos(folder / "photos")
    index_words(model_folder, photos, folder / ".lexlip")
    return photos


@pytest.fixture
def indexed(lexlip: Run, library: Path, tmp_path: Path) -> Run:
    """The command line where .lexlip is the index of `library`, to read only, and photos its photos."""
    for place in (library, library.with_name(".lexlip")):
        (tmp_path / place.name).symlink_to(place)
    return lexlip


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    """A folder of the models `ce`, `be` and `dense`, and of `vectors`, an index of `library` by the last."""
    folder = tmp_path_factory.mktemp("stages")
    tiny_stage("ce").save(folder / "ce")
    tiny_stage("be").save(folder / "be")
    tiny_dense().save(folder / "dense")
    index_dense(folder / "dense", library, folder / "vectors")
    return folder


@pytest.fixture
def staged(indexed: Run, made: Path, tmp_path: Path) -> Run:
    """The command line where these are, and the index of `library`, to read only."""
    for place in made.iterdir():
        (tmp_path / place.name).symlink_to(place)
    return indexed
