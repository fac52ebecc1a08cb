"""Rows of models, measured on photos or by their own validations, and what a table says of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lexlip.bench.tables.first_stages import TableSettings, measure_first_stages
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.table import Table
from lexlip.config import Config, ObjectiveConfig
from lexlip.data import Source
from lexlip.data.open import open_sources
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.models.model_folder import kind_of, model_folder, read_description
from lexlip.registry import MODELS
from lexlip.training.loading import Order
from lexlip.training.run_folder import Lineage, best_validation, lineage, read_config, run_of

# ---- rows ----


def measure_models(
    table: Table, models: Sequence[str], photos: Source, name: str, settings: TableSettings
) -> tuple[list[Row], list[str]]:
    """Measure models, by run, checkpoint, packaged or hub name or "bm25"; each encodes the photos once.

    Returns:
        The rows, and notes on how they were measured, which call the photos by `name`; see `together`.
    """
    single = _singles(models)
    methods = methods_of(table, single)
    measured = list(measure_first_stages(single, photos, settings, short=True))
    rows = [
        Row(
            model=stage.name,
            documents=stage.documents,
            method=methods[stage.name],
            report=stage.report,
            skipped=stage.report.skipped,
        )
        for stage in measured
    ]
    engines = list(dict.fromkeys(stage.engine for stage in measured))
    report = measured[0].report
    note = (
        f"Measured on {name}: {report.images} images, {report.captions} captions, one pool,"
        f" {' and '.join(engines)} engine{'s' * (len(engines) > 1)}."
    )
    return together(models, rows), [note, *_deviation(models), *_paper(table)]


def validated_models(table: Table, models: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Return the rows of runs as their own validations found, and notes on the photos of these.

    See `together`.

    Raises:
        DataError: a model is not a run, or has no validation.
    """
    single = _singles(models)
    methods, rows, photos = methods_of(table, single), [], []
    for model in single:
        report, config = best_validation(Path(model)), read_config(Path(model))
        kind = MODELS[config.model.kind]
        documents = "all" if kind.words else "dense" if kind.vectors else "pairs"
        rows.append(Row(model=model, documents=documents, report=report, method=methods[model]))
        sources = [f"{val.path} ({val.split})" if val.split else val.path for val in config.data.val]
        photos.append(f"{', '.join(sources)} ({report.images} images, {report.captions} captions)")
    how = "by brute force, at each run's best checkpoint"
    if len(set(photos)) == 1:
        note = f"Validation on {photos[0]}, {how}."
    else:
        each = "; ".join(f"{model}: {place}" for model, place in zip(single, photos, strict=True))
        note = f"Validation {how}, but on different photos: {each}."
    return together(models, rows), [note, *_deviation(models), *_paper(table)]


