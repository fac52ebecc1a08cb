from dataclasses import replace
from typing import Any

import pytest
import torch

from lexlip.config import ObjectiveConfig, OptimConfig
from lexlip.training.batches import NOT_MASKED, Batch
from lexlip.training.method import Method, Tensors
from lexlip.training.step import (
    SkippedStep,
    Totals,
    backward,
    caption_loss,
    gradient_shares,
    make_optimizer,
    train_step,
    whole_batch_loss,
)
from tests.tiny import TINY, WITHOUT_DROPOUT, tiny_batch, tiny_collate, tiny_dense, tiny_method, tiny_model
from tests.training.small_run import ALONE, step_of
from tests.training.test_method_stages import OBJECTIVES as STAGES
from tests.training.test_method_stages import method_of as stage_of

NO_WORDS: dict[str, Any] = {"flops_image": 0.0, "flops_text": 0.0}
WEIGHTS: dict[str, Any] = {"temperature": 0.2, "flops_image": 0.1, "flops_text": 0.2}
PHASE_1 = {"mlm": 0.5, "image_to_text": 0.7, "text_to_text": 1.1}
ANCHORS = {"anchor_contrastive": 0.5, "anchor_align": 0.3, "anchor_words": 0.4}
CONTRASTIVE = ObjectiveConfig(**WEIGHTS, **ANCHORS, caption_gated=0.7)
EVERYTHING = ObjectiveConfig(**WEIGHTS, **ANCHORS, **PHASE_1, queue=9, momentum=0.6, topk=(3,))
OBJECTIVES = {
    "contrastive": CONTRASTIVE,
    "everything": EVERYTHING,
    "phase 1": ObjectiveConfig(**WEIGHTS, **PHASE_1, share_decoder=True),
    "dense below words": ObjectiveConfig(**WEIGHTS, dense_distillation=0.6, self_distillation=0.9),
    "phase 1 alone": ObjectiveConfig(contrastive=0, flops_image=0, flops_text=0, **PHASE_1),
}


def method_of(objective: ObjectiveConfig, dropout: bool = True) -> Method:
    config = replace(TINY if dropout else WITHOUT_DROPOUT, joint=16 if objective.joint else 0)
    method = tiny_method(objective, tiny_model(config)).train()
    if objective.queue:
        torch.manual_seed(3)
        for queue in (method.image_queue, method.text_queue):
            queue.enqueue(torch.rand(6, method.model.dimensions), torch.tensor([3, 11, 12, 12, 70, 4]))
    return method


def run_backward(method: Method, batch: Batch, micro_batch: int | None = None, **step: Any) -> Tensors:
    return backward(step_of(method, batch, micro_batch=micro_batch, **step))[0]


def gradients(method: Method) -> Tensors:
    found = {n: p.grad.clone() for n, p in method.named_parameters() if p.grad is not None}
    method.zero_grad(set_to_none=True)
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


@pytest.mark.parametrize("name", [*OBJECTIVES, "be", "ce", "joint", "lightningdot"])
def test_the_gradient_does_not_depend_on_the_micro_batch(name: str) -> None:
    if name in OBJECTIVES:
        method = method_of(OBJECTIVES[name], dropout=False)
    else:  # which patches are masked is drawn
        method = stage_of(name, **({"smrm": 0.0} if name == "lightningdot" else {}))
    batch = tiny_batch(method)
    expected_parts = run_backward(method, batch)
    expected = gradients(method)
    for micro_batch in (1, 2, 3, 64):
        parts = run_backward(method, batch, micro_batch)
        check_close(gradients(method), expected)
        check_close(parts, expected_parts, rtol=1e-3, atol=1e-5)
        assert not any(part.requires_grad for part in parts.values())


def test_every_loss_is_logged() -> None:
    method = method_of(EVERYTHING)
    parts = run_backward(method, tiny_batch(method), 2)
    assert set(parts) == {
        *("contrastive", "topk_contrastive", "flops_image", "flops_text", *ANCHORS),
        *("mlm", "image_to_text", "text_to_text", "loss", "terms_image", "terms_text"),
    }
    of_batch = {"flops_image": 0.1, "flops_text": 0.2, "contrastive": 1, "topk_contrastive": 1, **ANCHORS}
    weights = {**of_batch, **PHASE_1}
    assert float(parts["loss"]) == pytest.approx(sum(w * float(parts[n]) for n, w in weights.items()))


