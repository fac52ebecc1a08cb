"""Opens an index as the kind that it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anserini_bridge import CorruptIndex, read_header
from lexlip.errors import needing_extras
from lexlip.registry import INDEXES, load_class
from lexlip.sparse import SENTENCE_TOPK

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
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
        model: name or folder of the model; None is the one that made the index.
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
    kind = read_header(index).kind
    if kind not in INDEXES:
        raise CorruptIndex(f"{index} holds an index of an unknown kind, {kind!r}: build the index again")
    stage: FirstStage = load_class(INDEXES[kind])(index, model, query_encoder, query_topk, device)
    return stage
