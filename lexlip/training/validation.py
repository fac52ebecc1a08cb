"""How good a model is during training."""

from __future__ import annotations

from lexlip.data import Source, spread
from lexlip.measure.evaluate import Report, evaluate
from lexlip.measure.pairs import evaluate_pairs
from lexlip.measure.pool import embed_pool
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.open_engine import engine_for

PAIRED_PHOTOS = 100  # among which a cross-encoder is validated, all photos with all captions


def validate(model: DualEncoder, val: Source, workers: int) -> Report:
    """Return the recalls among all photos; for a cross-encoder among PAIRED_PHOTOS with a caption each."""
    if model.can.vectors:
        _, brute_force = engine_for(model, "exact")
        return evaluate(model, val, brute_force, workers=workers)
    assert isinstance(model, OneTransformer)
    captioned = val.captioned()
    few = [int(captioned[row]) for row in spread(len(captioned), PAIRED_PHOTOS)]
    return evaluate_pairs(model, embed_pool(model, val, workers, indices=few, captions=1))
