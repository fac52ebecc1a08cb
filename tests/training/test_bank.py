import numpy as np
import pytest

from lexlip.data import Scenes
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.sparse.balance import NEAREST
from lexlip.sparse.quantize import quantize
from lexlip.sparse.topk import topk
from lexlip.training.bank import QUERY_TOPK, draw_balance
from tests.tiny import tiny_model


def test_a_bank_is_of_captions_and_of_other_photos() -> None:
    model, source = tiny_model(), Scenes(40, seed=3)
    balance = draw_balance(model, [source], seed=1, workers=0)
    [(_, images)] = PhotoVectors(model, source, batch=40, workers=0)
    photos = {row.tobytes() for row in quantize(topk(images, QUERY_TOPK)).toarray().astype(np.int64)}
    drawn = balance.captions.queries.toarray().astype(np.int64)
    assert len(drawn) == balance.photos.queries.shape[0] == 20  # half of the photos, a caption of each other
    assert sum(row.tobytes() in photos for row in drawn) == 20
    again = draw_balance(model, [source], seed=1, workers=0)
    assert (again.photos.queries != balance.photos.queries).nnz == 0
    assert again.photos.typical == balance.photos.typical


def test_too_few_photos() -> None:
    with pytest.raises(ValueError, match=f"a bank needs {NEAREST} photos"):
        draw_balance(tiny_model(), [Scenes(9, seed=3)], workers=0)
