"""Whether photos are indexed again as they were, so that their index only needs an update."""

from __future__ import annotations

from pathlib import Path

from lexlip.data import Given
from lexlip.errors import FixableError
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

    One that cannot be read was not; nor was one of an older version, which cannot tell. Nothing is looked for
    but what `index.json` says: whether files are damaged, an update finds out.

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
