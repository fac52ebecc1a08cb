import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.config import ObjectiveConfig, OptimConfig
from lexlip.errors import ConfigError
from lexlip.training.batches import Batch
from lexlip.training.loss import Totals, batch_loss, masked_loss
from lexlip.training.distributed import Processes
from lexlip.training.step import backward, make_optimizer, set_learning_rate, train_step
from lexlip.training.trainee import Tensors, Trainee
from tests.reference.losses import naive_learning_rate
from tests.tiny import TINY, WITHOUT_DROPOUT, tiny_batch, tiny_dense, tiny_model, tiny_trainee

WEIGHTS: dict[str, Any] = {"temperature": 0.2, "flops_image": 0.1, "flops_text": 0.2}
PHASE_1 = {"mlm": 0.5, "image_to_text": 0.7, "text_to_text": 1.1}
ANCHORS = {"anchor_contrastive": 0.5, "anchor_align": 0.3, "anchor_words": 0.4}
CONTRASTIVE = ObjectiveConfig(**WEIGHTS, **ANCHORS)
EVERYTHING = ObjectiveConfig(**WEIGHTS, **ANCHORS, **PHASE_1, queue=9, momentum=0.6, topk=(3,))
OBJECTIVES = {
    "contrastive": CONTRASTIVE,
    "everything": EVERYTHING,
    "phase 1": ObjectiveConfig(**WEIGHTS, **PHASE_1, share_decoder=True),
    "phase 1 alone": ObjectiveConfig(contrastive=0, flops_image=0, flops_text=0, **PHASE_1),
}
OFF = torch.amp.GradScaler("cpu", enabled=False)
ALONE = Processes("cpu")


def trainee_of(objective: ObjectiveConfig, dropout: bool = True) -> Trainee:
    trainee = tiny_trainee(objective, tiny_model() if dropout else tiny_model(WITHOUT_DROPOUT)).train()
    if objective.queue:
        torch.manual_seed(3)
        for queue in (trainee.image_queue, trainee.text_queue):
            queue.enqueue(torch.rand(6, trainee.model.dimensions), torch.tensor([3, 11, 12, 12, 70, 4]))
    return trainee


def run_backward(
    trainee: Trainee,
    batch: Batch,
    micro_batch: int | None = None,
    precision: Any = "fp32",
    scaler: torch.amp.GradScaler = OFF,
) -> Tensors:
    config = OptimConfig(micro_batch=micro_batch, precision=precision)
    return backward(trainee, batch, config, 1.0, ALONE, Totals.of(batch, ALONE), scaler)[0]


def gradients(trainee: Trainee) -> Tensors:
    found = {n: p.grad.clone() for n, p in trainee.named_parameters() if p.grad is not None}
    trainee.zero_grad(set_to_none=True)
    return found


def check_close(found: Tensors, expected: Tensors, **tolerances: float) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name],
            value,
            **(tolerances or {"rtol": 1e-3, "atol": 1e-5}),
            msg=lambda m, n=name: f"{n}: {m}",
        )


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_does_not_depend_on_the_micro_batch(name: str, micro_batch: int) -> None:
    trainee = trainee_of(OBJECTIVES[name], dropout=False)
    batch = tiny_batch(trainee)
    expected_parts = run_backward(trainee, batch)
    expected = gradients(trainee)
    parts = run_backward(trainee, batch, micro_batch)
    check_close(gradients(trainee), expected)
    check_close(parts, expected_parts, rtol=1e-4, atol=1e-5)
    assert not any(part.requires_grad for part in parts.values())


def test_every_loss_is_logged() -> None:
    trainee = trainee_of(EVERYTHING)
    parts = run_backward(trainee, tiny_batch(trainee), 2)
    assert set(parts) == {
        *("contrastive", "topk", "flops_image", "flops_text", "anchor", "align", "words"),
        *("mlm", "image_to_text", "text_to_text", "loss", "terms_image", "terms_text"),
    }
    names = {"flops_image": 0.1, "flops_text": 0.2, "contrastive": 1, "topk": 1, "anchor": 0.5, "align": 0.3}
    weights = {**names, "words": 0.4, **PHASE_1}
    assert float(parts["loss"]) == pytest.approx(sum(w * float(parts[n]) for n, w in weights.items()))


