"""BE, CE, Joint and VLDeformer over a detector's regions, as in their papers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.errors import DataError
from lexlip.models.load import load_model
from tests.made_regions import drawn_regions, region_model
from tests.tiny import CAPTIONS, check_vectors, tiny_stage

NUMBERS = [3, 5, 1]


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.parametrize("kind", ["be", "vldeformer", "joint", "ce"])
@torch.no_grad()
def test_regions_that_are_not_there_count_for_nothing(kind: str, layers: int, framed: bool) -> None:
    """A photo is encoded, and paired, as it is in an array of its own length."""
    config = replace(region_model(kind, layers), framed_photos=framed)
    model, photos = tiny_stage(kind, config), drawn_regions(NUMBERS)
    alone = [photo[None, :number] for photo, number in zip(photos, NUMBERS, strict=True)]
    if model.can.vectors:
        expected = np.concatenate([model.encode_image(photo).toarray() for photo in alone])
        check_vectors(model.encode_image(photos), expected)
        assert np.abs(expected[0] - expected[1]).max() > 1e-3
    if model.can.pairs:
        pairs = np.array([(t, b) for t in range(len(CAPTIONS)) for b in range(3)])
        found = model.score_pairs(model.embed_photos(photos), CAPTIONS, pairs)
        for b, photo in enumerate(alone):
            rows = np.array([(t, 0) for t in range(len(CAPTIONS))])
            scores = model.score_pairs(model.embed_photos(photo), CAPTIONS, rows)
            np.testing.assert_allclose(found[pairs[:, 1] == b], scores, atol=2e-3)  # float16


@pytest.mark.parametrize("kind", ["be", "lightningdot", "dense"])
@pytest.mark.parametrize("pooling", [None, "mean"])
def test_saved_and_loaded(kind: str, pooling: str | None, tmp_path: Path) -> None:
    model, photos = tiny_stage(kind, replace(region_model(kind), pooling=pooling)), drawn_regions(NUMBERS)
    model.save(tmp_path)
    loaded = load_model(tmp_path).fold_batch_norms()
    assert loaded.config == model.config
    assert (loaded.encode_image(photos) != model.encode_image(photos)).nnz == 0
    with pytest.raises(DataError, match="takes the regions that a detector found"):
        loaded.encode_image(Image.new("RGB", (8, 8)))
