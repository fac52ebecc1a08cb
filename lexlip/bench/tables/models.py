"""Rows of models: as they are measured on photos, or as their own validations found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lexlip.bench.tables.ablations import difference, left_out
from lexlip.bench.tables.first_stages import measure_first_stages
from lexlip.bench.tables.row import Row
from lexlip.bench.tables.run_labels import layers, objectives, towers, training_photos
from lexlip.bench.tables.settings import TableSettings
from lexlip.bench.tables.table import Table
from lexlip.data import Source
from lexlip.registry import MODELS
from lexlip.training.run_folder import Lineage, best_validation, lineage, read_config, run_of


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


def _without(line: Lineage) -> str:
    parts = left_out(line)
    return f"without {', '.join(parts)}" if parts else "full"


LABELS: dict[str, Callable[[Lineage], str]] = {
    "lexlip": lambda line: str(difference(line)),
    "vldeformer": _without,
    "objectives": objectives,
    "towers": towers,
    "training photos": training_photos,
}
"""What a table of ablations says of a run, by `Table.ablations`."""


def measure_models(
    table: Table, models: Sequence[str], photos: Source, name: str, settings: TableSettings
) -> tuple[list[Row], list[str]]:
    """Measure models on the same photos; each encodes them once.

    Args:
        table: which one.
        models: by run, checkpoint, packaged or hub name, or "bm25".
        photos: with captions.
        name: of the photos, for the notes.
        settings: how they are measured.

    Returns:
        The rows, and notes on how they were measured.
    """
    methods = methods_of(table, models)
    measured = list(measure_first_stages(models, photos, settings, short=True))
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
    return rows, [note, *_paper(table)]


def validated_models(table: Table, models: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Return the rows of runs as their own validations found, and notes on the photos of these.

    Raises:
        DataError: a model is not a run, or has no validation.
    """
    methods, rows, photos = methods_of(table, models), [], []
    for model in models:
        report, config = best_validation(Path(model)), read_config(Path(model))
        kind = MODELS[config.model.kind]
        documents = "all" if kind.words else "dense" if kind.vectors else "pairs"
        rows.append(Row(model=model, documents=documents, report=report, method=methods[model]))
        sources = [f"{val.path} ({val.split})" if val.split else val.path for val in config.data.val]
        photos.append(f"{', '.join(sources)} ({report.images} images, {report.captions} captions)")
    how = "by brute force, at each run's best checkpoint"
    if len(set(photos)) == 1:
        return rows, [f"Validation on {photos[0]}, {how}.", *_paper(table)]
    each = "; ".join(f"{model}: {place}" for model, place in zip(models, photos, strict=True))
    return rows, [f"Validation {how}, but on different photos: {each}.", *_paper(table)]


def _paper(table: Table) -> list[str]:
    return [] if table.paper is None else [table.paper]
