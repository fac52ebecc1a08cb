"""How readable a model's words are: words@10, and the heaviest words of photos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.data import Skipped, Source
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.search.contact_sheet import PhotoWords
from lexlip.sparse.top_words import topk
from lexlip.sparse.word_chances import as_shown
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.vocabulary import Vocabulary, caption_words, is_held, is_sign

if TYPE_CHECKING:
    from lexlip.models.lexlip import LexLIP


def words_at_10(
    images: csr_matrix,
    vocabulary: Vocabulary,
    said: Sequence[Collection[int]],
    special: Collection[int],
) -> float:
    """Return the share of an image's 10 first words that its captions contain, averaged over images.

    Special pieces and punctuation are left out of the ten; a function word never counts as contained; an
    image with fewer than ten words is still divided by ten.

    Args:
        images: [n, V], by which the words are shown: their weights, or the chances that people say them.
        vocabulary: the V words.
        said: for each image the columns of the words in its captions.
        special: the tokenizer ids of special pieces.
    """
    ignored = np.array(
        [is_sign(w) or int(t) in special for w, t in zip(vocabulary.words, vocabulary.token_ids, strict=True)]
    )
    counted = csr_matrix(images.multiply(~ignored[None, :]))
    heaviest = topk(counted, 10)
    hits = 0
    for row, held in enumerate(said):
        columns = heaviest.indices[heaviest.indptr[row] : heaviest.indptr[row + 1]]
        hits += sum(is_held(column, vocabulary, held) for column in columns)
    return hits / max(1, 10 * len(said))


@dataclass(frozen=True)
class WordsScale:
    """What words@10 can be compared with, on the same photos.

    Attributes:
        chance: words@10 of the ten words that the captions of most photos contain, given to every photo.
        human: the share of a caption's words that the photo's other captions contain, averaged over captions;
            None if no photo has several captions.
    """

    chance: float
    human: float | None


def words_scale(vocabulary: Vocabulary, captions_of: Sequence[Sequence[Collection[int]]]) -> WordsScale:
    """Return what words@10 can be compared with, given each image's captions as columns of their words."""
    counted = {
        column
        for column, word in enumerate(vocabulary.words)
        if not is_sign(word) and word.lower() not in FUNCTION_WORDS
    }
    photos: Counter[int] = Counter()
    shares = []
    for captions in captions_of:
        words = [counted.intersection(held) for held in captions]
        photos.update(set().union(*words))
        for number, own in enumerate(words):
            others = set().union(*words[:number], *words[number + 1 :])
            if own and len(words) > 1:
                shares.append(len(own & others) / len(own))
    ten = sum(number for _, number in photos.most_common(10))
    human = sum(shares) / len(shares) if shares else None
    return WordsScale(ten / max(1, 10 * len(captions_of)), human)


def photo_words(
    model: LexLIP,
    source: Source,
    number: int,
    indices: Sequence[int],
    workers: int = 2,
    progress: bool = False,
) -> tuple[list[PhotoWords], list[Skipped]]:
    """Return so many words that a model sees in photos, and which of them the captions contain.

    The first are the likeliest if the model knows how likely people are to say a word, else the heaviest.

    Returns:
        The photos of these rows of the source that could be read; the others with the reason.

    Raises:
        DataError: no photo could be read.
    """
    photos = PhotoVectors(
        model, source, workers=workers, progress="photos" if progress else None, indices=indices
    )
    row_of = {source.items[row].id: row for row in indices}
    words, found = model.vocabulary.words, []
    for ids, vectors in photos:
        for row, id in enumerate(ids):
            captions = source.items[row_of[id]].captions
            known = set().union(*caption_words(model.vocabulary, model.tokenizer, captions))
            first = as_shown(vectors[row], model.likely)[:number]
            held = [words[column] for column, _ in first if is_held(column, model.vocabulary, known)]
            weighted = {words[column]: weight for column, weight in first}
            found.append(PhotoWords(id, source.path(row_of[id]), weighted, held, captions))
    if not found:
        raise photos.none_read()
    return found, photos.skipped
