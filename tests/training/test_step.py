from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from lexlip.config import ObjectiveConfig, OptimConfig
from lexlip.models.lexlip import LexLIP
from lexlip.objectives.total import total_loss
from lexlip.training.batches import Batch, Inputs
from lexlip.training.step import backward, make_optimizer, set_learning_rate
from tests.reference.losses import naive_learning_rate
from tests.tiny import CAPTIONS, TINY, tiny_model, tiny_photos

EVERYTHING = ObjectiveConfig(
    temperature=0.2,
    flops_image=0.1,
    flops_text=0.2,
    anchor_contrastive=0.5,
    anchor_align=0.3,
    anchor_words=0.4,
)
WITHOUT_DROPOUT = replace(
    TINY,
    text=replace(
        TINY.text,
        options={**TINY.text.options, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ),
)
OFF = torch.amp.GradScaler("cpu", enabled=False)


def inputs(model: LexLIP) -> Inputs:
    """Five photos with one or two captions each."""
    owners = [0, 0, 1, 2, 2, 3, 4]
    captions = [CAPTIONS[i % 6] for i in range(7)]
    of_photo = [tuple(c for c, owner in zip(captions, owners, strict=True) if owner == i) for i in range(5)]
    return Inputs.of(Batch(tiny_photos(5), captions, torch.tensor(owners), of_photo, []), model)


def loss_of(outputs: dict[str, Tensor], given: Inputs) -> tuple[Tensor, dict[str, Tensor]]:
    return total_loss(outputs, given.image_of_text, given.word_counts, EVERYTHING, progress=1.0)


def gradients(model: LexLIP) -> dict[str, Tensor]:
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 5, 64])
def test_the_gradient_does_not_depend_on_the_micro_batch(micro_batch: int) -> None:
    model = tiny_model(WITHOUT_DROPOUT).train()
    given = inputs(model)
    expected_parts = backward(model, given, loss_of, None, "fp32", OFF)
    expected = gradients(model)
    parts = backward(model, given, loss_of, micro_batch, "fp32", OFF)
    found = gradients(model)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    for name, part in expected_parts.items():
        torch.testing.assert_close(parts[name], part, rtol=1e-4, atol=1e-5)
    assert set(parts) >= {"contrastive", "flops_image", "flops_text", "anchor", "align", "words", "loss"}


def test_every_parameter_of_use_gets_a_gradient() -> None:
    model = tiny_model().train()
    backward(model, inputs(model), loss_of, 2, "fp32", OFF)
    assert {name for name, p in model.named_parameters() if p.grad is None} <= {
        "text_encoder.body.embeddings.token_type_embeddings.weight"
    }


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_passes_of_a_micro_batch_drop_the_same_units(precision: str) -> None:
    model = tiny_model().train()
    given = inputs(model)
    torch.manual_seed(7)
    parts = []
    for chunk in given.split(2):  # with the graph of all chunks held at once
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            parts.append(model(chunk.pixels, chunk.ids, chunk.mask, chunk.present))
    loss, _ = loss_of({name: torch.cat([part[name] for part in parts]) for name in parts[0]}, given)
    loss.backward()
    expected, after = gradients(model), torch.get_rng_state()

    torch.manual_seed(7)
    backward(model, given, loss_of, 2, precision, OFF)
    found = gradients(model)
    for name, gradient in expected.items():
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert torch.equal(torch.get_rng_state(), after)  # the next step draws anew


def test_dropout_is_drawn_anew_for_every_step() -> None:
    model = tiny_model().train()
    given = inputs(model)
    first, second = (float(backward(model, given, loss_of, 2, "fp32", OFF)["loss"]) for _ in range(2))
    assert first != second


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_the_scale_of_fp16_is_taken_out_again(micro_batch: int | None) -> None:
    model = tiny_model(WITHOUT_DROPOUT).train()
    optimizer = make_optimizer(model, OptimConfig())
    backward(model, inputs(model), loss_of, micro_batch, "fp32", OFF)
    expected = gradients(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    backward(model, inputs(model), loss_of, micro_batch, "fp32", scaler)
    scaler.unscale_(optimizer)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize(
    "frozen",
    [
        {"image_encoder": 0.0, "image_head": 0.0},
        {"text_encoder": 0.0, "text_head": 0.0},
        {"bag_of_words": 0.0},
    ],
)
def test_frozen_parts(frozen: dict[str, float], micro_batch: int | None) -> None:
    model = tiny_model().train()
    optimizer = make_optimizer(model, OptimConfig(lr=0.1, lr_scale=frozen))
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    backward(model, inputs(model), loss_of, micro_batch, "fp32", OFF)
    optimizer.step()
    for name, parameter in model.named_parameters():
        still = name.startswith(tuple(frozen))
        assert (parameter.grad is None) >= still, name
        if still:
            assert torch.equal(parameter, before[name]), name
    assert any(not torch.equal(p, before[n]) for n, p in model.named_parameters())


def test_split_keeps_photos_and_captions_together() -> None:
    model = tiny_model()
    given = inputs(model)
    parts = given.split(2)
    assert [len(part.pixels) for part in parts] == [2, 2, 1]
    assert [part.image_of_text.tolist() for part in parts] == [[0, 0, 1], [0, 0, 1], [0]]
    for name in ("pixels", "ids", "mask", "present", "word_counts"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(given, name))


def test_word_counts_are_of_all_captions() -> None:
    model = tiny_model()
    batch = Batch(
        tiny_photos(1), [CAPTIONS[0]], torch.tensor([0]), [("a dog", "two dogs dog", "a dog in snow")], []
    )
    given = Inputs.of(batch, model)
    counts = dict(zip(model.vocabulary.words, given.word_counts[0].tolist(), strict=True))
    assert {w: c for w, c in counts.items() if c} == {"dog": 3, "two": 1, "dogs": 1, "snow": 1}
    assert given.present.sum() == 4  # two dogs play snow


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0.3), (7, 0.0), (1, 0.1), (20, 1.0), (100, 0.1)])
def test_learning_rate(steps: int, warmup: float) -> None:
    config = OptimConfig(lr=0.5, warmup=warmup, lr_scale={"text": 0.1})
    optimizer = make_optimizer(tiny_model(), config)
    rates = [set_learning_rate(optimizer, config, step, steps) for step in range(steps)]
    np.testing.assert_allclose(rates, [naive_learning_rate(0.5, s, steps, warmup) for s in range(steps)])
    assert max(rates) == pytest.approx(0.5)
    assert min(rates) > 0
    for group in optimizer.param_groups:
        assert group["lr"] == pytest.approx(rates[-1] * group["scale"])


def test_groups_by_longest_prefix_and_decay() -> None:
    model = tiny_model()
    scales = {"text_encoder": 0.2, "text_encoder.body.embeddings": 0.0, "image_encoder.body": 0.5}
    optimizer = make_optimizer(model, OptimConfig(weight_decay=0.3, lr_scale=scales))
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        if name.startswith("text_encoder.body.embeddings"):
            assert id(parameter) not in of
            assert not parameter.requires_grad
            continue
        scale = (
            0.2 if name.startswith("text_encoder") else 0.5 if name.startswith("image_encoder.body") else 1.0
        )
        assert of[id(parameter)]["scale"] == scale
        assert of[id(parameter)]["weight_decay"] == (0.3 if parameter.ndim > 1 else 0.0)
    assert of[id(model.bag_of_words.weight)]["weight_decay"] == 0
    assert of[id(model.text_head.norm.weight)]["weight_decay"] == 0