def together(models: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Return the rows of models as a table shows them: those of A,B,C, runs of several seeds, as one.

    Raises:
        ConfigError: such runs differ in more than numbers.
    """
    shown: list[Row] = []
    for model in models:
        names = _names(model)
        of_each = [[row for row in rows if row.model == name] for name in names]
        if len(names) == 1:
            shown += of_each[0]
            continue
        whats = [[(row.documents, row.method) for row in own] for own in of_each]
        if whats.count(whats[0]) < len(whats):
            said = ", ".join(
                f"{name}: {own[0].method or own[0].documents}"
                for name, own in zip(names, of_each, strict=True)
            )
            raise ConfigError(f"{model} is to be one row, of runs that differ by their seeds, but {said}")
        shown += [
            replace(several[0], model=model, report=None, runs=several)
            for several in zip(*of_each, strict=True)
        ]
    return shown


def _names(model: str) -> list[str]:
    """Return the models of a row, which commas separate."""
    names = [model] if Path(model).exists() else [name for name in model.split(",") if name]
    return list(dict.fromkeys(names)) or [model]


def _singles(models: Sequence[str]) -> list[str]:
    """Return the models of all rows, each once."""
    return list(dict.fromkeys(name for model in models for name in _names(model)))


def _deviation(models: Sequence[str]) -> list[str]:
    several = any(len(_names(model)) > 1 for model in models)
    return ["± is the standard deviation (n - 1) of the runs of a row."] if several else []


def _paper(table: Table) -> list[str]:
    return [] if table.paper is None else [table.paper]


# ---- what a table of ablations says of a run ----


def methods_of(table: Table, models: Sequence[str]) -> dict[str, str | None]:
    """Return for each model what a table of ablations says of it, such as what its run leaves out.

    Raises:
        DataError: a model is not a run.
        ConfigError: a run's config cannot be read, or is of a kind that the table is not about.
    """
    if table.ablations is None:
        return dict.fromkeys(models)
    if table.ablations == "layers":
        return {model: layers(model) for model in models}
    label = LABELS[table.ablations]
    return {model: label(lineage(run_of(model))) for model in models}


PARTS: dict[str, Callable[[ObjectiveConfig], bool]] = {
    "L_self": lambda objective: objective.mlm > 0,
    "L_i2t": lambda objective: objective.image_to_text > 0,
    "L_t2t": lambda objective: objective.text_to_text > 0,
    "L_baco": lambda objective: objective.contrastive > 0 and objective.queue == 0,
    "phase 2": lambda objective: objective.contrastive > 0 and objective.queue > 0,
    "image FLOPS": lambda objective: objective.flops_image > 0,
    "text FLOPS": lambda objective: objective.flops_text > 0,
}
"""LexLIP's full method: each part must be on in at least one phase."""

FLOPS = ("image FLOPS", "text FLOPS")  # not part of the dense method

ADDITIONS: dict[str, Callable[[Config], bool]] = {
    "anchors": lambda config: config.objective.anchors,
    "caption gates": lambda config: config.objective.caption_gated > 0,
    "words from their dense vectors": lambda config: config.objective.joint,
    "top-K losses": lambda config: bool(config.objective.topk) and config.objective.topk_contrastive > 0,
    "faithful preset": lambda config: config.preset == "faithful",
    "paper preset": lambda config: config.preset == "paper",
}


def difference(line: Lineage) -> str:
    """Return what a run and the runs before it leave out of LexLIP's full method (Table 3), and add to it.

    If `line.origin` hides earlier phases, the parts that the others had are named instead.

    Raises:
        ConfigError: the run is of another kind than LexLIP and Dense.
    """
    kind = line.configs[0].model.kind
    if kind not in ("lexlip", "dense"):
        raise ConfigError(f"table 3 is of lexlip and dense models, and a run's model is a {kind} one")
    dense = kind == "dense"
    method = [part for part in PARTS if not (dense and part in FLOPS)]
    phases = [config.objective for config in line.configs if not config.finetuning or line.origin]
    had = [part for part in method if any(map(PARTS[part], phases))]
    added = [name for name, has in ADDITIONS.items() if any(map(has, line.configs))]
    words = "Dense" if dense else "LexLIP"
    if line.origin is not None:
        words += f" from {line.origin}: {', '.join(had)}"
    elif without := [part for part in method if part not in had]:
        words += f" without {', '.join(without)}"
    return words + (f"; with {', '.join(added)}" if added else "")


DECOMPOSED = ("ce", "joint")  # kinds whose Transformer saw captions and photos together


def left_out(line: Lineage) -> list[str]:
    """Return what a run leaves out of VLDeformer's method, as in Table 5 of its paper (arXiv 2110.11338).

    "without decomposing" is a cross-encoder that is used as an encoder, untrained for it, and "without
    contrastive loss" is a run with triplets instead. If `line.origin` hides how the first run started,
    pre-training counts as done.
    """
    config, first = line.configs[0], line.configs[-1]
    kinds = [before.model.kind for before in line.configs[1:]]
    begun = line.origin is None
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
            kind in DECOMPOSED for kind in [config.model.kind, *kinds, _kind_of(line.origin)]
        ),
    }
    return [part for part, missing in parts.items() if missing]


def _kind_of(origin: str | None) -> str | None:
    """Return the kind of a model that a run started from; None if the model cannot be found."""
    try:
        return None if origin is None else kind_of(origin)
    except ModelError:
        return None


def _without(line: Lineage) -> str:
    parts = left_out(line)
    return f"without {', '.join(parts)}" if parts else "full"


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
    phases = [_losses(config.objective) for config in reversed(line.configs)]
    return ", then ".join([*([] if line.origin is None else [f"from {line.origin}"]), *phases])


def _losses(objective: ObjectiveConfig) -> str:
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
    model = line.configs[-1].model
    image = f"{model.image.name}, {'pre-trained' if model.image.weights else 'random'}"
    more = f", and {model.image.layers} layers" if model.image.layers else ""
    text = "random BERT" if model.text.name is None else model.text.name
    start = "" if line.origin is None else f"; from {line.origin}"
    return f"image {image}{more}; text {text}{start}"


def training_photos(line: Lineage) -> str:
    """Return on how many photos the last phase of a run is trained, or pairs if its epochs are of pairs.

    Those with captions that its sources have now, or the sample that it draws of them.
    """
    config, data = line.configs[0], line.configs[0].data
    try:
        number = f"{len(Order(open_sources(data.train), config).rows):,}"
    except DataError:
        number = "an unknown number of" if data.sample is None else f"{data.sample:,}"
    return f"{number} training {data.epoch}"


LABELS: dict[str, Callable[[Lineage], str]] = {
    "lexlip": difference,
    "vldeformer": _without,
    "objectives": objectives,
    "design": lambda line: f"{towers(line)}; {objectives(line)}",
    "training photos": training_photos,
}
"""What a table of ablations says of a run, by `Table.ablations`."""


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


def trained_on(model: str) -> str | None:
    """Return the sources that a model's runs were trained on; None if it is not a run."""
    try:
        line = lineage(run_of(model))
    except DataError:
        return None
    paths = [source.path for config in reversed(line.configs) for source in config.data.train]
    return ", ".join(dict.fromkeys([*([] if line.origin is None else [line.origin]), *paths]))
