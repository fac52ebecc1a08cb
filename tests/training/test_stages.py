"""The losses of the stages to compare with, as a trainee computes them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lexlip.config import Config, ImageEncoderConfig, ModelConfig, ObjectiveConfig, OptimConfig
from lexlip.errors import ConfigError
from lexlip.training.batches import Collate, Key, Sample
from lexlip.training.loss import Totals, masked_loss
from lexlip.training.masking import NOT_MASKED
from lexlip.training.distributed import Processes
from lexlip.training.step import backward, train_step
from lexlip.training.trainee import Trainee, mix_tokens
from tests.tiny import CAPTIONS, WITHOUT_DROPOUT, tiny_batch, tiny_photos, tiny_stage, tiny_trainee, words_of

NONE: dict[str, Any] = {"contrastive": 0.0, "flops_image": 0.0, "flops_text": 0.0}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "be": {"triplet": 1.0},
    "ce": {"matching": 1.0},
    "joint": {"triplet": 0.5, "matching": 1.0},
    "vldeformer": {"contrastive": 1.0, "temperature": 0.2, "composed_negatives": True},
    "lightningdot": {"contrastive": 1.0, "temperature": 1.0, "vmlm": 0.7, "smrm": 0.4},
}
OFF = torch.amp.GradScaler("cpu", enabled=False)
ALONE = Processes("cpu")


def trainee_of(kind: str, config: ModelConfig = WITHOUT_DROPOUT, **changes: Any) -> Trainee:
    objective = ObjectiveConfig(**{**NONE, **OBJECTIVES[kind], **changes})
    trainee = tiny_trainee(objective, tiny_stage(kind, config))
    if hasattr(trainee.model, "dropout"):
        trainee.model.dropout.p = 0.0
    return trainee.train()


def gradients(trainee: Trainee, micro_batch: int | None = None, batch: Any = None) -> dict[str, torch.Tensor]:
    batch = tiny_batch(trainee) if batch is None else batch
    config = OptimConfig(micro_batch=micro_batch, precision="fp32")
    backward(trainee, batch, config, 1.0, ALONE, Totals.of(batch, ALONE), OFF)
    found = {n: p.grad.clone() for n, p in trainee.named_parameters() if p.grad is not None}
    trainee.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("micro_batch", [1, 2, 64])
@pytest.mark.parametrize("kind", ["be", "ce", "joint", "lightningdot"])
def test_the_gradient_does_not_depend_on_the_micro_batch(kind: str, micro_batch: int) -> None:
    trainee = trainee_of(kind, **({"smrm": 0.0} if kind == "lightningdot" else {}))  # which patches is drawn
    expected = gradients(trainee)
    found = gradients(trainee, micro_batch)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5, msg=name)


UNUSED = {
    "be": {"model.classifier.weight", "model.classifier.bias"},
    "vldeformer": {"model.classifier.weight", "model.classifier.bias"},
}


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_parameter_of_use_gets_a_gradient(kind: str) -> None:
    trainee = trainee_of(kind)
    found = gradients(trainee)
    without = {name for name, _ in trainee.named_parameters()} - found.keys()
    assert without <= UNUSED.get(kind, set()) | {
        "model.text_encoder.body.embeddings.token_type_embeddings.weight",
    }


@pytest.mark.parametrize("kind", ["ce", "joint"])
@torch.no_grad()
def test_each_caption_is_matched_with_its_photo_and_not_with_another_s(kind: str) -> None:
    trainee = trainee_of(kind).eval()
    model, batch = trainee.model, tiny_batch(trainee)
    embedded, total = model.embed_image(model.image_encoder(batch.pixels)), 0.0
    for t, owner in enumerate(batch.image_of_text):
        for ids, mask, label in (
            (batch.ids, batch.mask, 1),
            (batch.other_ids, batch.other_mask, 0),
        ):
            length = int(mask[t].sum())
            odds = model.pair_logits(embedded[owner, None], ids[t, None, :length], mask[t, None, :length])
            logits = torch.tensor([[0.0, float(odds)]])
            total += float(F.cross_entropy(logits, torch.tensor([label])))
    _, sums = trainee(batch)
    assert float(sums["matching"]) == pytest.approx(total, rel=1e-4)
    loss, parts = masked_loss(sums, trainee.config, Totals.of(batch, ALONE))
    assert float(parts["matching"]) == pytest.approx(total / (2 * len(batch.ids)), rel=1e-4)
    assert float(loss) == pytest.approx(float(parts["matching"]))


def collated(objective: dict[str, Any], photos: int, kind: str = "ce", epoch: int = 0) -> tuple[Any, Any]:
    model = tiny_stage(kind)
    config = Config(
        model=replace(model.config, kind=kind), objective=ObjectiveConfig(**{**NONE, **objective})
    )
    tokenizer = model.text_encoder.tokenizer
    samples = [
        Sample(Key(epoch, row, 32), pixels, [0, 1], (CAPTIONS[row], CAPTIONS[row + 1]))
        for row, pixels in enumerate(tiny_photos(photos))
    ]
    batch = Collate(config, tokenizer, words_of(model))(samples)

    def texts(ids: Any, mask: Any) -> list[str]:
        return [
            tokenizer.decode(row[kept], skip_special_tokens=True) for row, kept in zip(ids, mask, strict=True)
        ]

    return batch, texts


def test_another_caption_is_of_another_photo_and_drawn_anew_in_each_epoch() -> None:
    seen = set()
    for epoch in range(12):
        batch, texts = collated({"matching": 1.0}, 4, epoch=epoch)
        again, _ = collated({"matching": 1.0}, 4, epoch=epoch)
        assert torch.equal(batch.other_ids, again.other_ids)
        captions = [text.replace(" ,", ",") for text in texts(batch.other_ids, batch.other_mask)]
        for owner, other in zip(batch.image_of_text.tolist(), captions, strict=True):
            of = {row for row in range(4) if other in (CAPTIONS[row], CAPTIONS[row + 1])}
            assert of
            assert owner not in of
            seen.add((owner, other))
    assert len(seen) > 8


def others(captions: list[list[str]], hard: float, epoch: int) -> list[str]:
    model = tiny_stage("ce")
    objective = ObjectiveConfig(**NONE, matching=1.0, hard_negatives=hard)
    config = Config(model=replace(model.config, kind="ce"), objective=objective)
    pixels = torch.zeros(3, 32, 32, dtype=torch.uint8)
    samples = [
        Sample(Key(epoch, row, 32), pixels, list(range(len(texts))), tuple(texts))
        for row, texts in enumerate(captions)
    ]
    return Collate(config, model.text_encoder.tokenizer, words_of(model))._others(samples)


COUPLES = [[f"a {animal} in {place} snow"] for animal in ("dog", "cat", "bird") for place in ("deep", "thin")]


def test_hard_negatives_have_most_words_in_common() -> None:
    for epoch in range(10):
        found = others(COUPLES, 1.0, epoch)
        for (caption,), other in zip(COUPLES, found, strict=True):
            shared = set(caption.split()) & set(other.split())
            assert len(shared - {"a", "in"}) == 2  # snow, and the animal or the place
    easy = {tuple(others(COUPLES, 0.0, epoch)) for epoch in range(10)}
    assert len(easy) > 5


@pytest.mark.parametrize("hard", [0.0, 0.5, 1.0])
def test_captions_alone_do_not_tell_pairs(hard: float) -> None:
    """Each is a negative as often as it is a positive, long or short."""
    captions = [[text, text.split(" ", 3)[2]] for text in CAPTIONS]
    for epoch in range(10):
        assert sorted(others(captions, hard, epoch)) == sorted(text for texts in captions for text in texts)


def test_a_photo_with_most_of_the_captions_gets_others_twice() -> None:
    found = others([["a", "b", "c", "d"], ["e"]], 0.5, 0)
    assert found[:4] == ["e"] * 4
    assert found[4] in "abcd"


@pytest.mark.parametrize("hard", [0.0, 1.0])
def test_the_same_sentence_of_another_photo_is_no_negative(hard: float) -> None:
    captions = [["a dog", "a dog in snow"], ["A dog"], ["a dog in rain"], ["two cats"], ["A dog in snow"]]
    for epoch in range(20):
        found = others(captions, hard, epoch)
        assert not {"a dog", "A dog", "a dog in snow", "A dog in snow"} & {*found[:2]}
        assert found[2].lower() != "a dog"
        assert found[5].lower() != "a dog in snow"
    assert others([["a dog"], ["a dog"]], hard, 0) == ["a dog", "a dog"]  # there is nothing else


@pytest.mark.parametrize("objective", [OBJECTIVES["ce"], OBJECTIVES["vldeformer"]])
def test_a_photo_alone_has_no_other_and_is_left_out(objective: dict[str, Any]) -> None:
    kind = "ce" if "matching" in objective else "vldeformer"
    batch, _ = collated(objective, 1, kind)
    assert len(batch.ids) == len(batch.photos) == 0
    trainee = trainee_of(kind)
    optimizer = torch.optim.SGD(trainee.parameters())
    assert train_step(trainee, batch, optimizer, OFF, OptimConfig(), 0.5, ALONE) is None


def test_composed_captions_go_with_their_batch() -> None:
    batch, texts = collated(OBJECTIVES["vldeformer"], 3, "vldeformer")
    before, after = texts(batch.ids, batch.mask), texts(batch.composed_ids, batch.composed_mask)
    assert all(b != a and len(b.split()) == len(a.split()) for b, a in zip(before, after, strict=True))
    without, _ = collated({"contrastive": 1.0}, 3, "vldeformer")
    assert without.composed_ids.numel() == without.other_ids.numel() == 0


@torch.no_grad()
def test_masked_words_are_told_from_states_and_the_photo() -> None:
    trainee = trainee_of("lightningdot").eval()
    model, batch = trainee.model, tiny_batch(trainee)
    images, total = model.raw_image(batch.pixels), 0.0
    head = trainee.own_head
    for t, owner in enumerate(batch.image_of_text):
        length = int(batch.mask[t].sum())
        states = model.text_encoder(batch.encoder_ids[t, None, :length], batch.mask[t, None, :length])[0]
        hidden = head.norm(F.gelu(head.dense(states + images[owner])))
        labels = batch.encoder_labels[t, :length]
        kept = labels != NOT_MASKED
        logits = hidden[kept] @ head.decoder.t() + head.bias
        total += float(F.cross_entropy(logits, labels[kept], reduction="sum"))
    _, sums = trainee(batch)
    assert float(sums["vmlm"]) == pytest.approx(total, rel=1e-4)
    _, parts = masked_loss(sums, trainee.config, Totals.of(batch, ALONE))
    masked = int((batch.encoder_labels != NOT_MASKED).sum())
    assert float(parts["vmlm"]) == pytest.approx(total / masked, rel=1e-4)


CONVOLUTIONAL = replace(WITHOUT_DROPOUT, image=ImageEncoderConfig(name="mobilenetv2_035", size=64, layers=1))


@pytest.mark.parametrize("config", [WITHOUT_DROPOUT, CONVOLUTIONAL], ids=["ViT", "convolutional"])
@torch.no_grad()
def test_masked_patches_are_told_from_states_and_the_caption(config: ModelConfig) -> None:
    trainee = trainee_of("lightningdot", config, vmlm=0.0, mask_patches=0.5).eval()
    model, batch = trainee.model, tiny_batch(trainee, size=config.image.size)
    texts, total = model.raw_text(batch.ids, batch.mask), 0.0
    torch.manual_seed(5)
    states, blank, targets = model.image_encoder.masked(batch.pixels, 0.5)
    targets = iter(targets.split(int(blank[0].sum())))
    targets_of = list(targets)
    for t, owner in enumerate(batch.image_of_text.tolist()):
        hidden = states[owner][blank[owner]] + trainee.patch_query(texts[t])
        total += float((trainee.patch_head(hidden) - targets_of[owner]).square().mean())
    torch.manual_seed(5)
    _, sums = trainee(batch)
    assert float(sums["smrm"]) == pytest.approx(total, rel=1e-3)


@torch.no_grad()
def test_composed_photos_have_half_of_the_tokens_of_others_in_their_places() -> None:
    states = torch.arange(4 * 10 * 3, dtype=torch.float32).view(4, 10, 3)
    mixed = mix_tokens(states)
    for row in range(4):
        kept = (mixed[row] == states[row]).all(dim=1)
        assert int(kept.sum()) == 5
        for place in torch.nonzero(~kept)[:, 0].tolist():
            others = [o for o in range(4) if torch.equal(mixed[row, place], states[o, place])]
            assert len(others) == 1
            assert others[0] != row


def test_tokens_of_no_patch_stay() -> None:
    states = torch.rand(4, 11, 3)
    kept = (mix_tokens(states, prefix=2) == states).all(dim=2)
    assert kept[:, :2].all()
    assert kept[:, 2:].sum(dim=1).tolist() == [5] * 4  # of nine, four are another photo's


@torch.no_grad()
def test_composed_vectors_are_those_of_composed_captions_and_mixed_photos() -> None:
    trainee = trainee_of("vldeformer").eval()
    model, batch = trainee.model, tiny_batch(trainee)
    torch.manual_seed(3)
    prefix = model.image_encoder.prefix_tokens
    mixed = model.pool_image(mix_tokens(model.image_encoder(batch.pixels), prefix))
    torch.manual_seed(3)
    raw = trainee.raw(batch)
    torch.testing.assert_close(raw["composed_image"], mixed)
    expected = model.raw_text(batch.composed_ids, batch.composed_mask)
    torch.testing.assert_close(raw["composed_text"], expected)
    assert not torch.allclose(raw["composed_text"], raw["text"])


def test_losses_that_alternate() -> None:
    trainee = trainee_of("joint", alternate=True)
    batch = tiny_batch(trainee)
    seen = []
    for step in range(4):
        trainee.take_turn(step)
        config = OptimConfig(precision="fp32")
        parts, _ = backward(trainee, batch, config, 1.0, ALONE, Totals.of(batch, ALONE), OFF)
        seen.append({"triplet", "matching"} & parts.keys())
        assert bool(trainee.raw(batch)) == ("triplet" in parts)  # pairs need no vectors
    assert seen == [{"triplet"}, {"matching"}, {"triplet"}, {"matching"}]


@pytest.mark.parametrize(
    ("kind", "objective", "message"),
    [
        ("be", {"matching": 1.0}, "matching is for pairs, and model.kind=be has none; set it to 0"),
        ("ce", {"contrastive": 1.0}, "objective.contrastive is for vectors of photos and of captions"),
        ("dense", {"triplet": 1.0, "smrm": 1.0}, "objective.smrm is for vectors that states are added to"),
        ("be", {"triplet": 1.0, "alternate": True}, "alternate is for pairs, .* set it to false"),
        ("dense", {"contrastive": 1.0, "composed_negatives": True}, "vectors that every token shapes"),
        ("lightningdot", {"contrastive": 1.0, "queue": 8}, "objective.queue is for cosines"),
    ],
)
def test_objectives_that_a_kind_cannot_have(kind: str, objective: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(model=replace(WITHOUT_DROPOUT, kind=kind), objective=ObjectiveConfig(**{**NONE, **objective}))


def test_composed_negatives_need_their_batch_whole() -> None:
    objective = ObjectiveConfig(**{**NONE, **OBJECTIVES["vldeformer"]})
    with pytest.raises(ConfigError, match=r"leave optim\.micro_batch out"):
        Config(
            model=replace(WITHOUT_DROPOUT, kind="vldeformer"),
            objective=objective,
            optim=OptimConfig(micro_batch=8),
        )
