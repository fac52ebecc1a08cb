"""Photos and captions: where they are, how they are read, and drawn ones for tests."""

from lexlip.data.images import UnreadableImage, decode
from lexlip.data.open import open_library, open_source, open_sources
from lexlip.data.scenes import Scenes
from lexlip.data.source import Given, Item, Skipped, Source, Unlisted, Unreadable, spread

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
