"""Average the weights of models, one of which was trained from the other.

    python tools/studies/average_weights.py OUTPUT FOLDER=WEIGHT FOLDER=WEIGHT ...

OUTPUT is a model's folder, as the others are (see lexlip.training.averages).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from lexlip.errors import LexLIPError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.training.averages import average as mean_of


def average(output: Path, weight_of: Mapping[Path, float]) -> None:
    """Save the mean of models, each with its weight; what is no weight is that of the first.

    Raises:
        ModelError: they differ in more than their weights.
        LexLIPError: one of them cannot be read.
    """
    models = [LexLIP.from_pretrained(folder) for folder in weight_of]
    states = [model.state_dict() for model in models]
    for folder, model, state in zip(weight_of, models, states, strict=True):
        shapes = [{name: value.shape for name, value in one.items()} for one in (state, states[0])]
        if shapes[0] != shapes[1] or model.vocabulary.words != models[0].vocabulary.words:
            raise ModelError(f"{folder} is not the same kind of model as {next(iter(weight_of))}")
    models[0].load_state_dict(mean_of(states, list(weight_of.values())))
    for name in ("balance", "keywords", "likely", "honest_end"):  # of the weights before
        setattr(models[0], name, None)
    models[0].save(output)


def main(arguments: list[str]) -> None:
    try:
        output, *parts = arguments
        pairs = [part.rsplit("=", 1) for part in parts]
        weight_of = {Path(folder): float(weight) for folder, weight in pairs}
        if len(weight_of) < 2 or min(weight_of.values()) <= 0:
            raise ValueError
    except ValueError:
        sys.exit("usage: python tools/studies/average_weights.py OUTPUT FOLDER=WEIGHT FOLDER=WEIGHT ...")
    try:
        average(Path(output), weight_of)
    except LexLIPError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
