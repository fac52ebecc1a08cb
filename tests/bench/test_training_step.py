import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from lexlip.bench import training_step as train
from lexlip.bench.training_step import StepSettings, TrainingStep, measure
from lexlip.config import ImageEncoderConfig
from lexlip.errors import ConfigError
from tests.bench.tiny_size import TINY

SETTINGS = StepSettings(TINY, batch=4, captions=2, terms=20, precision="fp32", device="cpu", threads=1)


@pytest.fixture(autouse=True)
def threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.set_flush_denormal(False)


def gradients(step: TrainingStep, variant: str) -> dict[str, torch.Tensor]:
    step.modules.eval()  # no dropout: every run sees the same
    assert step.run(variant) > 0
    return {name: p.grad.clone() for name, p in step.modules.named_parameters() if p.grad is not None}


def test_naive_and_lean_compute_the_same() -> None:
    step = TrainingStep(SETTINGS)
    naive, lean = gradients(step, "naive"), gradients(step, "lean")
    assert naive.keys() == lean.keys()
    assert any(gradient.abs().max() > 0 for gradient in naive.values())
    for name, gradient in naive.items():
        torch.testing.assert_close(lean[name], gradient, rtol=1e-4, atol=1e-6)


def test_what_is_frozen_and_what_the_bare_encoders_train() -> None:
    step = TrainingStep(SETTINGS)
    lean, bare = gradients(step, "lean"), gradients(step, "encoders")
    assert not any(name.startswith("text_encoder.body.embeddings") for name in lean)
    assert {name for name in lean if not name.startswith("heads.")} == set(bare)
    assert {name.split(".")[1] for name in lean if name.startswith("heads.")} == {"image", "text"}


@pytest.mark.parametrize("terms", [5, 50])
def test_vectors_are_as_sparse_as_asked(terms: int) -> None:
    step = TrainingStep(replace(SETTINGS, terms=terms))
    for found in step.terms.values():
        assert terms / 2 < found < 2 * terms


def test_special_positions_are_not_pooled() -> None:
    step = TrainingStep(SETTINGS)
    assert not step.masks["image"][:, 0].any()  # the [CLS] of the ViT
    assert step.masks["image"][:, 1:].all()
    assert not step.masks["text"][:, 0].any()
    assert (step.masks["text"].sum(dim=1) == step.inputs["text"][1].sum(dim=1) - 1).all()


@pytest.mark.parametrize("size", ["mini", "base"])
def test_sizes_are_those_of_the_packaged_and_the_paper_s_towers(size: str) -> None:
    text, image = train.SIZES[size].text.options, train.SIZES[size].image
    assert text["vocab_size"] == 30_522
    assert image == (
        ImageEncoderConfig("mobilenetv2_100", {"pad_type": "same"}, size=160, layers=2)
        if size == "mini"
        else ImageEncoderConfig("vit_base_patch16_224", size=224)
    )


@pytest.mark.slow
def test_a_measurement() -> None:
    settings = replace(SETTINGS, size=replace(TINY, vocabulary=20_000), batch=16, terms=100)
    report = measure(settings, rounds=2)
    conditions, variants = report["conditions"], report["variants"]
    assert list(variants) == ["encoders", "naive", "lean"]
    for row in variants.values():
        assert list(row) == ["step_ms", "samples_per_s", "peak_mb", "ratio"]
        assert row["samples_per_s"] == pytest.approx(16_000 / row["step_ms"])
    assert variants["encoders"]["ratio"] == 1
    assert (conditions["batch"], conditions["vocabulary"], conditions["rounds"]) == (16, 20_000, 2)
    assert conditions["terms_image"] > 0
    whole = 4e-6 * 16 * conditions["image_positions"] * 20_000  # MB of [B, P, V] in fp32
    assert variants["naive"]["peak_mb"] > variants["lean"]["peak_mb"] + whole


def test_too_many_terms_and_no_such_device() -> None:
    with pytest.raises(ConfigError, match="300 terms are too many for 300 words"):
        TrainingStep(replace(SETTINGS, terms=300))
    with pytest.raises(ConfigError, match="device 'tpu' cannot be used here"):
        TrainingStep(replace(SETTINGS, device="tpu"))


def test_a_step_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    step = TrainingStep(SETTINGS)
    monkeypatch.setattr(step, "_loss", lambda variant: torch.empty(10**15))
    with pytest.raises(ConfigError, match="the step 'naive' does not fit into memory at a batch of 4; lower"):
        step.run("naive")


def test_a_fault_stays_a_fault_and_one_of_the_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    step = TrainingStep(SETTINGS)
    monkeypatch.setattr(step, "_loss", lambda variant: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        step.run("lean")
    with pytest.raises(ConfigError, match=r"torch.compile fails here, leave it out: .*size"):
        step.run("compiled")


def killed(settings: StepSettings, variant: str) -> float:
    os._exit(9)


@pytest.mark.slow
def test_a_killed_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "peak_memory", killed)
    with pytest.raises(ConfigError, match="the step 'encoders' does not fit into memory"):
        measure(SETTINGS, rounds=1)
