"""LexLIP: images and captions as a few weighted words, searched in an inverted index."""

import os
from importlib import import_module

# Idle OpenMP threads sleep rather than spin. Spinning ones take the cores from the processes that
# decode photos, and training on two cores becomes ten times slower. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_EXPORTS = {"LexLIP": "lexlip.models.lexlip", "PhotoSearch": "lexlip.search.photo_search"}


def __getattr__(name: str) -> object:
    """Load what is exported when it is asked for: `import lexlip` alone loads no torch."""
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'lexlip' has no attribute '{name}'")