@pytest.mark.parametrize("kind", ["lexlip", "dense"])
def test_every_parameter_of_use_gets_a_gradient(kind: str) -> None:
    objective = EVERYTHING
    if kind == "dense":
        objective = ObjectiveConfig(flops_image=0, flops_text=0, **PHASE_1, queue=9)
    trainee = tiny_trainee(objective, tiny_model() if kind == "lexlip" else tiny_dense()).train()
    run_backward(trainee, tiny_batch(trainee), 2)
    without = {name for name, p in trainee.named_parameters() if p.grad is None}
    assert {name for name in without if not name.startswith("keys.")} <= {
        "model.text_encoder.body.embeddings.token_type_embeddings.weight"
    }
    assert {name for name, _ in trainee.named_parameters() if name.startswith("keys.")} <= without


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("objective", [CONTRASTIVE, EVERYTHING], ids=["contrastive", "everything"])
def test_both_passes_of_a_micro_batch_drop_the_same_units(precision: str, objective: ObjectiveConfig) -> None:
    """With the graph of all chunks held at once, each begun with the generator's state of its first pass."""
    trainee = trainee_of(objective)
    batch = tiny_batch(trainee)
    totals, chunks, states = Totals.of(batch, ALONE), batch.split(2), []

    def autocast() -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")

    torch.manual_seed(7)
    for chunk in chunks:
        states.append(torch.get_rng_state())
        with torch.no_grad(), autocast():
            trainee.raw(chunk)
    after = torch.get_rng_state()
    raws, masked, keys = [], torch.zeros(()), None
    for chunk, state in zip(chunks, states, strict=True):
        torch.set_rng_state(state)
        with autocast():
            raw, sums = trainee(chunk)
        raws.append(raw)
        masked = masked + masked_loss(sums, objective, totals)[0]
    if objective.queue:
        with autocast():
            parts = [trainee.key_vectors(chunk) for chunk in chunks]
        keys = {name: torch.cat([part[name] for part in parts]) for name in ("image", "text")}
    whole = {name: torch.cat([raw[name] for raw in raws]) for name in ("image", "text")}
    loss, _ = batch_loss(whole, keys, batch, trainee, 1.0, ALONE, totals)
    (loss + masked).backward()
    expected = gradients(trainee)

    torch.manual_seed(7)
    run_backward(trainee, batch, 2, precision)
    loose = {"rtol": 2e-2, "atol": 1e-3} if precision == "bf16" else {}
    check_close(gradients(trainee), expected, **loose)
    assert torch.equal(torch.get_rng_state(), after)  # the next step draws anew


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_dropout_is_drawn_anew_for_every_step(micro_batch: int | None) -> None:
    trainee = trainee_of(EVERYTHING)
    batch = tiny_batch(trainee)
    first, second = (float(run_backward(trainee, batch, micro_batch)["loss"]) for _ in range(2))
    assert first != second


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_the_scale_of_fp16_is_taken_out_again(micro_batch: int | None) -> None:
    trainee = trainee_of(EVERYTHING, dropout=False)
    optimizer, batch = make_optimizer(trainee, OptimConfig()), tiny_batch(trainee)
    run_backward(trainee, batch, micro_batch)
    expected = gradients(trainee)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    run_backward(trainee, batch, micro_batch, scaler=scaler)
    scaler.unscale_(optimizer)
    check_close(gradients(trainee), expected)


