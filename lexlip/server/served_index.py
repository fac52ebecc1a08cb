"""The open index, as the calls of the API see it."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL import Image

from lexlip.data.photo_location import read_location
from lexlip.errors import DataError
from lexlip.retrieval.answer import Answer
from lexlip.retrieval.collection import locate
from lexlip.search.photo_search import PhotoSearch
from lexlip.server.photo_keys import key_of


class ServedIndex:
    """An index with what answers for it."""

    def __init__(self, index: str | Path, model: str | None = None, device: str = "auto") -> None:
        self.index = Path(index)
        self.photos = PhotoSearch(index, model, device=device)
        self.ids = set(self.photos.stage.searcher.ids())

    def close(self) -> None:
        self.photos.close()

    def text(self, query: str, k: int) -> dict[str, Any]:
        return self.body(self.photos.text(query, k))

    def body(self, answer: Answer) -> dict[str, Any]:
        body = answer.to_dict()
        for hit in body["hits"]:
            width, height = _size(hit["path"])
            hit.update(key=key_of(hit["id"]), width=width, height=height, taken=None)
        return {**body, "cursor": None, "cut": None, "suggestions": [], "without": []}

    def photo(self, id: str) -> dict[str, Any]:
        path = self.path(id)
        width, height = _size(path)
        stage = self.photos.stage
        words = stage._named(stage.searcher.vectors([id]), stage.engine.unit**0.5)
        return {
            **{"key": key_of(id), "id": id, "path": path, "width": width, "height": height, "taken": None},
            **{"camera": None, "captions": [], "keywords": [], "words": words},
        }

    def path(self, id: str) -> str:
        if id not in self.ids:
            raise DataError("the index holds no such photo")
        return locate(id, self.photos.stage.metadata.extra, self.index)

    def read(self, id: str) -> bytes:
        return read_location(self.path(id))

    def status(self) -> dict[str, Any]:
        metadata = self.photos.stage.metadata
        return {
            "index": str(self.index),
            "documents": metadata.documents,
            "kind": metadata.kind,
            "model": metadata.encoder,
            "snapshot": "1",
            "words": metadata.kind == "impact",
            "update": {"running": False, "done": 0, "total": 0, "message": ""},
            "limits": {},
        }


@lru_cache(maxsize=100_000)
def _size(path: str) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(read_location(path))) as image:
            return image.size
    except Exception:
        return 0, 0
