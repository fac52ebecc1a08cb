"""The model that made an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anserini_bridge import IndexHeader, IndexMetadata, check_same_vocabulary
from lexlip.errors import ModelError
from lexlip.models.folder import BM25, kind_of, model_folder, read_description
from lexlip.models.queries import TextQueries

if TYPE_CHECKING:
    from lexlip.models.encoder import Encoder, QueryEncoder
    from lexlip.models.lexlip import LexLIP


def load_encoder(index: Path, metadata: IndexMetadata, model: str | None) -> LexLIP:
    """The model to encode photos, as queries or for an index of words.

    Args:
        index: the index's folder.
        metadata: what it says about itself.
        model: name or folder of the model; None is the one that the index remembers.

    Raises:
        ModelError: the model is not there, or is not the one that made the index.
        VocabularyMismatch: its words are not those of the index.
    """
    from lexlip.models.lexlip import LexLIP

    with _model_of(index, metadata, model) as name:
        encoder = LexLIP.from_pretrained(name).fold_batch_norms()
    check_same_vocabulary(index, metadata, encoder.vocabulary.words)
    return encoder


def load_queries(
    index: Path, metadata: IndexMetadata, model: str | None, encoder: QueryEncoder
) -> TextQueries:
    """What encodes sentences for an index of words; the rest is as for `load_encoder`."""
    with _model_of(index, metadata, model) as name:
        queries = TextQueries(name, encoder)
    check_same_vocabulary(index, metadata, queries.vocabulary.words)
    return queries


def load_dense_encoder(index: Path, metadata: IndexHeader, model: str | None) -> Encoder:
    """The model to encode queries for a dense index; the rest is as for `load_encoder`."""
    from lexlip.models.kinds import load_model

    with _model_of(index, metadata, model) as name:
        encoder = load_model(name).fold_batch_norms()
    if _digest(encoder.identity) != _digest(metadata.encoder):
        raise _another(index, metadata, name, encoder.identity)
    return encoder


def check_no_model(index: Path, metadata: IndexHeader, model: str | None) -> None:
    """Raises ModelError if a model is named for an index that none made."""
    with _model_of(index, metadata, model or BM25):
        pass


@contextmanager
def _model_of(index: Path, metadata: IndexHeader, model: str | None) -> Iterator[str]:
    """The name of the model that made an index; what the `with` block raises of it is explained."""
    name = model or metadata.extra.get("model")
    if name is None:
        raise ModelError(
            f"{index} does not say which model made it ({metadata.encoder}): name one with --model"
        )
    try:
        identity = _identity_of(name, metadata)
        if identity == metadata.encoder:
            yield name
            return
    except ModelError as error:
        if model is not None:
            raise
        raise ModelError(
            f"the index {index} was made with {metadata.encoder}, which cannot be loaded: {error};"
            " say with --model where it is, or index again"
        ) from error
    raise _another(index, metadata, name, identity)


def _identity_of(name: str, metadata: IndexHeader) -> str | None:
    """What a model calls itself, without loading it; of a CLIP model only its weights tell."""
    kind = kind_of(name)
    if kind == BM25:
        return BM25
    if kind == "clip":
        return metadata.encoder if metadata.kind == "dense" else "a model of transformers"
    identity: str | None = read_description(model_folder(name)).get("identity")
    return identity


def _another(index: Path, metadata: IndexHeader, name: str, identity: str | None) -> ModelError:
    return ModelError(
        f"the index {index} was made with {metadata.encoder}, but {name} is {identity}:"
        " give the model that made it (--model), or index again"
    )


def _digest(identity: str) -> str:
    """An identity less the name, which of a CLIP model is that of its folder."""
    return identity.rpartition("@")[2]