@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize(
    "frozen",
    [
        {"image_encoder": 0.0, "image_head": 0.0},
        {"text_encoder": 0.0, "text_head": 0.0},
        {"bag_of_words": 0.0},
        {"text_decoder": 0.0},
    ],
)
@pytest.mark.parametrize("objective", [CONTRASTIVE, EVERYTHING], ids=["contrastive", "everything"])
def test_frozen_parts(frozen: dict[str, float], objective: ObjectiveConfig, micro_batch: int | None) -> None:
    trainee = trainee_of(objective)
    optimizer = make_optimizer(trainee, OptimConfig(lr=0.1, lr_scale=frozen))
    before = {name: parameter.clone() for name, parameter in trainee.named_parameters()}
    run_backward(trainee, tiny_batch(trainee), micro_batch)
    optimizer.step()
    for name, parameter in trainee.named_parameters():
        still = name.removeprefix("model.").startswith((*frozen, "keys."))
        assert (parameter.grad is None) >= still, name
        if still:
            assert torch.equal(parameter, before[name]), name
    assert any(not torch.equal(p, before[n]) for n, p in trainee.named_parameters())


TWO_LAYERS = replace(TINY, text=replace(TINY.text, options={**TINY.text.options, "num_hidden_layers": 2}))


def test_a_prefix_ends_at_a_dot() -> None:
    """blocks.1 is not blocks.10."""
    trainee = tiny_trainee(ObjectiveConfig(), tiny_model(TWO_LAYERS))
    layer = trainee.model.text_encoder.body.encoder.layer
    layer.add_module("10", copy.deepcopy(layer[1]))
    make_optimizer(trainee, OptimConfig(lr_scale={"text_encoder.body.encoder.layer.1": 0}))
    assert not any(p.requires_grad for p in layer.get_submodule("1").parameters())
    assert all(p.requires_grad for p in layer.get_submodule("10").parameters())


def test_a_prefix_of_nothing() -> None:
    with pytest.raises(ConfigError, match=r"optim\.lr_scale names 'image_encodr', but the model has no"):
        make_optimizer(tiny_trainee(ObjectiveConfig()), OptimConfig(lr_scale={"image_encodr": 0}))


def step(trainee: Trainee, optimizer: torch.optim.Optimizer, batch: Batch, **changes: Any) -> Tensors | None:
    config = OptimConfig(**{"precision": "fp32", **changes})
    return train_step(trainee, batch, optimizer, OFF, config, 1.0, ALONE)


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_keys_follow_and_queues_grow_once_a_step(micro_batch: int | None) -> None:
    trainee = trainee_of(EVERYTHING)
    optimizer = make_optimizer(trainee, OptimConfig(lr=0.05))
    expected = {name: p.clone() for name, p in trainee.keys.named_parameters()}
    for number in range(3):
        batch = tiny_batch(trainee, epoch=number, first_photo=100 * number)
        with torch.no_grad():
            vectors = trainee.key_vectors(batch)
        assert step(trainee, optimizer, batch, micro_batch=micro_batch) is not None
        for name, parameter in trainee.model.named_parameters():
            expected[name] = 0.6 * expected[name] + 0.4 * parameter.detach()
        # of 6 keys before the first step, 5 photos and 7 captions a step, the last 9 stay
        assert int(trainee.image_queue.count) == 6 + 5 * (number + 1)
        assert int(trainee.text_queue.count) == 6 + 7 * (number + 1)
        for queue, new, photos in (
            (trainee.image_queue, vectors["image"], batch.photos),
            (trainee.text_queue, vectors["text"], batch.photos[batch.image_of_text]),
        ):
            start = int(queue.count) - len(new)
            places = [(start + n) % 9 for n in range(len(new))]
            units = new / new.norm(dim=1, keepdim=True)
            torch.testing.assert_close(queue.keys[places].float(), units, rtol=1e-2, atol=2e-3)
            assert queue.images[places].tolist() == photos.tolist()
    check_close(dict(trainee.keys.named_parameters()), expected, rtol=1e-4, atol=1e-6)
    assert any(
        not torch.equal(p, k)
        for p, k in zip(trainee.model.parameters(), trainee.keys.parameters(), strict=True)
    )


