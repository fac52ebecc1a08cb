"""The loss of a step against the plain formulas, for each phase and preset, and what is shared out of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lexlip.config import PRESETS, ObjectiveConfig
from lexlip.objectives.losses import (
    Compared,
    caption_gated,
    control_expansion,
    dense_distillation_share,
    self_distillation_share,
)
from lexlip.registry import Metric
from lexlip.training.batches import NOT_MASKED, Batch
from lexlip.training.method import Method, Tensors
from lexlip.training.step import caption_loss, whole_batch_loss
from tests.reference.losses import (
    cosine,
    dot,
    naive_align,
    naive_caption_gated,
    naive_contrastive,
    naive_flops,
    naive_following,
    naive_momentum_contrastive,
    naive_predict_words,
    naive_self_distillation,
    naive_truncate,
)
from tests.tiny import TINY, tiny_batch, tiny_dense, tiny_method, tiny_model
from tests.training.small_run import step_of

NO_WORDS = {"flops_image": 0.0, "flops_text": 0.0}
PHASE_1 = {"mlm": 0.5, "image_to_text": 0.7, "text_to_text": 1.1}
ANCHORS = {"anchor_contrastive": 0.4, "anchor_align": 0.2, "anchor_words": 0.6}
WEIGHTS: dict[str, Any] = {"contrastive": 1.5, "temperature": 0.1, "flops_image": 0.3, "flops_text": 0.7}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "phase 1": {**WEIGHTS, **PHASE_1},
    "phase 1, anchors": {**WEIGHTS, **PHASE_1, **ANCHORS},
    "phase 2": {**WEIGHTS, "queue": 9},
    "phase 2, anchors": {**WEIGHTS, **ANCHORS, "queue": 9, "softmax_scale": 4.0},
    "faithful phase 1": {**WEIGHTS, **PHASE_1, **PRESETS["faithful"]["objective"]},
    "faithful phase 2": {**WEIGHTS, "queue": 9, **PRESETS["faithful"]["objective"]},
    "paper phase 1": {**WEIGHTS, **PHASE_1, **PRESETS["paper"]["objective"], "topk": (3,), "temperature": 5},
    "paper phase 2": {**WEIGHTS, "queue": 9, **PRESETS["paper"]["objective"], "temperature": 5},
    "topk": {**WEIGHTS, "topk": (2, 5), "topk_contrastive": 0.8},
    "gated": {**WEIGHTS, "caption_gated": 0.9},
    "gated, phase 2, anchors": {**WEIGHTS, **ANCHORS, "queue": 9, "caption_gated": 0.9},
    "topk, phase 2": {**WEIGHTS, "topk": (3,), "topk_contrastive": 0.8, "queue": 9},
    "dense phase 1": {**WEIGHTS, **NO_WORDS, **PHASE_1},
    "dense phase 2": {**WEIGHTS, **NO_WORDS, "queue": 9},
}
PROGRESS = 0.15  # half of the FLOPS warm-up's length
LOSSES = (
    "contrastive",
    "topk_contrastive",
    "flops_image",
    "flops_text",
    "anchor_contrastive",
    "anchor_align",
    "anchor_words",
    "caption_gated",
)


def method_of(name: str, objective: ObjectiveConfig) -> Method:
    metric: Metric = "dot" if name.startswith("paper") else "cosine"
    method = tiny_method(objective, tiny_dense() if name.startswith("dense") else tiny_model(metric=metric))
    if objective.queue:
        torch.manual_seed(3)
        with torch.no_grad():
            for parameter in method.keys.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        for queue in (method.image_queue, method.text_queue):  # partly filled, photos 11 and 12 in it
            queue.enqueue(torch.rand(6, method.model.dimensions), torch.tensor([3, 11, 12, 12, 70, 4]))
    return method.eval()


def expected_parts(method: Method, batch: Batch, raw: Tensors, keys: Tensors | None) -> dict[str, float]:
    """The parts of `batch_loss`, by the reference formulas."""
    config, lexical = method.objective, hasattr(method.model, "bag_of_words")
    owners, photos = batch.owners.tolist(), batch.photos.indices.tolist()
    images, texts = (torch.log(1 + torch.relu(raw[n])) if lexical else raw[n] for n in ("image", "text"))
    photo_of_text = [photos[owner] for owner in owners]
    score = dot if method.model.metric == "dot" else cosine
    how = config.temperature, config.same_image_negatives, score

    def against_queue(documents: Tensor, captions: Tensor) -> Tensor:
        total = 0.0
        for queries, positives, queue in (
            (captions, [keys["image"][owner] for owner in owners], method.image_queue),
            ([documents[owner] for owner in owners], keys["text"], method.text_queue),
        ):
            held, of_held = queue.contents()
            total += naive_momentum_contrastive(
                queries, positives, held.float(), photo_of_text, of_held.tolist(), *how
            )
        return total / 2

    def in_batch(documents: Tensor, captions: Tensor) -> Tensor:
        return naive_contrastive(documents, captions, owners, *how)

    parts = {"contrastive": in_batch(images, texts) if keys is None else against_queue(images, texts)}
    if config.topk:
        found = []
        for k in config.topk:
            cut_images, cut_texts = naive_truncate(images, k), naive_truncate(texts, k)
            if keys is None:
                found.append((in_batch(cut_images, texts) + in_batch(images, cut_texts)) / 2)
            else:
                found.append(against_queue(cut_images, cut_texts))
        parts["topk_contrastive"] = sum(found) / len(found)
    if lexical:
        units = [v / v.norm(dim=1, keepdim=True) if config.flops_unit else v for v in (images, texts)]
        parts |= {"flops_image": naive_flops(units[0]), "flops_text": naive_flops(units[1])}
        parts["terms_image"] = (images > 0).sum() / len(images)
        parts["terms_text"] = (texts > 0).sum() / len(texts)
    texts_of = [set(words_in(method, ids)) for ids in batch.captions.ids]
    if config.caption_gated:
        own = own_words(method, batch, texts)
        parts["caption_gated"] = naive_caption_gated(images.numpy(), raw["image"].numpy(), own, owners)
    if config.anchors:
        words, counts, bags = method.model.vocabulary.words, [], []
        weight = torch.nn.functional.softplus(method.model.bag_of_words.weight)
        for held in texts_of:
            bags.append(torch.stack([weight[v] * (word in held) for v, word in enumerate(words)]))
        for row in range(len(photos)):
            mine = [held for held, owner in zip(texts_of, owners, strict=True) if owner == row]
            counts.append([sum(word in held for held in mine) for word in words])
        parts["anchor_contrastive"] = in_batch(images, torch.stack(bags))
        parts["anchor_align"] = naive_align(texts, torch.stack(bags))
        parts["anchor_words"] = naive_predict_words(config.softmax_scale * raw["image"], torch.tensor(counts))
    return {name: float(value) for name, value in parts.items()}


def predicted(labels: Tensor) -> int:
    return sum(label != NOT_MASKED for row in labels.tolist() for label in row)


def words_in(method: Method, ids: Tensor) -> list[str]:
    tokenizer = method.model.text_encoder.tokenizer
    return tokenizer.decode(ids.tolist(), skip_special_tokens=True).split()


def own_words(method: Method, batch: Batch, texts: Tensor) -> np.ndarray:
    """Vectors of captions, [T, V], with 0 for words that they do not have."""
    held = [set(words_in(method, ids)) for ids in batch.captions.ids]
    has = np.array([[word in words for word in method.model.vocabulary.words] for words in held])
    return np.where(has, texts.numpy(), 0)


def weight_of(part: str, config: ObjectiveConfig) -> float:
    if part == "topk_contrastive":
        return config.contrastive * config.topk_contrastive
    warm = 0.25 if part.startswith("flops") and config.flops_warmup else 1.0
    return warm * getattr(config, part)


@pytest.mark.parametrize("name", OBJECTIVES)
@torch.no_grad()
def test_the_loss_is_the_weighted_sum(name: str) -> None:
    objective = ObjectiveConfig(**OBJECTIVES[name])
    method = method_of(name, objective)
    step = step_of(method, tiny_batch(method), PROGRESS)
    batch, (raw, sums) = step.batch, method(step.batch)
    keys = method.key_vectors(batch) if objective.queue else None
    loss, parts = whole_batch_loss(step, raw, keys)
    expected = expected_parts(method, batch, raw, keys)
    close = 5e-3 if objective.queue else 1e-4  # scores of a queue are bf16
    assert {k: float(v) for k, v in parts.items()} == pytest.approx(expected, rel=close, abs=1e-6)
    whole = sum(weight_of(part, objective) * v for part, v in expected.items() if part in LOSSES)
    assert float(loss) == pytest.approx(whole, rel=close)

    masked, masked_parts = caption_loss(step, sums)
    counts = {
        "mlm": 0 if batch.masked is None else predicted(batch.masked.encoder_labels),
        "decoder": 0 if batch.masked is None else predicted(batch.masked.decoder_labels),
    }
    means = {n: float(total) / counts.get(n, counts["decoder"]) for n, total in sums.items()}
    assert {n: float(value) for n, value in masked_parts.items()} == pytest.approx(means)
    assert float(masked) == pytest.approx(sum(PHASE_1[n] * mean for n, mean in means.items()))
    assert set(means) == {n for n in PHASE_1 if n in OBJECTIVES[name]}


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "topk_contrastive"])
def test_a_loss_alone(name: str) -> None:
    """One loss can be trained on at any time, the first step included; the others are not computed."""
    objective = ObjectiveConfig(**{"contrastive": 0.0, **NO_WORDS, name: 1.0})
    method = method_of(name, objective)
    step = step_of(method, tiny_batch(method), 0.0)
    loss, parts = whole_batch_loss(step, method.raw(step.batch), None)
    assert set(parts) == {name, "terms_image", "terms_text"}
    loss.backward()
    assert any(p.grad is not None for p in method.parameters())


def test_the_topk_loss_is_the_contrastive_loss_of_cut_documents() -> None:
    objective = ObjectiveConfig(**NO_WORDS, topk=(1000,))
    method = method_of("topk", objective)
    step = step_of(method, tiny_batch(method))
    given = step, method.raw(step.batch), None
    parts = whole_batch_loss(*given)[1]
    torch.testing.assert_close(parts["topk_contrastive"], parts["contrastive"])  # as nothing is cut off
    method.objective = replace(objective, topk=(1,))
    parts = whole_batch_loss(*given)[1]
    assert parts["topk_contrastive"] > parts["contrastive"]


def test_keys_of_the_same_photo_are_no_negatives() -> None:
    """A queue that holds the batch's own photos alone leaves nothing to tell apart, unless they count."""
    found = {}
    for same in (False, True):
        objective = ObjectiveConfig(**NO_WORDS, queue=9, same_image_negatives=same)
        method = tiny_method(objective)
        batch = tiny_batch(method, owners=(0, 0))
        keys = method.key_vectors(batch)
        method.image_queue.enqueue(keys["image"], batch.photos.indices)
        method.text_queue.enqueue(keys["text"], batch.photos.indices[batch.owners])
        found[same] = whole_batch_loss(step_of(method, batch), method.raw(batch), keys)[0]
    assert found[False].item() == 0
    assert found[True].item() > 0.1


