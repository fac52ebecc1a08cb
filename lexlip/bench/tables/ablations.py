"""How a run differs from the full method of LexLIP (Table 3) or of VLDeformer (Table 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lexlip.config import Config, ObjectiveConfig
from lexlip.errors import ConfigError, ModelError
from lexlip.models.model_folder import kind_of
from lexlip.training.run_folder import Lineage

PARTS: dict[str, Callable[[ObjectiveConfig], bool]] = {
    "L_self": lambda objective: objective.mlm > 0,
    "L_i2t": lambda objective: objective.image_to_text > 0,
    "L_t2t": lambda objective: objective.text_to_text > 0,
    "L_baco": lambda objective: objective.contrastive > 0 and objective.queue == 0,
    "phase 2": lambda objective: objective.contrastive > 0 and objective.queue > 0,
    "image FLOPS": lambda objective: objective.flops_image > 0,
    "text FLOPS": lambda objective: objective.flops_text > 0,
}
"""The full method: each part must be on in at least one phase."""

FLOPS = ("image FLOPS", "text FLOPS")  # not part of the dense method

ADDITIONS: dict[str, Callable[[Config], bool]] = {
    "anchors": lambda config: config.objective.anchors,
    "top-K losses": lambda config: bool(config.objective.topk) and config.objective.topk_contrastive > 0,
    "faithful preset": lambda config: config.preset == "faithful",
}


@dataclass(frozen=True)
class Difference:
    """How a run's method differs from the full one.

    Attributes:
        kind: "LexLIP" or "Dense".
        without: parts of the method that no phase had; empty if `origin` hides earlier phases.
        added: what the paper does not have.
        parts: the parts that the phases had.
        origin: see `Lineage`.
    """

    kind: str
    without: list[str]
    added: list[str]
    parts: list[str]
    origin: str | None

    def __str__(self) -> str:
        words = self.kind
        if self.origin is not None:
            words += f" from {self.origin}: {', '.join(self.parts)}"
        elif self.without:
            words += f" without {', '.join(self.without)}"
        return words + (f"; with {', '.join(self.added)}" if self.added else "")


def difference(lineage: Lineage) -> Difference:
    """Return which parts of the method a run and the runs before it had, and what they added.

    Raises:
        ConfigError: the run is of another kind than LexLIP and Dense.
    """
    kind = lineage.configs[0].model.kind
    if kind not in ("lexlip", "dense"):
        raise ConfigError(f"table 3 is of lexlip and dense models, and a run's model is a {kind} one")
    dense = kind == "dense"
    method = [part for part in PARTS if not (dense and part in FLOPS)]
    had = [part for part in method if any(PARTS[part](config.objective) for config in lineage.configs)]
    return Difference(
        kind="Dense" if dense else "LexLIP",
        without=[] if lineage.origin is not None else [part for part in method if part not in had],
        added=[name for name, has in ADDITIONS.items() if any(map(has, lineage.configs))],
        parts=had,
        origin=lineage.origin,
    )


DECOMPOSED = ("ce", "joint")  # kinds whose Transformer saw captions and photos together


def left_out(lineage: Lineage) -> list[str]:
    """Return what a run leaves out of VLDeformer's method, as in Table 5 of its paper (arXiv 2110.11338).

    "without decomposing" is a cross-encoder that is used as an encoder, untrained for it, and "without
    contrastive loss" is a run with triplets instead. If `lineage.origin` hides how the first run started,
    pre-training counts as done.
    """
    config, first = lineage.configs[0], lineage.configs[-1]
    kinds = [before.model.kind for before in lineage.configs[1:]]
    begun = lineage.origin is None
    undecomposed = config.objective.contrastive == 0 and config.objective.triplet == 0
    parts = {
        "decomposing": undecomposed,
        "contrastive loss": not undecomposed and config.objective.contrastive == 0,
        "composed negatives": not undecomposed and not config.objective.composed_negatives,
        "mean pooling": config.model.kind == "lightningdot"
        or config.model.pooling == "cls"
        or (config.model.kind == "dense" and config.model.pooling is None),
        "a pre-trained text encoder": begun and first.model.text.name is None,
        "a pre-trained image encoder": begun and first.model.image.weights is None,
        "a trained cross-encoder": not any(
            kind in DECOMPOSED for kind in [config.model.kind, *kinds, _kind_of(lineage.origin)]
        ),
    }
    return [part for part, missing in parts.items() if missing]


def _kind_of(origin: str | None) -> str | None:
    """Return the kind of a model that a run started from; None if the model cannot be found."""
    try:
        return None if origin is None else kind_of(origin)
    except ModelError:
        return None
