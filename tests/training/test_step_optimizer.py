import copy
from dataclasses import replace

import pytest

from lexlip.config import ObjectiveConfig, OptimConfig
from lexlip.errors import ConfigError
from lexlip.training.step import make_optimizer
from tests.tiny import TINY, tiny_method, tiny_model

TWO_LAYERS = replace(TINY, text=replace(TINY.text, options={**TINY.text.options, "num_hidden_layers": 2}))
EVERYTHING = ObjectiveConfig(
    anchor_words=0.4, mlm=0.5, image_to_text=0.7, text_to_text=1.1, queue=9, momentum=0.6
)


def test_groups_by_longest_prefix_and_decay() -> None:
    method = tiny_method(EVERYTHING)
    scales = {"text_encoder": 0.2, "text_encoder.body.embeddings": 0.0, "image_encoder.body": 0.5}
    optimizer = make_optimizer(
        method, OptimConfig(weight_decay=0.3, lr_scale={**scales, "text_decoder": 0.7})
    )
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(of)
    for name, parameter in method.named_parameters():
        name = name.removeprefix("model.")
        if name.startswith(("text_encoder.body.embeddings", "keys.")):
            assert id(parameter) not in of
            assert not parameter.requires_grad
            continue
        known = {"text_encoder": 0.2, "image_encoder.body": 0.5, "text_decoder": 0.7}
        scale = next((scale for prefix, scale in known.items() if name.startswith(prefix)), 1.0)
        assert of[id(parameter)]["scale"] == scale
        assert of[id(parameter)]["weight_decay"] == (0.3 if parameter.ndim > 1 else 0.0)
    assert of[id(method.model.bag_of_words.weight)]["weight_decay"] == 0
    assert of[id(method.model.text_head.norm.weight)]["weight_decay"] == 0


def test_a_prefix_ends_at_a_dot() -> None:
    """blocks.1 is not blocks.10."""
    method = tiny_method(ObjectiveConfig(), tiny_model(TWO_LAYERS))
    layer = method.model.text_encoder.body.encoder.layer
    layer.add_module("10", copy.deepcopy(layer[1]))
    make_optimizer(method, OptimConfig(lr_scale={"text_encoder.body.encoder.layer.1": 0}))
    assert not any(p.requires_grad for p in layer.get_submodule("1").parameters())
    assert all(p.requires_grad for p in layer.get_submodule("10").parameters())


def test_a_prefix_of_nothing() -> None:
    with pytest.raises(ConfigError, match=r"optim\.lr_scale names 'image_encodr', but the model has no"):
        make_optimizer(tiny_method(ObjectiveConfig()), OptimConfig(lr_scale={"image_encodr": 0}))
