"""Indexes of each kind, made without the command line."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from anserini_bridge import read_metadata_as
from anserini_bridge.storage import fields_checksum
from lexlip.data import Source, open_source
from lexlip.indexing.bm25 import index_captions
from lexlip.indexing.dense import index_vectors
from lexlip.indexing.impact import index_photos
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.search.engines.faiss_index import FaissIndex
from lexlip.search.stages.dense import DenseMetadata, load_vectors
from tests.tiny import tiny_dense

LISTED = 1e9  # in 2001, before anything was written


def index_words(model: Path, photos: Path | Source, index: Path, **options: Any) -> Path:
    """Index a folder by the words of a saved model."""
    encoder = LexLIP.from_pretrained(model).fold_batch_norms()
    index_photos(encoder, str(model), _source(photos), LISTED, index, workers=0, **options)
    return index


def index_dense(model: Path, photos: Path | Source, index: Path, **options: Any) -> Path:
    """Index a folder by the vectors of a saved dense model."""
    encoder = Dense.from_pretrained(model).fold_batch_norms()
    index_vectors(encoder, str(model), _source(photos), LISTED, index, workers=0, **options)
    return index


def index_bm25(photos: Path | Source, index: Path, **options: Any) -> Path:
    """Index a folder by its captions."""
    index_captions(_source(photos), LISTED, index, **options)
    return index


def open_vectors(index: Path) -> tuple[DenseMetadata, FaissIndex]:
    """What a dense index says about itself, and its vectors."""
    metadata = read_metadata_as(DenseMetadata, index)
    return metadata, load_vectors(index, metadata)


def change_header(index: Path, **fields: Any) -> None:
    """Change what index.json says, as another version may have written it; None removes a field."""
    file = index / "index.json"
    changed = {**json.loads(file.read_text()), **fields}
    kept = {name: value for name, value in changed.items() if value is not None}
    file.write_text(json.dumps({**kept, "checksum": fields_checksum(kept)}))


def _source(photos: Path | Source) -> Source:
    return open_source(photos) if isinstance(photos, Path) else photos


@dataclass(frozen=True)
class Indexed:
    """Six photos of `write_photos`, and an index of each kind.

    Attributes:
        photos: their folder.
        words, dense, bm25: the indexes' folders.
        dense_model: the folder of the model of `dense`.
    """

    photos: Path
    words: Path
    dense: Path
    bm25: Path
    dense_model: Path

    @classmethod
    def of(cls, photos: Path, model: Path) -> Self:
        """Make them beside the folder of photos, that of words by a saved model."""
        folder = photos.parent
        tiny_dense().save(folder / "dense-model")
        return cls(
            photos,
            index_words(model, photos, folder / "words"),
            index_dense(folder / "dense-model", photos, folder / "dense"),
            index_bm25(photos, folder / "bm25"),
            folder / "dense-model",
        )


def is_open(index: Path) -> bool:
    """Whether this process holds files of an index in Lucene, which maps them into memory."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return f" {index}/data-" in maps