# ---- words made of dense vectors ----

DENSE = {"contrastive": 0.0, **NO_WORDS, "temperature": 0.2}


def joint_method(**losses: float) -> Method:
    """A method for a model whose words are made of dense vectors of 16 numbers."""
    model = tiny_model(replace(TINY, joint=16), metric="dot" if losses.pop("dot", 0) else None)
    return tiny_method(ObjectiveConfig(**{**DENSE, **losses}), model).eval()


def both_scores(method: Method, raw: Tensors) -> tuple[np.ndarray, np.ndarray]:
    """Scores [T, B] of captions and photos by their dense vectors, and by their words."""
    unit = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in joint_states(method)]
    words = [np.log(1 + np.maximum(raw[side].numpy(), 0)) for side in ("text", "image")]
    if method.model.metric == "cosine":
        words = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in words]
    return unit[0] @ unit[1].T, words[0] @ words[1].T


def joint_states(method: Method) -> tuple[np.ndarray, np.ndarray]:
    """What the heads project of captions, [T, D], and of photos, [B, D]."""
    model, batch = method.model, tiny_batch(method)
    states = model.text_encoder(batch.captions.ids, batch.captions.mask)[:, 0]
    photos = model.image_encoder(batch.photos.pixels)[:, 0]
    return model.text_head.project(states).numpy(), model.image_head.project(photos).numpy()


