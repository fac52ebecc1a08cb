"""The model that made an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anserini_bridge import IndexMetadata, check_same_vocabulary
from lexlip.errors import ModelError
from lexlip.models.folder import model_folder, read_description
from lexlip.models.queries import TextQueries

if TYPE_CHECKING:
    from lexlip.models.dual_encoder import QueryEncoder
    from lexlip.models.lexlip import LexLIP


def load_encoder(index: Path, metadata: IndexMetadata, model: str | None) -> LexLIP:
    """The model to encode photos, as queries or for an index.

    Args:
        index: the index's folder.
        metadata: what it says about itself.
        model: name or folder of the model; None is the one that the index remembers.

    Raises:
        ModelError: the model is not there, or is not the one that made the index.
        VocabularyMismatch: its words are not those of the index.
    """
    from lexlip.models.lexlip import LexLIP

    with _model_of(index, metadata, model) as folder:
        encoder = LexLIP.from_pretrained(folder).fold_batch_norms()
    check_same_vocabulary(index, metadata, encoder.vocabulary.words)
    return encoder


def load_queries(
    index: Path, metadata: IndexMetadata, model: str | None, encoder: QueryEncoder
) -> TextQueries:
    """What encodes sentences for an index; the rest is as for `load_encoder`."""
    with _model_of(index, metadata, model) as folder:
        queries = TextQueries(folder, encoder)
    check_same_vocabulary(index, metadata, queries.vocabulary.words)
    return queries


@contextmanager
def _model_of(index: Path, metadata: IndexMetadata, model: str | None) -> Iterator[Path]:
    """The folder of the model that made an index; what the `with` block raises of it is explained."""
    name = model or metadata.extra.get("model")
    if name is None:
        raise ModelError(
            f"{index} does not say which model made it ({metadata.encoder}): name one with --model"
        )
    try:
        folder = model_folder(name)
        identity = read_description(folder).get("identity")
        if identity == metadata.encoder:
            yield folder
            return
    except ModelError as error:
        if model is not None:
            raise
        raise ModelError(
            f"the index {index} was made with {metadata.encoder}, which cannot be loaded: {error};"
            " say with --model where it is, or index again"
        ) from error
    raise ModelError(
        f"the index {index} was made with {metadata.encoder}, but {name} is {identity}:"
        " give the model that made it (--model), or index again"
    )
