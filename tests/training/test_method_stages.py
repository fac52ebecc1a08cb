"""The losses of the stages to compare with, as a method computes them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lexlip.config import ImageEncoderConfig, ModelConfig, ObjectiveConfig
from lexlip.training.batches import NOT_MASKED
from lexlip.training.hard_negatives import mix_tokens
from lexlip.training.method import Method
from lexlip.training.step import SkippedStep, backward, caption_loss, train_step
from tests.tiny import WITHOUT_DROPOUT, tiny_batch, tiny_method, tiny_stage
from tests.training.small_run import step_of

NONE: dict[str, Any] = {"contrastive": 0.0, "flops_image": 0.0, "flops_text": 0.0}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "be": {"triplet": 1.0},
    "ce": {"matching": 1.0},
    "joint": {"triplet": 0.5, "matching": 1.0},
    "vldeformer": {"contrastive": 1.0, "temperature": 0.2, "composed_negatives": True},
    "lightningdot": {"contrastive": 1.0, "temperature": 1.0, "vmlm": 0.7, "smrm": 0.4},
}


def method_of(kind: str, config: ModelConfig = WITHOUT_DROPOUT, **changes: Any) -> Method:
    objective = ObjectiveConfig(**{**NONE, **OBJECTIVES[kind], **changes})
    method = tiny_method(objective, tiny_stage(kind, config))
    if hasattr(method.model, "dropout"):
        method.model.dropout.p = 0.0
    return method.train()


@pytest.mark.parametrize("kind", ["ce", "joint"])
@torch.no_grad()
def test_each_caption_is_matched_with_its_photo_and_not_with_another_s(kind: str) -> None:
    method = method_of(kind).eval()
    model, batch = method.model, tiny_batch(method)
    embedded, total = model.embed_image(model.image_encoder(batch.photos.pixels)), 0.0
    for t, owner in enumerate(batch.owners):
        for ids, mask, label in (
            (batch.captions.ids, batch.captions.mask, 1),
            (batch.others.ids, batch.others.mask, 0),
        ):
            length = int(mask[t].sum())
            odds = model.pair_logits(embedded[owner, None], ids[t, None, :length], mask[t, None, :length])
            logits = torch.tensor([[0.0, float(odds)]])
            total += float(F.cross_entropy(logits, torch.tensor([label])))
    _, sums = method(batch)
    assert float(sums["matching"]) == pytest.approx(total, rel=1e-4)
    loss, parts = caption_loss(step_of(method, batch), sums)
    assert float(parts["matching"]) == pytest.approx(total / (2 * len(batch.captions.ids)), rel=1e-4)
    assert float(loss) == pytest.approx(float(parts["matching"]))


@pytest.mark.parametrize("kind", ["ce", "vldeformer"])
def test_a_photo_alone_has_no_negative_and_is_left_out(kind: str) -> None:
    method = method_of(kind)
    batch = tiny_batch(method, owners=(0, 0))
    assert len(batch.captions) == len(batch.photos) == 0
    optimizer = torch.optim.SGD(method.parameters())
    assert train_step(step_of(method, batch), optimizer) is SkippedStep.NO_PHOTO


@pytest.mark.parametrize("fused", [True, False])
@torch.no_grad()
def test_masked_words_are_told_from_states_and_the_photo(fused: bool) -> None:
    method = method_of("lightningdot", fused=fused).eval()
    model, batch = method.model, tiny_batch(method)
    images, total = model.raw_image(batch.photos.pixels), 0.0
    head = method.own_head
    for t, owner in enumerate(batch.owners):
        length = int(batch.captions.mask[t].sum())
        states = model.text_encoder(
            batch.masked.encoder_ids[t, None, :length], batch.captions.mask[t, None, :length]
        )[0]
        hidden = head.norm(F.gelu(head.dense(states + images[owner] if fused else states)))
        labels = batch.masked.encoder_labels[t, :length]
        kept = labels != NOT_MASKED
        logits = hidden[kept] @ head.decoder.t() + head.bias
        total += float(F.cross_entropy(logits, labels[kept], reduction="sum"))
    _, sums = method(batch)
    assert float(sums["vmlm"]) == pytest.approx(total, rel=1e-4)
    _, parts = caption_loss(step_of(method, batch), sums)
    masked = int((batch.masked.encoder_labels != NOT_MASKED).sum())
    assert float(parts["vmlm"]) == pytest.approx(total / masked, rel=1e-4)


CONVOLUTIONAL = replace(WITHOUT_DROPOUT, image=ImageEncoderConfig(name="mobilenetv2_035", size=64, layers=1))


@pytest.mark.parametrize("config", [WITHOUT_DROPOUT, CONVOLUTIONAL], ids=["ViT", "convolutional"])
@pytest.mark.parametrize(("fused", "loss"), [(True, "mse"), (False, "mse"), (True, "kl")])
@torch.no_grad()
def test_masked_patches_are_told_from_states_and_the_caption(
    config: ModelConfig, fused: bool, loss: str
) -> None:
    options = {"fused": fused, "smrm_loss": loss}
    method = method_of("lightningdot", config, vmlm=0.0, mask_patches=0.5, **options).eval()
    model, batch = method.model, tiny_batch(method, size=config.image.size)
    texts, total = model.raw_text(batch.captions.ids, batch.captions.mask), 0.0
    torch.manual_seed(5)
    if config is CONVOLUTIONAL:
        tokens = model.image_encoder.tokens(batch.photos.pixels)
        states, blank, targets = model.image_encoder.masked_tokens(tokens, 0.5)
    else:
        states, blank, targets = model.image_encoder.masked_pixels(batch.photos.pixels, 0.5)
    if loss == "kl":
        targets = model.image_encoder.tokens(batch.photos.pixels)[blank]
    targets_of = targets.split(int(blank[0].sum()))
    for t, owner in enumerate(batch.owners.tolist()):
        hidden = states[owner][blank[owner]]
        found = method.patch_head(hidden + method.patch_query(texts[t]) if fused else hidden)
        if loss == "mse":
            total += float((found - targets_of[owner]).square().mean())
            continue
        for patch, target in zip(found, targets_of[owner], strict=True):
            p, q = target.softmax(dim=0), patch.softmax(dim=0)
            total += float((p * (p / q).log()).sum()) / len(found)
    torch.manual_seed(5)
    _, sums = method(batch)
    assert float(sums["smrm"]) == pytest.approx(total, rel=1e-3)


@torch.no_grad()
def test_composed_vectors_are_those_of_composed_captions_and_mixed_photos() -> None:
    method = method_of("vldeformer").eval()
    model, batch = method.model, tiny_batch(method)
    torch.manual_seed(3)
    prefix = model.image_encoder.prefix_tokens
    mixed = model.pool_image(mix_tokens(model.image_encoder(batch.photos.pixels), prefix))
    torch.manual_seed(3)
    raw = method.raw(batch)
    torch.testing.assert_close(raw["composed_image"], mixed)
    expected = model.raw_text(batch.composed.ids, batch.composed.mask)
    torch.testing.assert_close(raw["composed_text"], expected)
    assert not torch.allclose(raw["composed_text"], raw["text"])


@pytest.mark.parametrize(
    ("kind", "turns"), [("lightningdot", ["contrastive", "vmlm", "smrm"]), ("joint", ["triplet", "matching"])]
)
def test_losses_that_alternate(kind: str, turns: list[str]) -> None:
    """One task a step; pairs need no vectors."""
    method = method_of(kind, alternate=True)
    batch = tiny_batch(method)
    for number in range(4):
        method.take_turn(number)
        parts, _ = backward(step_of(method, batch))
        turn = turns[number % len(turns)]
        assert {*turns} & parts.keys() == {turn}
        assert bool(method.raw(batch)) == (turn != "matching")