@pytest.mark.parametrize("dot_products", [0, 1])
@pytest.mark.parametrize("name", ["dense_distillation", "self_distillation"])
@torch.no_grad()
def test_words_and_dense_vectors_teach_by_the_plain_formula(name: str, dot_products: int) -> None:
    method = joint_method(**{name: 1.0, "dot": dot_products})
    step = step_of(method, tiny_batch(method), 0.0)
    raw, owners = method.raw(step.batch), step.batch.owners.tolist()
    loss, parts = whole_batch_loss(step, raw, None)
    dense, words = both_scores(method, raw)
    if name == "dense_distillation":
        expected = naive_following(words, dense, owners, 0.2)
    else:
        expected = naive_self_distillation(dense, words, owners, 0.2)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert set(parts) == {name, "terms_image", "terms_text"}


@torch.no_grad()
def test_vectors_are_those_of_the_model_without_the_loss() -> None:
    method = joint_method(self_distillation=1.0)
    batch = tiny_batch(method)
    raw = method.raw(batch)
    torch.testing.assert_close(raw["text"], method.model.raw_text(batch.captions.ids, batch.captions.mask))
    torch.testing.assert_close(raw["image"], method.model.raw_image(batch.photos.pixels))


def test_what_a_dense_teacher_and_both_together_train() -> None:
    """D2S leaves the dense vectors alone, as their scores are given; both learn from each other otherwise."""
    for name, moved in (("dense_distillation", False), ("self_distillation", True)):
        method = joint_method(**{name: 1.0})
        model, step = method.model, step_of(method, tiny_batch(method), 0.0)
        raw = method.raw(step.batch)
        joint = [raw[f"joint_{side}"] for side in ("image", "text")]
        words = [
            head.logits(vectors.detach())
            for head, vectors in zip((model.image_head, model.text_head), joint, strict=True)
        ]
        loss, _ = whole_batch_loss(step, {**raw, "image": words[0], "text": words[1]}, None)
        loss.backward()
        assert (model.image_head.project.weight.grad is not None) == moved
        assert float(model.image_head.decoder.grad.abs().sum()) > 0


