"""Lines of the papers' own tables: they stand under one's own, marked as the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

T2I = ("t2i R@1", "t2i R@5", "t2i R@10")
I2T = ("i2t R@1", "i2t R@5", "i2t R@10")
"""Keys of recalls; the papers call the first image retrieval and the second text retrieval."""


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A line of a paper's table.

    Attributes:
        name: of the model, as in the paper.
        setting: what it was measured on, as far as that is known; else empty.
        figures: by `Column.key`, as in the paper; those that it does not give are missing.
    """

    name: str
    setting: str = ""
    figures: Mapping[str, float | str]

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"paper: {self.name}", self.setting]))

    def to_dict(self) -> dict[str, Any]:
        """Return the line as `--json` prints it."""
        return {"model": self.name, "setting": self.setting, "figures": dict(self.figures)}


def quote(keys: Sequence[str], lines: str, *settings: str) -> tuple[Quoted, ...]:
    """Read lines of a paper's table.

    Args:
        keys: of the figures; of each setting's, if there are several.
        lines: a name, "|" and figures. "-" is one that the paper does not give; "_" is a space in one that is
            not a number.
        settings: those that a line has figures of, one after another.

    Returns:
        All lines of the first setting, then those of the next; lines without any figure are left out.
    """
    parsed = [line.split("|") for line in filter(None, map(str.strip, lines.splitlines()))]
    quoted = []
    for place, setting in enumerate(settings or ("",)):
        start = place * len(keys)
        for name, figures in parsed:
            texts = figures.split()
            assert len(texts) == len(keys) * max(1, len(settings)), name
            given = dict(zip(keys, map(_figure, texts[start : start + len(keys)]), strict=True))
            known = {key: value for key, value in given.items() if value is not None}
            if known:
                quoted.append(Quoted(name=name.strip(), setting=setting, figures=known))
    return tuple(quoted)


def _figure(text: str) -> float | str | None:
    if text == "-":
        return None
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text.replace("_", " ")
