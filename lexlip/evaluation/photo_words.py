"""The heaviest words of photos, and which of them their captions hold."""

from __future__ import annotations

from collections.abc import Sequence

from lexlip.data import Skipped, Source
from lexlip.encoding import PhotoVectors
from lexlip.evaluation.encoded import caption_tokens
from lexlip.evaluation.recall import is_held
from lexlip.models.lexlip import LexLIP
from lexlip.search.contact_sheet import PhotoWords
from lexlip.sparse.topk import topk


def photo_words(
    model: LexLIP,
    source: Source,
    number: int,
    indices: Sequence[int],
    workers: int = 2,
    progress: bool = False,
) -> tuple[list[PhotoWords], list[Skipped]]:
    """What photos are to a model.

    Args:
        model: that encodes them.
        source: where they are.
        number: of words of a photo, the heaviest.
        indices: of the photos in the source.
        workers: processes that decode photos.
        progress: show a progress bar.

    Returns:
        Photos that could be read, and the others with the reason.

    Raises:
        DataError: none of the photos could be read.
    """
    photos = PhotoVectors(
        model, source, workers=workers, progress="photos" if progress else None, indices=indices
    )
    row_of = {source.items[row].id: row for row in indices}
    found = []
    for ids, vectors in photos:
        for id, entries in zip(ids, topk(vectors, number), strict=True):
            captions = source.items[row_of[id]].captions
            tokens = caption_tokens(model, captions)
            heaviest = sorted(zip(entries.indices, entries.data, strict=True), key=lambda entry: -entry[1])
            found.append(
                PhotoWords(
                    id=id,
                    path=source.path(row_of[id]),
                    words={model.vocabulary.words[column]: float(weight) for column, weight in heaviest},
                    held=[
                        model.vocabulary.words[column]
                        for column, _ in heaviest
                        if is_held(column, model.vocabulary, tokens)
                    ],
                    captions=captions,
                )
            )
    if not found:
        raise photos.none_read()
    return found, photos.skipped
