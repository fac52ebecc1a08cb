import subprocess
import sys

import pytest

from lexlip.registry import INDEXES, MODELS, load_class
from lexlip.retrieval.first_stage import FirstStage


@pytest.mark.parametrize("kind", MODELS)
def test_a_kind_s_class_is_of_that_kind_and_can_do_what_is_said(kind: str) -> None:
    cls, model = load_class(MODELS[kind].implementation), MODELS[kind]
    assert cls.kind == kind
    if model.trained_here:
        assert hasattr(cls, "score_pairs") == model.photo_tokens
    if model.pairs:
        assert "pair_logits" in {name for base in cls.__mro__[:-3] for name in vars(base)}
    assert model.cosines == (model.vectors and model.metric == "cosine")


def test_relatives_are_mutual() -> None:
    for kind, model in MODELS.items():
        for relative in model.relatives:
            assert kind in MODELS[relative].relatives


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_s_class_searches_that_kind(kind: str) -> None:
    stage = load_class(INDEXES[kind])
    assert issubclass(stage, FirstStage)
    assert not stage.__abstractmethods__


def test_reading_the_registry_imports_no_implementation() -> None:
    code = "import sys, lexlip.registry; print([m for m in sys.modules if m.startswith('lexlip.models')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
