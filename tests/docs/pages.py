"""The documentation's pages, and what stands in their code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "notes").glob("*.md")),
]

_BLOCK = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")


class Piece(NamedTuple):
    """Code of a page: the page's path in the repository, the line where it starts, and its text."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _place(path: Path, text: str, at: int) -> tuple[str, int]:
    return str(path.relative_to(ROOT)), text.count("\n", 0, at) + 1


def blocks(language: str) -> Iterator[Piece]:
    """The fenced blocks of a language, or of none ("")."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            if block[1] == language:
                yield Piece(*_place(path, text, block.start(2)), block[2])


def spans() -> Iterator[Piece]:
    """Code within sentences and tables, on one line each."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        prose = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
        for span in _SPAN.finditer(prose):
            yield Piece(*_place(path, prose, span.start()), " ".join(span[1].split()))
