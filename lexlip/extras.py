"""What to install for what a lean installation lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lexlip.errors import MissingPackage

BRINGS = {
    "train": ("torch", "torchvision", "timm", "transformers", "snowballstemmer"),
    "dense": ("faiss",),
    "anserini": ("pyserini",),
    "mteb": ("mteb",),
    "draw": ("wordcloud", "matplotlib"),
    "mcp": ("mcp",),
    "ray": ("ray",),
}
"""By extra the modules of other packages that it is for."""

EXTRAS = {module: f"pip install 'lexlip[{extra}]'" for extra, modules in BRINGS.items() for module in modules}
"""By module of another package the command that installs it."""

IN_A_CLONE = "benchmarks"
"""The folder beside this package in a clone: engines to compare with. The package does not bring it."""


def what_is_missing(error: ModuleNotFoundError) -> str | None:
    """Return a sentence about the package that could not be imported; None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    if module == IN_A_CLONE:
        return (
            "this needs the engines to compare with, which are in a clone of LexLIP's repository: there, run"
            " pip install --editable '.[bench]'"
        )
    return f"this needs {module}: {EXTRAS[module]}" if module in EXTRAS else None


@contextmanager
def needing_extras() -> Iterator[None]:
    """Say what to install if the `with` block, or the function that this decorates, lacks a package.

    Raises:
        MissingPackage: it lacks one that an extra brings; for others ModuleNotFoundError stays.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = what_is_missing(error)
        if missing is None:
            raise
        raise MissingPackage(missing, name=error.name) from error
