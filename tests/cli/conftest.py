import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_photos
from tests.search.indexes import index_words

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
