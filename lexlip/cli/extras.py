"""What to install for what a lean installation lacks."""

from __future__ import annotations

_MODULES = {
    "train": ("torch", "torchvision", "timm", "transformers"),
    "dense": ("faiss",),
    "anserini": ("pyserini",),
    "mteb": ("mteb",),
    "draw": ("wordcloud", "matplotlib"),
    "mcp": ("mcp",),
    "ray": ("ray",),
}
EXTRAS = {
    module: f"pip install 'lexlip[{extra}]'" for extra, modules in _MODULES.items() for module in modules
}
"""By module of another package the command that installs it."""


def what_is_missing(error: ModuleNotFoundError) -> str | None:
    """Return a sentence about the package that could not be imported; None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    return f"this needs {module}: {EXTRAS[module]}" if module in EXTRAS else None
