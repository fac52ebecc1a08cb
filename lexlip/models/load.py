"""Loads a saved model of any kind by name, and says beforehand what it is good for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexlip.config import REGIONS
from lexlip.errors import ConfigError, ModelError
from lexlip.models.model_folder import is_hub_name, kind_of, model_folder, read_description
from lexlip.registry import BM25, MODELS, load_class

if TYPE_CHECKING:
    from lexlip.config import ModelConfig
    from lexlip.models.contract import Encoder
    from lexlip.models.dual_encoder import DualEncoder
    from lexlip.models.one_transformer import OneTransformer


def load_model(name: str | Path, device: str = "cpu") -> Encoder:
    """Load a model that has vectors, by packaged name ("mini"), folder, training run or hub name.

    ModelError: there is no such model, its files are damaged or of an unknown kind or version, or it has no
    vectors. ConfigError: there is no such device (see `lexlip.machine.device.pick_device`).
    """
    check_first_stage(name)
    encoder: Encoder = _load(name, device)
    return encoder


def load_dense(name: str | Path, device: str = "cpu") -> Encoder:
    """Load a model of dense vectors, as `load_model` does.

    ModelError: as there, or it is a model of words.
    """
    encoder = load_model(name, device)
    if encoder.vocabulary is not None:
        raise ModelError(f"{name} is a model of words: give a dense one as --dense")
    return encoder


def load_reranker(name: str | Path, device: str = "cpu") -> OneTransformer:
    """Load a model that compares pairs, by folder.

    ModelError: there is no such model, its files are damaged, or it does not compare pairs. ConfigError:
    there is no such device.
    """
    check_reranker(name)
    model: OneTransformer = _load(name, device)
    return model.fold_batch_norms()


def _load(name: str | Path, device: str) -> Any:
    from lexlip.machine.device import pick_device  # loads torch

    kind = kind_of(name)
    if kind not in MODELS:
        raise ModelError(f"'{name}' encodes nothing, it takes captions as they are: give a model")
    place = pick_device(device)  # before the weights are read
    return load_class(MODELS[kind].implementation).from_pretrained(name).to(place)


def load_initial(name: str | Path, config: ModelConfig) -> DualEncoder:
    """Load a model of kind `config.kind` to train, with the weights of a saved one.

    All weights are taken from a model of the same kind or of a relative. A kind without words also takes the
    two encoders of any other kind, and gets new heads. ModelError: there is no such model, its files are
    damaged, or it is of another kind.
    """
    kind, folder = MODELS[config.kind], model_folder(name)
    cls = load_class(kind.implementation)
    saved = read_description(folder)["kind"]
    if saved not in MODELS or saved in (config.kind, *kind.relatives) or kind.words:
        model: DualEncoder = cls.from_pretrained(folder, or_relative=True)
        return model
    other: DualEncoder = load_class(MODELS[saved].implementation).from_pretrained(folder)
    encoders = replace(config, image=other.config.image, text=other.config.text)
    model = cls(encoders, other.tokenizer, None, other.text_encoder.architecture)
    model.image_encoder.load_state_dict(other.image_encoder.state_dict())
    model.text_encoder.load_state_dict(other.text_encoder.state_dict())
    return model.eval()


def check_first_stage(name: str | Path) -> None:
    """Raise ModelError unless a model, or "bm25", can find photos."""
    kind = kind_of(name)
    if kind == BM25:
        return
    if kind not in MODELS:
        raise ModelError(
            f"{model_folder(name)} holds a model of kind {kind!r}; known kinds: {', '.join(MODELS)}"
        )
    if not MODELS[kind].vectors:
        raise ModelError(
            f"{name} is a {kind} model, which has no vectors to find photos by; it can rerank what a first"
            " stage has found (--rerank)"
        )


def check_reranker(name: str | Path) -> None:
    """Raise ModelError unless a model compares pairs."""
    if is_hub_name(name):
        model_folder(name)
    if not compares_pairs(name):
        pairs = " or ".join(kind for kind, model in MODELS.items() if model.pairs)
        raise ModelError(f"{name} is a first stage and cannot rerank; reranking needs a {pairs} model")


def check_regions(regions: str | Path | None, models: Sequence[str | Path]) -> None:
    """Raise ConfigError if regions are given to models that all take pictures, or are lacking."""
    taking = [model for model in models if _takes_regions(model)]
    if regions is None and taking:
        raise ConfigError(
            f"'{taking[0]}' takes what a detector found in the photos: say where that is, by --regions"
        )
    if regions is not None and not taking:
        raise ConfigError(f"'{models[0]}' does not take a detector's regions: leave --regions out")


def _takes_regions(name: str | Path) -> bool:
    kind = MODELS.get(kind_of(name))
    if kind is None or not kind.trained_here:
        return False
    description = read_description(model_folder(name))
    return bool(description.get("model", {}).get("image", {}).get("name") == REGIONS)


def compares_pairs(name: str | Path) -> bool:
    """Return whether a model scores if a caption describes a photo."""
    kind = kind_of(name)
    return kind in MODELS and MODELS[kind].pairs