def test_shares_of_the_gradient() -> None:
    """Against the gradient of each loss alone."""
    method = method_of(EVERYTHING, dropout=False)
    batch, objective = tiny_batch(method), method.objective
    shares = gradient_shares(step_of(method, batch))
    assert all(parameter.grad is None for parameter in method.parameters())
    norms = {}
    names = "contrastive", "flops_image", "flops_text", *ANCHORS, *PHASE_1
    for name in names:
        others = dict.fromkeys(set(names) - {name}, 0.0)
        method.objective = replace(objective, topk=(), **others)
        run_backward(method, batch)
        of_model = [g for n, g in gradients(method).items() if n.startswith("model.")]
        norms[name] = float(torch.cat([g.flatten() for g in of_model]).norm())
    method.objective = replace(objective, **dict.fromkeys(set(names) - {"contrastive"}, 0.0))
    run_backward(method, batch)
    both = {n: g for n, g in gradients(method).items() if n.startswith("model.")}
    method.objective = replace(method.objective, topk=())
    run_backward(method, batch)
    one = gradients(method)
    norms["topk_contrastive"] = float(torch.cat([(both[n] - one[n]).flatten() for n in both]).norm())
    assert sum(shares.values()) == pytest.approx(1)
    whole = sum(norms.values())
    assert shares == pytest.approx({name: norm / whole for name, norm in norms.items()}, rel=1e-3)
    assert gradient_shares(step_of(method, batch, micro_batch=2)) == {}


def test_shares_of_the_gradient_that_find_no_memory_end_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    method, state = method_of(EVERYTHING), torch.get_rng_state()

    def full(*_: object) -> None:
        torch.rand(3)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(method, "forward", full)
    assert gradient_shares(step_of(method, tiny_batch(method))) == {}
    assert torch.equal(torch.get_rng_state(), state)


def test_shares_of_the_gradient_leave_dropout_s_generator() -> None:
    method, state = method_of(EVERYTHING), torch.get_rng_state()
    gradient_shares(step_of(method, tiny_batch(method)))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in method.parameters())


UNUSED = {
    "be": {"model.classifier.weight", "model.classifier.bias"},
    "vldeformer": {"model.classifier.weight", "model.classifier.bias"},
}


@pytest.mark.parametrize("kind", ["lexlip", "dense", *STAGES])
def test_every_parameter_of_use_gets_a_gradient(kind: str) -> None:
    if kind == "lexlip":
        method = method_of(EVERYTHING)
    elif kind == "dense":
        method = tiny_method(ObjectiveConfig(**NO_WORDS, **PHASE_1, queue=9), tiny_dense()).train()
    else:
        method = stage_of(kind)
    run_backward(method, tiny_batch(method), None if kind == "vldeformer" else 2)
    without = {name for name, p in method.named_parameters() if p.grad is None}
    keys = {name for name, _ in method.named_parameters() if name.startswith("keys.")}
    assert keys <= without
    assert without - keys <= UNUSED.get(kind, set()) | {
        "model.text_encoder.body.embeddings.token_type_embeddings.weight"
    }


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_passes_of_a_micro_batch_drop_the_same_units(precision: str) -> None:
    """With the graph of all chunks held at once, each begun with the generator's state of its first pass."""
    method = method_of(EVERYTHING)
    batch = tiny_batch(method)
    given, chunks, states = step_of(method, batch, precision=precision), batch.split(2), []
    torch.manual_seed(7)
    for chunk in chunks:
        states.append(torch.get_rng_state())
        with torch.no_grad(), given.computing():
            method.raw(chunk)
    after = torch.get_rng_state()
    raws, masked = [], torch.zeros(())
    for chunk, state in zip(chunks, states, strict=True):
        torch.set_rng_state(state)
        with given.computing():
            raw, sums = method(chunk)
        raws.append(raw)
        masked = masked + caption_loss(given, sums)[0]
    with given.computing():
        parts = [method.key_vectors(chunk) for chunk in chunks]
    keys = {name: torch.cat([part[name] for part in parts]) for name in ("image", "text")}
    whole = {name: torch.cat([raw[name] for raw in raws]) for name in ("image", "text")}
    loss, _ = whole_batch_loss(given, whole, keys)
    (loss + masked).backward()
    expected = gradients(method)

    torch.manual_seed(7)
    run_backward(method, batch, 2, precision=precision)
    loose = {"rtol": 2e-2, "atol": 1e-3} if precision == "bf16" else {}
    check_close(gradients(method), expected, **loose)
    assert torch.equal(torch.get_rng_state(), after)  # the next step draws anew


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_dropout_is_drawn_anew_for_every_step(micro_batch: int | None) -> None:
    method = method_of(EVERYTHING)
    batch = tiny_batch(method)
    first, second = (float(run_backward(method, batch, micro_batch)["loss"]) for _ in range(2))
    assert first != second


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_the_scale_of_fp16_is_taken_out_again(micro_batch: int | None) -> None:
    method = method_of(EVERYTHING, dropout=False)
    optimizer, batch = make_optimizer(method, OptimConfig()), tiny_batch(method)
    run_backward(method, batch, micro_batch)
    expected = gradients(method)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    run_backward(method, batch, micro_batch, scaler=scaler)
    scaler.unscale_(optimizer)
    check_close(gradients(method), expected)


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
def test_frozen_parts(frozen: dict[str, float], micro_batch: int | None) -> None:
    """What only some objectives have may be frozen with others, too."""
    method = method_of(CONTRASTIVE if "text_decoder" in frozen and micro_batch else EVERYTHING)
    optimizer = make_optimizer(method, OptimConfig(lr=0.1, lr_scale=frozen))
    before = {name: parameter.clone() for name, parameter in method.named_parameters()}
    run_backward(method, tiny_batch(method), micro_batch)
    optimizer.step()
    for name, parameter in method.named_parameters():
        still = name.removeprefix("model.").startswith((*frozen, "keys."))
        assert (parameter.grad is None) >= still, name
        if still:
            assert torch.equal(parameter, before[name]), name
    assert any(not torch.equal(p, before[n]) for n, p in method.named_parameters())


