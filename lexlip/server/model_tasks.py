"""What needs the image model, or takes long; it runs in the process of `lexlip.server.model_process`."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from lexlip.server.problems import Problem

SIDE = 960  # pixels of a heat map's longer side

Progress = Callable[[Any], None]


def make_tasks(index: str, model: str | None, device: str, pixels: int) -> dict[str, Callable[..., Any]]:
    """Return the tasks of an index by their names; nothing is loaded yet.

    Args:
        index: the index's folder.
        model, device: see `lexlip.search.stages.index_model.open_index`.
        pixels: of a picture that somebody sends, at most.
    """
    tasks = ModelTasks(Path(index), model, device, pixels)
    return {name: getattr(tasks, name) for name in ("load", "encode", "places", "heat", "update")}


class ModelTasks:
    """See `make_tasks`; each task runs in a thread of its own."""

    def __init__(self, index: Path, model: str | None, device: str, pixels: int) -> None:
        self.index, self.model, self.device, self.pixels = index, model, device, pixels
        self._lock = threading.Lock()
        self._loaded: tuple[str, Any] | None = None

    def _encoder(self) -> Any:
        """Return the model that made the index, which may be another one after it was made anew."""
        from anserini_bridge import read_header

        header = read_header(self.index)
        with self._lock:
            if self._loaded is None or self._loaded[0] != header.encoder:
                from lexlip.search.engines.shard import read_index_of_words
                from lexlip.search.stages.index_model import load_dense_encoder, load_encoder

                if header.kind == "dense":
                    encoder: Any = load_dense_encoder(self.index, header, self.model, self.device)
                else:
                    metadata = read_index_of_words(self.index)
                    encoder = load_encoder(self.index, metadata, self.model, self.device)
                self._loaded = header.encoder, encoder
            return self._loaded[1]

    def load(self, progress: Progress) -> None:
        """Load the model, which takes a few seconds."""
        self._encoder()

    def encode(self, data: bytes, progress: Progress) -> Any:
        """Return a picture as a query of the index.

        Raises:
            UnreadableImage: it is not an image, or too large.
        """
        from lexlip.data import decode

        check_pixels(data, self.pixels)
        encoder = self._encoder()
        return encoder.encode_image([decode(data, encoder.config.image.size)])

    def places(self, data: bytes, words: list[str], progress: Progress) -> dict[str, Any]:
        """Return where words are in a photo."""
        _, found = self._places(data, words)
        said = found.to_dict()
        return {name: said[name] for name in ("rows", "columns", "box", "words")}

    def heat(self, data: bytes, word: str, progress: Progress) -> bytes:
        """Return where a word is in a photo, as a PNG to lay over it."""
        from lexlip.explain.heat_map import overlay

        photo, found = self._places(data, [word])
        scale = min(1.0, SIDE / max(photo.size))
        size = max(1, round(photo.width * scale)), max(1, round(photo.height * scale))
        buffer = io.BytesIO()
        overlay(found, word, size).save(buffer, "PNG")
        return buffer.getvalue()

    def update(self, prune: bool, progress: Progress) -> str:
        """Make the index match its photos again; return what was done.

        Raises:
            FixableError: see `lexlip.cluster.shard_updating.update`.
        """
        from lexlip.cluster.shard_updating import update

        done = update(
            self.index,
            model=self.model,
            device=self.device,
            progress=lambda done, total: progress((done, total)),
            prune=prune,
        )
        numbers = {
            **{"added": done.added, "changed": done.changed, "moved": done.moved, "deleted": done.deleted},
            **{"unchanged": done.unchanged, "kept out of reach": done.kept, "skipped": len(done.skipped)},
        }
        said = [f"{number:,} {what}" for what, number in numbers.items() if number]
        return ", ".join([*said, f"{done.seconds:.1f} s"])

    def _places(self, data: bytes, words: list[str]) -> tuple[Image.Image, Any]:
        from lexlip.data import decode
        from lexlip.explain.word_places import places

        photo = decode(data, SIDE)
        return photo, places(self._encoder(), photo, words)


def check_pixels(data: bytes, most: int) -> None:
    """Refuse a picture of too many pixels before it is decoded.

    Raises:
        Problem: 413.
    """
    from lexlip.data import UnreadableImage
    from lexlip.data.images import open_image, quiet

    try:
        with quiet(), open_image(data) as image:
            pixels = image.width * image.height
    except UnreadableImage:  # who decodes it says what is wrong with it
        return
    if pixels > most:
        raise Problem(413, f"the picture has {pixels:,} pixels: send one of at most {most:,}")
