"""Photos and captions: where they are, how they are read, and drawn ones for tests."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lexlip.data.images import decode
    from lexlip.data.open import open_library, open_source, open_sources
    from lexlip.data.scenes import Scenes
    from lexlip.data.source import Given, Item, Skipped, Source, Unlisted, Unreadable, spread
    from lexlip.errors import UnreadableImage

__all__ = [
    "Given",
    "Item",
    "Scenes",
    "Skipped",
    "Source",
    "Unlisted",
    "Unreadable",
    "UnreadableImage",
    "decode",
    "open_library",
    "open_source",
    "open_sources",
    "spread",
]

_MODULES = ("errors", "data.source", "data.images", "data.scenes", "data.open")  # the lightest first


def __getattr__(name: str) -> object:
    """Load what is exported when it is asked for, from the first of the modules that has it."""
    if name in __all__:
        for module in _MODULES:
            loaded = import_module(f"lexlip.{module}")
            if hasattr(loaded, name):
                return getattr(loaded, name)
    raise AttributeError(f"module 'lexlip.data' has no attribute '{name}'")
