"""What an index was made with: whether the same photos only update it, and which settings an update takes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from anserini_bridge import IndexMetadata, IndexNotFound, read_header, read_metadata
from lexlip.data import Given
from lexlip.errors import ConfigError, DataError, FixableError
from lexlip.models.model_folder import model_folder, read_description
from lexlip.retrieval.collection import check_same_collection, check_stored, given_again, store_given
from lexlip.search.engines.shard import read_index_of_words
from lexlip.sparse.balance import scheme_of
from lexlip.sparse.quantize import Scheme


def is_made_so(
    index: Path,
    kind: str,
    given: Given,
    model: str | Path,
    topk_words: int | None,
    scheme: Scheme | None,
) -> bool:
    """Return whether an index is of a kind of words, and was made of these photos, with this model and so.

    One that cannot be read was not; nor was one of an older version, which cannot tell. Only `index.json` is
    read: whether files are damaged, an update finds out.

    Args:
        index: its folder, which may be missing.
        kind: "impact" or "sharded".
        given: the photos; where they are counts, not how that is written.
        model, topk_words, scheme: see `lexlip.indexing.api.index`; the model is one of words.
    """
    try:
        metadata = read_index_of_words(index)
        check_stored(index, metadata)
        if metadata.kind != kind or "given" not in metadata.extra:
            return False
        if kind == "impact" and "photos" not in metadata.extra:
            return False
        now = {"given": store_given(given, index)}
        check_same_collection(metadata.extra, now, index)
        before = given_again(metadata.extra, index)
        folder = model_folder(model)
        identity = read_description(folder).get("identity")
    except FixableError:
        return False
    settings = given.split, given.exclude, given.include, identity, topk_words, scheme or scheme_of(folder)
    made_with = metadata.encoder, metadata.topk, metadata.quantization["scheme"]
    return settings == (before.split, before.exclude, before.include, *made_with)


def made_with(index: Path, topk_words: int | Literal["all"] | None, scheme: Scheme | None) -> IndexMetadata:
    """Return what an index of words says about itself, if it was made with these settings; None is any."""
    try:
        header = read_header(index)
    except IndexNotFound:
        raise DataError(f"there is no index {index} to update: index once without --update") from None
    if header.kind == "sharded":
        raise ConfigError(f"{index} is in shards: update it with `lexlip index --update`")
    if header.kind != IndexMetadata.kind:
        raise ConfigError(
            f"the index {index} was made with {header.encoder}, and only an index of words can be updated:"
            " index without --update"
        )
    metadata = read_metadata(index)
    check_stored(index, metadata)
    check_settings(index, metadata, topk_words, scheme)
    return metadata


def check_settings(
    index: Path, metadata: IndexMetadata, topk_words: int | Literal["all"] | None, scheme: Scheme | None
) -> None:
    """Raise ConfigError if an index was made with other settings than the given ones; None is any."""
    for option, was, given in (
        ("--topk", metadata.topk or "all", topk_words),
        ("--quantization", metadata.quantization.get("scheme"), scheme),
    ):
        if given is not None and given != was:
            raise ConfigError(
                f"the index {index} was made with {option} {was}, not {given}: leave {option} out,"
                " or index without --update"
            )
