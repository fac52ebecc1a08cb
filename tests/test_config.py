"""What configs refuse, and what they declare; reading them is tested in test_config_files.py."""

from dataclasses import replace
from typing import Any

import pytest

from lexlip.config import LOSSES, Config, ModelConfig, ObjectiveConfig, OptimConfig, TextEncoderConfig
from lexlip.errors import ConfigError
from lexlip.objectives import losses
from lexlip.registry import MODELS
from lexlip.training.method import CAPTION_LOSSES

NONE: dict[str, Any] = {"contrastive": 0.0, "flops_image": 0.0, "flops_text": 0.0}


def test_every_weight_is_that_of_a_loss() -> None:
    """The loss of truncated documents has a weight relative to that of whole ones."""
    computed = {loss.name for loss in (*losses.LOSSES, *CAPTION_LOSSES)}
    assert computed == {*LOSSES, "topk_contrastive"}


@pytest.mark.parametrize("kind", [kind for kind, model in MODELS.items() if model.trained_here])
def test_every_kind_can_be_trained_with_some_loss(kind: str) -> None:
    possible = []
    for name in LOSSES:
        try:
            Config(model=ModelConfig(kind=kind), objective=ObjectiveConfig(**{**NONE, name: 1.0}))
        except ConfigError:
            continue
        possible.append(name)
    assert possible


@pytest.mark.parametrize("tokens", [0, 2, 10**6 + 1])
def test_a_sentence_has_room_for_a_word(tokens: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"model\.text\.max_tokens is {tokens}; it must be more than 2, and"
    ):
        TextEncoderConfig(max_tokens=tokens)
    TextEncoderConfig(max_tokens=3)


@pytest.mark.parametrize("warmup", [-0.1, 1.01, 2.0])
def test_the_warm_up_is_a_share(warmup: float) -> None:
    with pytest.raises(ConfigError, match=r"optim\.warmup is .*; it must be between 0 and 1"):
        OptimConfig(warmup=warmup)


@pytest.mark.parametrize(
    ("kind", "objective", "message"),
    [
        ("be", {"matching": 1.0}, "matching is for pairs .*, and model.kind=be has none; set it to 0"),
        ("ce", {"contrastive": 1.0}, "objective.contrastive is for vectors of photos and of captions"),
        ("dense", {"triplet": 1.0, "smrm": 1.0}, "smrm is for vectors that are added to token states"),
        ("be", {"triplet": 1.0, "alternate": True}, "alternate has one loss only to train; set it to false"),
        ("dense", {"contrastive": 1.0, "composed_negatives": True}, "that every token contributes to"),
        ("lightningdot", {"contrastive": 1.0, "queue": 8}, "queue is for vectors compared by their cosine"),
    ],
)
def test_objectives_that_a_kind_cannot_have(kind: str, objective: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(model=ModelConfig(kind=kind), objective=ObjectiveConfig(**{**NONE, **objective}))


@pytest.mark.parametrize(
    ("kind", "metric", "compared_by"),
    [
        ("lexlip", None, "cosine"),
        ("lexlip", "dot", "dot"),
        ("dense", "dot", "dot"),
        ("lightningdot", None, "dot"),
        ("lightningdot", "dot", "dot"),
        ("be", "cosine", "cosine"),
    ],
)
def test_how_vectors_are_compared(kind: str, metric: Any, compared_by: str) -> None:
    assert ModelConfig(kind=kind, metric=metric).compared_by == compared_by


@pytest.mark.parametrize(("kind", "metric"), [("be", "dot"), ("lightningdot", "cosine")])
def test_a_kind_that_is_compared_in_one_way(kind: str, metric: Any) -> None:
    with pytest.raises(ConfigError, match=f"model.metric is '{metric}', and model.kind={kind} is always"):
        ModelConfig(kind=kind, metric=metric)


@pytest.mark.parametrize("loss", ["matching", "composed_negatives"])
def test_wrong_pairs_need_two_photos(loss: str) -> None:
    kind = "joint" if loss == "matching" else "vldeformer"
    config = Config(
        model=ModelConfig(kind=kind), objective=ObjectiveConfig(**NONE | {"contrastive": 1.0, loss: True})
    )
    with pytest.raises(ConfigError, match=f"^objective.{loss} makes wrong pairs .* optim.batch is 1: set it"):
        replace(config, optim=OptimConfig(batch=1))


def test_composed_negatives_need_their_batch_whole() -> None:
    objective = ObjectiveConfig(**NONE | {"contrastive": 1.0, "composed_negatives": True})
    with pytest.raises(ConfigError, match=r"leave optim\.micro_batch out"):
        Config(model=ModelConfig(kind="vldeformer"), objective=objective, optim=OptimConfig(micro_batch=8))