def test_a_step_of_micro_batches_is_a_step() -> None:
    """Weights, keys and queues after three of them."""
    found = []
    for micro_batch in (None, 2):
        trainee = trainee_of(EVERYTHING, dropout=False)
        optimizer = make_optimizer(trainee, OptimConfig(lr=1e-3))
        for number in range(3):
            step(trainee, optimizer, tiny_batch(trainee, epoch=number), micro_batch=micro_batch, clip=0.5)
        found.append({n: v.float() for n, v in trainee.state_dict().items()})
    check_close(found[1], found[0], rtol=1e-2, atol=2e-3)


def test_the_gradient_s_norm_is_clipped() -> None:
    moves = []
    for clip in (1e6, 0.5):
        trainee = trainee_of(EVERYTHING, dropout=False)
        plain = torch.optim.SGD([p for p in trainee.parameters() if p.requires_grad], lr=1.0)
        learning = [p for p in trainee.parameters() if p.requires_grad]
        start = [p.detach().clone() for p in learning]
        parts = step(trainee, plain, tiny_batch(trainee), clip=clip)
        assert parts is not None
        changes = [(p.detach() - s).flatten() for p, s in zip(learning, start, strict=True)]
        moves.append((float(parts["grad"]), float(torch.cat(changes).norm())))
    (norm, move), (same_norm, clipped) = moves
    assert norm == pytest.approx(same_norm, rel=1e-4)
    assert norm == pytest.approx(move, rel=1e-3)
    assert norm > 0.5
    assert clipped == pytest.approx(0.5, rel=1e-3)


def test_a_batch_of_unreadable_photos_changes_nothing() -> None:
    trainee = trainee_of(EVERYTHING)
    optimizer, batch = make_optimizer(trainee, OptimConfig(lr=0.05)), tiny_batch(trainee)
    before = {name: value.clone() for name, value in trainee.state_dict().items()}
    nothing = torch.empty(0, dtype=torch.int64)
    empty = replace(batch, pixels=batch.pixels[:0], photos=nothing, image_of_text=nothing, ids=batch.ids[:0])
    empty = replace(empty, encoder_labels=batch.ids[:0], decoder_labels=batch.ids[:0])
    assert step(trainee, optimizer, empty) is None
    assert all(torch.equal(value, before[name]) for name, value in trainee.state_dict().items())


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0.3), (7, 0.0), (1, 0.1), (20, 1.0), (100, 0.1)])
def test_learning_rate(steps: int, warmup: float) -> None:
    config = OptimConfig(lr=0.5, warmup=warmup, lr_scale={"text_encoder": 0.1})
    optimizer = make_optimizer(tiny_trainee(CONTRASTIVE), config)
    rates = [set_learning_rate(optimizer, config, step, steps) for step in range(steps)]
    np.testing.assert_allclose(rates, [naive_learning_rate(0.5, s, steps, warmup) for s in range(steps)])
    assert max(rates) == pytest.approx(0.5)
    assert min(rates) > 0
    for group in optimizer.param_groups:
        assert group["lr"] == pytest.approx(rates[-1] * group["scale"])


def test_groups_by_longest_prefix_and_decay() -> None:
    trainee = tiny_trainee(EVERYTHING)
    scales = {"text_encoder": 0.2, "text_encoder.body.embeddings": 0.0, "image_encoder.body": 0.5}
    optimizer = make_optimizer(
        trainee, OptimConfig(weight_decay=0.3, lr_scale={**scales, "text_decoder": 0.7})
    )
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(of)
    for name, parameter in trainee.named_parameters():
        name = name.removeprefix("model.")
        if name.startswith(("text_encoder.body.embeddings", "keys.")):
            assert id(parameter) not in of
            assert not parameter.requires_grad
            continue
        known = {"text_encoder": 0.2, "image_encoder.body": 0.5, "text_decoder": 0.7}
        scale = next((scale for prefix, scale in known.items() if name.startswith(prefix)), 1.0)
        assert of[id(parameter)]["scale"] == scale
        assert of[id(parameter)]["weight_decay"] == (0.3 if parameter.ndim > 1 else 0.0)
    assert of[id(trainee.model.bag_of_words.weight)]["weight_decay"] == 0
    assert of[id(trainee.model.text_head.norm.weight)]["weight_decay"] == 0
