from dataclasses import replace

import numpy as np
from scipy.sparse import vstack

from lexlip.bench.corpus.distractors import recombined
from lexlip.bench.corpus.documents import CHUNK, Documents
from tests.measure.pools import make_pool


def test_documents_are_real_ones_and_then_synthetic_ones() -> None:
    vectors = make_pool()
    ids_of_all = vectors.pool.image_ids
    documents = Documents(ids_of_all, vectors.images, CHUNK + 3, recombined, vectors.other_images, seed=5)
    for _ in range(2):
        chunks = list(documents)
        assert [len(ids) for ids, _ in chunks] == [40, CHUNK, 3]
        ids = [id for names, _ in chunks for id in names]
        assert len(documents) == len(ids) == len(set(ids))
        assert ids[:40] != ids_of_all
        rows = [ids_of_all.index(id) for id in ids[:40]]
        np.testing.assert_array_equal(chunks[0][1].toarray(), vectors.images[rows].toarray())
        assert ids[40:42] == ["synthetic/0", "synthetic/1"]
        made = vstack([rows for _, rows in chunks[1:]], format="csr")
        expected = vstack(list(recombined(vectors.images[10:], CHUNK + 3, seed=5)), format="csr")
        np.testing.assert_array_equal(made.toarray(), expected.toarray())
    assert [len(ids) for ids, _ in replace(documents, synthetic=0)] == [40]
