"""A training step on a GPU: on a pretended one what moves and what waits, on a real one what comes out."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lexlip.config import ObjectiveConfig, OptimConfig
from lexlip.training.step import make_optimizer, train_step
from tests.pretend_gpu import pretend_gpu
from tests.tiny import WITHOUT_DROPOUT, tiny_batch, tiny_method, tiny_model, tiny_stage
from tests.training.small_run import step_of

PHASE_1 = ObjectiveConfig(mlm=1.0, image_to_text=1.0, text_to_text=1.0)
NO_WORDS: dict[str, Any] = {"flops_image": 0.0, "flops_text": 0.0}
OBJECTIVES = {
    "phase 1": ("lexlip", PHASE_1),
    "phase 2": ("lexlip", ObjectiveConfig(queue=21, topk=(3,))),
    "anchors": (
        "lexlip",
        ObjectiveConfig(topk=(2, 5), anchor_contrastive=0.5, anchor_align=0.5, anchor_words=0.5),
    ),
    "dense": ("dense", ObjectiveConfig(**NO_WORDS, mlm=1.0)),
    "BE": ("be", ObjectiveConfig(**NO_WORDS, contrastive=0.0, triplet=1.0)),
    "CE": ("ce", ObjectiveConfig(**NO_WORDS, contrastive=0.0, matching=1.0)),
}
WAITS = 12  # of phase 1 at most, each of which empties the GPU's queue; there were 28
ELSEWHERE = ("models/", "training/distributed.py", "encoders/lexicon.py", "encoders/image.py")


def losses(kind: str, objective: ObjectiveConfig, device: str, waits: list[str] | None = None, **optim: Any):
    """The losses of two steps, by name; `waits` then holds what waited in the second."""
    if kind == "lexlip":
        model: Any = tiny_model(WITHOUT_DROPOUT)
    else:
        model = tiny_stage(kind, WITHOUT_DROPOUT)
    method = tiny_method(objective, model).to(device)
    batch = tiny_batch(method).to(torch.device(device))
    optimizer = make_optimizer(method, OptimConfig())
    scaler = torch.amp.GradScaler("cuda", enabled=optim.get("precision") == "fp16")
    found = []
    for _ in range(2):
        if waits is not None:
            waits.clear()
        parts = train_step(step_of(method, batch, 0.5, scaler, **optim), optimizer)
        found.append(parts)
    seen = list(waits or [])
    plain = [{name: float(value) for name, value in parts.items()} for parts in found]
    if waits is not None:
        waits[:] = seen  # without those of the line before
    return plain


def check_equal(found: list[dict[str, float]], expected: list[dict[str, float]], tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_everything_is_on_the_gpu(
    name: str, micro_batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, objective = OBJECTIVES[name]
    expected = losses(kind, objective, "cpu", micro_batch=micro_batch)
    with pretend_gpu(monkeypatch) as waits:
        found = losses(kind, objective, "cuda:0", waits, micro_batch=micro_batch)
    check_equal(found, expected, 1e-3)
    assert not [wait for wait in waits if wait.startswith(ELSEWHERE)]


def test_how_often_phase_1_waits_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretend_gpu(monkeypatch) as waits:
        losses("lexlip", PHASE_1, "cuda:0", waits)
    assert len(waits) <= WAITS, "\n".join(waits)


@pytest.mark.gpu
@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_on_a_gpu(name: str, precision: str, micro_batch: int | None) -> None:
    kind, objective = OBJECTIVES[name]
    expected = losses(kind, objective, "cpu", micro_batch=micro_batch)
    found = losses(kind, objective, "cuda", precision=precision, micro_batch=micro_batch)
    for rows in (found, expected):
        for row in rows:
            row.pop("grad")  # fp16's first steps may overflow, and are then left out
    check_equal(found[:1], expected[:1], 1e-2 if precision == "fp32" else 0.1)


@pytest.mark.gpu
def test_activations_that_are_recomputed_on_a_gpu() -> None:
    tall = tiny_model(replace(WITHOUT_DROPOUT))
    tall.checkpoint_activations()
    method = tiny_method(PHASE_1, tall).to("cuda").train()
    raw, sums = method(tiny_batch(method).to(torch.device("cuda")))
    (sum(value.sum() for value in raw.values()) + sum(sums.values())).backward()
    assert all(p.grad is None or p.grad.is_cuda for p in method.parameters())
