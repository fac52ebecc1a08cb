"""What is varied in tables whose rows are runs: objectives, towers, training photos, layers."""

from __future__ import annotations

from lexlip.config import Config, ModelConfig
from lexlip.data.open import open_sources
from lexlip.errors import ConfigError, DataError
from lexlip.models.model_folder import kind_of, model_folder, read_description
from lexlip.registry import MODELS
from lexlip.training.loading import epoch_rows
from lexlip.training.run_folder import Lineage, lineage, run_of

UNKNOWN_NUMBER = "an unknown number of"


def objectives(line: Lineage) -> str:
    """Return what a LightningDOT run and the runs before it were trained with, the first phase first.

    CMR is the contrastive loss. VMLM and SMRM add the other modality's vector to the states, unless they are
    not fused; SMRM-KL compares distributions.

    Raises:
        ConfigError: the run is of another kind.
    """
    kind = line.configs[0].model.kind
    if kind != "lightningdot":
        raise ConfigError(f"this table is of lightningdot models, and a run's model is a {kind} one")
    phases = [_losses(config) for config in reversed(line.configs)]
    return ", then ".join([*([] if line.origin is None else [f"from {line.origin}"]), *phases])


def _losses(config: Config) -> str:
    objective = config.objective
    unfused = "" if objective.fused else " unfused"
    kl = "-KL" if objective.smrm_loss == "kl" else ""
    names = {
        "CMR": objective.contrastive,
        f"VMLM{unfused}": objective.vmlm,
        f"SMRM{kl}{unfused}": objective.smrm,
        "triplets": objective.triplet,
        "matching": objective.matching,
    }
    return " + ".join(name for name, weight in names.items() if weight) or "other losses"


def towers(line: Lineage) -> str:
    """Return what the two encoders of a run were made from, before the first of its phases."""
    model: ModelConfig = line.configs[-1].model
    image = f"{model.image.name}, {'pre-trained' if model.image.weights else 'random'}"
    layers = f", and {model.image.layers} layers" if model.image.layers else ""
    text = "random BERT" if model.text.name is None else model.text.name
    start = "" if line.origin is None else f"; from {line.origin}"
    return f"image {image}{layers}; text {text}{start}"


def training_photos(line: Lineage) -> str:
    """Return on how many photos the last phase of a run is trained, or pairs if its epochs are of pairs.

    Those with captions that its sources have now, or the sample that it draws of them.
    """
    data = line.configs[0].data
    try:
        number = f"{epoch_rows(open_sources(data.train), data):,}"
    except DataError:
        number = UNKNOWN_NUMBER if data.sample is None else f"{data.sample:,}"
    return f"{number} training {data.epoch}"


def trained_on(model: str) -> str | None:
    """Return the sources that a model's runs were trained on; None if it is not a run."""
    try:
        line = lineage(run_of(model))
    except DataError:
        return None
    paths = [source.path for config in reversed(line.configs) for source in config.data.train]
    return ", ".join(dict.fromkeys([*([] if line.origin is None else [line.origin]), *paths]))


def layers(model: str) -> str | None:
    """Return the Transformer layers of a saved model's text encoder; None if it is not one of this project.

    Raises:
        ModelError: there is no such model.
    """
    kind = kind_of(model)
    if kind not in MODELS or not MODELS[kind].trained_here:
        return None
    architecture = read_description(model_folder(model))["text_architecture"]
    number = architecture.get("num_hidden_layers") or architecture.get("n_layers")
    return f"{number} layers" if number else None