def step(method: Method, optimizer: torch.optim.Optimizer, batch: Batch, **changes: Any) -> Tensors | None:
    return train_step(step_of(method, batch, **changes), optimizer)


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_keys_follow_and_queues_grow_once_a_step(micro_batch: int | None) -> None:
    method = method_of(EVERYTHING)
    optimizer = make_optimizer(method, OptimConfig(lr=0.05))
    expected = {name: p.clone() for name, p in method.keys.named_parameters()}
    for number in range(3):
        batch = tiny_batch(method, epoch=number, first_photo=100 * number)
        with torch.no_grad():
            vectors = method.key_vectors(batch)
        assert step(method, optimizer, batch, micro_batch=micro_batch) is not None
        for name, parameter in method.model.named_parameters():
            expected[name] = 0.6 * expected[name] + 0.4 * parameter.detach()
        # of 6 keys before the first step, 5 photos and 7 captions a step, the last 9 stay
        assert int(method.image_queue.count) == 6 + 5 * (number + 1)
        assert int(method.text_queue.count) == 6 + 7 * (number + 1)
        for queue, new, photos in (
            (method.image_queue, vectors["image"], batch.photos.indices),
            (method.text_queue, vectors["text"], batch.photos.indices[batch.owners]),
        ):
            start = int(queue.count) - len(new)
            places = [(start + n) % 9 for n in range(len(new))]
            units = new / new.norm(dim=1, keepdim=True)
            torch.testing.assert_close(queue.keys[places].float(), units, rtol=1e-2, atol=2e-3)
            assert queue.images[places].tolist() == photos.tolist()
    check_close(dict(method.keys.named_parameters()), expected, rtol=1e-4, atol=1e-6)
    assert any(
        not torch.equal(p, k)
        for p, k in zip(method.model.parameters(), method.keys.parameters(), strict=True)
    )


def test_a_step_of_micro_batches_is_a_step() -> None:
    """Weights, keys and queues after three of them."""
    found = []
    for micro_batch in (None, 2):
        method = method_of(EVERYTHING, dropout=False)
        optimizer = make_optimizer(method, OptimConfig(lr=1e-3))
        for number in range(3):
            step(method, optimizer, tiny_batch(method, epoch=number), micro_batch=micro_batch, clip=0.5)
        found.append({n: v.float() for n, v in method.state_dict().items()})
    check_close(found[1], found[0], rtol=1e-2, atol=2e-3)


def test_the_gradient_s_norm_is_clipped() -> None:
    moves = []
    for clip in (1e6, 0.5):
        method = method_of(EVERYTHING, dropout=False)
        plain = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=1.0)
        learning = [p for p in method.parameters() if p.requires_grad]
        start = [p.detach().clone() for p in learning]
        parts = step(method, plain, tiny_batch(method), clip=clip)
        changes = [(p.detach() - s).flatten() for p, s in zip(learning, start, strict=True)]
        moves.append((float(parts["grad"]), float(torch.cat(changes).norm())))
    (norm, move), (same_norm, clipped) = moves
    assert norm == pytest.approx(same_norm, rel=1e-4)
    assert norm == pytest.approx(move, rel=1e-3)
    assert norm > 0.5
    assert clipped == pytest.approx(0.5, rel=1e-3)


def test_a_batch_of_unreadable_photos_changes_nothing() -> None:
    method = method_of(EVERYTHING)
    optimizer, batch = make_optimizer(method, OptimConfig(lr=0.05)), tiny_batch(method)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    empty = tiny_collate(EVERYTHING, method.model)(["it is not an image"] * len(batch.photos))
    assert len(empty.unreadable) == len(batch.photos)
    assert step(method, optimizer, empty) is SkippedStep.NO_PHOTO
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


def test_totals() -> None:
    method = tiny_method(ObjectiveConfig(**PHASE_1))
    batch = tiny_batch(method)
    totals = Totals.of(batch, ALONE)
    assert (totals.images, totals.texts, totals.ready) == (5, 7, 1)
    assert totals.encoder_masked == int((batch.masked.encoder_labels >= 0).sum()) > 0
    assert totals.decoder_masked == int((batch.masked.decoder_labels >= 0).sum()) > totals.encoder_masked


@torch.no_grad()
def test_nothing_masked_is_no_division_by_zero() -> None:
    objective = ObjectiveConfig(mlm=1.0)
    method = tiny_method(objective)
    batch = tiny_batch(method)
    nothing = torch.full_like(batch.captions.ids, NOT_MASKED)
    batch = replace(batch, masked=replace(batch.masked, encoder_labels=nothing))
    loss, _ = caption_loss(step_of(method, batch), method(batch)[1])
    assert float(loss) == 0
