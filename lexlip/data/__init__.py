"""Photos and captions: where they lie, how they are read, and drawn ones for tests."""

from lexlip.data.images import UnreadableImage, decode
from lexlip.data.scenes import Scenes
from lexlip.data.source import Item, Skipped, Source, spread
from lexlip.data.sources import open_source

__all__ = ["Item", "Scenes", "Skipped", "Source", "UnreadableImage", "decode", "open_source", "spread"]