def test_a_photo_s_words_are_gated_by_its_caption() -> None:
    """Only words of the caption are pushed up; a caption without words pushes nothing."""
    torch.manual_seed(0)
    logits = torch.randn(3, 5, requires_grad=True)
    captions = torch.tensor([[0.0, 2.0, 0.0, 1.0, 0.0], [0.0] * 5, [1.0, 0.0, 0.0, 0.0, 0.0]])
    images = torch.log1p(torch.relu(logits))
    caption_gated(images, logits, captions).backward()
    assert ((logits.grad < 0) == (captions > 0)).all()
    assert (logits.grad[captions == 0] == 0).all()


def test_expansion_opens_by_chance() -> None:
    texts, present = torch.rand(4000, 6) + 1, torch.rand(4000, 6) < 0.5
    torch.manual_seed(1)
    found = control_expansion(texts, present, 0.25)
    opened = (found == texts).all(dim=1) & ~present.all(dim=1)
    closed = (found == texts * present).all(dim=1)
    assert (opened | closed).all()
    assert float(opened.float().mean()) == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(control_expansion(texts, present, 0.0), texts * present)
    torch.testing.assert_close(control_expansion(texts, present, 1.0), texts)


@torch.no_grad()
def test_captions_get_other_words_during_the_warm_up() -> None:
    method = tiny_method(ObjectiveConfig(**NO_WORDS, expansion_warmup=0.5)).eval()
    batch = tiny_batch(method)
    raw = method.raw(batch)
    own, all_words = (
        float((vectors > 0).sum()) / len(batch.owners)
        for vectors in (
            torch.from_numpy(own_words(method, batch, torch.log1p(torch.relu(raw["text"])))),
            raw["text"],
        )
    )
    terms = {
        progress: float(whole_batch_loss(step_of(method, batch, progress), raw, None)[1]["terms_text"])
        for progress in (0.0, 0.5, 1.0)
    }
    assert terms == pytest.approx({0.0: own, 0.5: all_words, 1.0: all_words})
    assert own < all_words


@pytest.mark.parametrize("share", [dense_distillation_share, self_distillation_share])
def test_the_shares_of_two_processes_add_up(share: Callable[[Compared], Tensor]) -> None:
    torch.manual_seed(0)
    owners = torch.tensor([0, 0, 1, 2, 2, 3])
    images, texts = torch.rand(4, 9), torch.rand(6, 9)
    joint = torch.nn.functional.normalize(torch.randn(4, 5)), torch.nn.functional.normalize(torch.randn(6, 5))
    found = []
    for parts in ((slice(0, 4), slice(0, 6)),), ((slice(0, 2), slice(0, 3)), (slice(2, 4), slice(3, 6))):
        total = torch.zeros(())
        for of_images, of_texts in parts:

            def gather(
                part: Tensor, of_images: slice = of_images, of_texts: slice = of_texts
            ) -> tuple[Tensor, int]:
                """The tensor that the part is of, and where it begins there."""
                for whole in (images, texts, owners, *joint):
                    for rows in (of_images, of_texts):
                        if torch.equal(whole[rows], part):
                            return whole, rows.start
                raise AssertionError

            total += share(
                Compared(
                    config=ObjectiveConfig(temperature=0.2),
                    metric="cosine",
                    progress=1.0,
                    images=images[of_images],
                    texts=texts[of_texts],
                    owners=owners[of_texts] - of_images.start,
                    photos=torch.arange(4)[of_images],
                    image_logits=images[of_images],
                    joint=(joint[0][of_images], joint[1][of_texts]),
                    total_images=4,
                    total_texts=6,
                    processes=len(parts),
                    gather=gather,
                )
            )
        found.append(float(total))
    assert found[0] == pytest.approx(found[1], rel=1e-5)
