"""The model that made an index."""

from __future__ import annotations

from pathlib import Path

from anserini_bridge import IndexMetadata, check_same_vocabulary
from lexlip.errors import ModelError
from lexlip.models.lexlip import LexLIP


def load_encoder(index: Path, metadata: IndexMetadata, model: str | None) -> LexLIP:
    """The model to encode queries, or more photos, of an index.

    Args:
        index: the index's folder.
        metadata: what it says about itself.
        model: name or folder of the model; None is the one that the index remembers.

    Raises:
        ModelError: the model is not there, or is not the one that made the index.
        VocabularyMismatch: its words are not those of the index.
    """
    name = model or metadata.extra.get("model")
    if name is None:
        raise ModelError(
            f"{index} does not say which model made it ({metadata.encoder}): name one with --model"
        )
    try:
        encoder = LexLIP.from_pretrained(name)
    except ModelError as error:
        if model is not None:
            raise
        raise ModelError(
            f"the index {index} was made with {metadata.encoder}, which cannot be loaded: {error};"
            " say with --model where it is, or index again"
        ) from error
    if encoder.identity != metadata.encoder:
        raise ModelError(
            f"the index {index} was made with {metadata.encoder}, but {name} is {encoder.identity}:"
            " give the model that made it (--model), or index again"
        )
    check_same_vocabulary(index, metadata, encoder.vocabulary.words)
    return encoder
