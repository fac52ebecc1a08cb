"""Opens an index of any kind, and the model that made it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anserini_bridge import CorruptIndex, IndexHeader, IndexMetadata, check_same_vocabulary
from anserini_bridge.metadata import read_searched_header
from lexlip.errors import ModelError, needing_extras
from lexlip.models.model_folder import (
    check_model,
    is_hub_name,
    is_packaged,
    kind_of,
    model_folder,
    name_here,
    read_description,
)
from lexlip.queries.text_queries import TextQueries
from lexlip.registry import BM25, INDEXES, MODELS, load_class
from lexlip.retrieval.collection import check_stored
from lexlip.sparse import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.models.contract import Encoder, QueryEncoder
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder
    from lexlip.retrieval.first_stage import FirstStage


@needing_extras()
def open_index(
    index: str | Path,
    model: str | None = None,
    query_encoder: QueryEncoder = "network",
    query_topk: int | None = SENTENCE_TOPK,
    device: str = "auto",
) -> FirstStage:
    """Open an index of any kind with what encodes queries for it.

    Args:
        index: the index's folder.
        model: name or folder of the model; None is the one that made the index. Anserini's does not name it.
        query_encoder: how sentences become vectors; a dense index takes "network" only, captions need none.
        query_topk: words that a sentence keeps if the index is one of words; None keeps all.
        device: where pictures, and sentences for dense vectors, are encoded; see
            `lexlip.machine.device.pick_device`. An index of words encodes sentences without it.

    Raises:
        ModelError: the model does not exist, or did not make the index.
        ConfigError: there is no such device.
        MissingPackage: this kind of index needs a package that an extra brings.
        BridgeError: there is no index, or it cannot be read (see anserini_bridge.errors).
    """
    index = Path(index)
    kind = read_searched_header(index).kind
    if kind not in INDEXES:
        raise CorruptIndex(f"{index} holds an index of an unknown kind, {kind!r}: build the index again")
    stage: FirstStage = load_class(INDEXES[kind])(index, model, query_encoder, query_topk, device)
    return stage


def load_encoder(
    index: Path, metadata: IndexMetadata, model: str | None, device: str = "auto"
) -> LexLIP | PhotoEncoder:
    """Load the model that encodes photos, as queries or for an index of words.

    The model is a name or a folder; None is the one that the index, which `metadata` is of, names.

    Raises:
        ModelError: the model does not exist, or did not make the index.
        ConfigError: there is no such device.
        VocabularyMismatch: its words are not those of the index.
    """
    from lexlip.queries.photo_encoder import open_encoder

    with _model_of(index, metadata, model) as name:
        encoder = open_encoder(name, device)
    check_same_vocabulary(index, metadata, encoder.vocabulary.words)
    return encoder


def load_queries(
    index: Path, metadata: IndexMetadata, model: str | None, encoder: QueryEncoder
) -> TextQueries:
    """Load what encodes sentences for an index of words; see `load_encoder` for the rest."""
    with _model_of(index, metadata, model) as name:
        queries = TextQueries(name, encoder)
    check_same_vocabulary(index, metadata, queries.vocabulary.words)
    return queries


def load_dense_encoder(
    index: Path, metadata: IndexHeader, model: str | None, device: str = "auto"
) -> Encoder:
    """Load the model that encodes queries for a dense index; see `load_encoder` for the rest."""
    from lexlip.models.load import load_model

    with _model_of(index, metadata, model) as name:
        encoder = load_model(name, device).fold_batch_norms()
    if _digest(encoder.identity) != _digest(metadata.encoder):
        raise _another(index, metadata, name, encoder.identity)
    return encoder


def check_encoder(index: Path, metadata: IndexHeader, model: str | None) -> str:
    """Return the name of the model that made an index; ModelError: see `load_encoder`, or it has changed."""
    with _model_of(index, metadata, model) as name:
        check_model(name)
    return name


def check_no_model(index: Path, metadata: IndexHeader, model: str | None) -> None:
    """Raise ModelError if a model is named for an index that no model made."""
    with _model_of(index, metadata, model or BM25):
        pass


def was_replaced(metadata: IndexHeader) -> bool:
    """Return whether an upgrade has put another packaged model in the place of the one that made an index.

    Both have the same name: the model of an older index may also have been a folder where it was made.
    """
    name = metadata.extra.get("model")
    if name is None or not is_packaged(name):
        return False
    was, now = metadata.encoder, str(_identity_of(name, metadata))
    return was != now and was.partition("@")[0] == now.partition("@")[0]


@contextmanager
def _model_of(index: Path, metadata: IndexHeader, model: str | None) -> Iterator[str]:
    """Give the name of the model that made an index; explain a ModelError that the `with` block raises."""
    check_stored(index, metadata)
    name = model or metadata.extra.get("model")
    if name is None:
        raise ModelError(
            f"{index} does not say where the model is that made it ({metadata.encoder}): name it with --model"
        )
    try:
        if not model and is_hub_name(name):  # the index names it, which a stranger may have made
            name = name_here(name)
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
    if name == metadata.extra.get("model") and was_replaced(metadata):
        import shlex

        raise ModelError(
            f"the index {index} was made with {metadata.encoder}, before {identity} was packaged: `lexlip"
            f" index --update --index {shlex.quote(str(index))}` encodes its photos anew; until then --model"
            f" FOLDER answers, with {metadata.encoder.replace('@', '-')}.tar.gz of a release unpacked there"
        )
    raise _another(index, metadata, name, identity)


def _identity_of(name: str, metadata: IndexHeader) -> str | None:
    """Return a model's identity without loading it; of one of another library only the weights tell."""
    kind = kind_of(name)
    if kind == BM25:
        return BM25
    if kind in MODELS and not MODELS[kind].trained_here:
        return metadata.encoder if metadata.kind == "dense" else "a model of another library"
    identity: str | None = read_description(model_folder(name)).get("identity")
    return identity


def _another(index: Path, metadata: IndexHeader, name: str, identity: str | None) -> ModelError:
    other = f"not with {name}" if identity in (None, name) else f"and {name} is {identity}"
    return ModelError(
        f"the index {index} was made with {metadata.encoder}, {other}:"
        " give the model that made it (--model), or index again"
    )


def _digest(identity: str) -> str:
    """Return an identity without the name, which of a model of another library is that of its folder."""
    return identity.rpartition("@")[2]
