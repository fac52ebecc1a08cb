"""A pool of photos and captions as vectors, made by hand."""

import numpy as np
from scipy.sparse import csr_matrix

from lexlip.measure.pool import EncodedPool

WORDS = [*"abcdefghijklmnopqrst"]


def make_pool(photos: int = 40, asking: int = 10, captions: int = 3, seed: int = 0) -> EncodedPool:
    """Photos of random words; those that ask and every third of the others have captions.

    A caption is the text of four words of its photo, one of which may be another, and their vector.
    """
    random = np.random.default_rng(seed)
    images = random.random((photos, 20)) * (random.random((photos, 20)) < 0.4)
    images[:, 0] += 0.1  # no photo is without words
    texts, rows, owners = [], [], []
    for photo in range(photos):
        for _ in range(captions if photo < asking or photo % 3 == 0 else 0):
            chosen = np.append(random.choice(np.flatnonzero(images[photo]), 3), random.integers(20))
            texts.append(" ".join(f"word{WORDS[word]}" for word in chosen))
            rows.append(np.bincount(chosen, minlength=20) * random.random(20))
            owners.append(photo)
    return EncodedPool(
        image_ids=[f"{photo}.jpg" for photo in range(photos)],
        images=csr_matrix(images.astype(np.float32)),
        text_ids=[f"{photo}.jpg#{number}" for number, photo in enumerate(owners)],
        texts=texts,
        captions=csr_matrix(np.array(rows, dtype=np.float32)),
        owners=np.array(owners),
        asking=asking * captions,
        skipped=[],
    )
