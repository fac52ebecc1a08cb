"""lexlip table"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.evaluate import engine_option, open_captioned
from lexlip.cli.table2 import table2
from lexlip.cli.table_stages import commands

if TYPE_CHECKING:
    from lexlip.data import Source
    from lexlip.evaluation.tables import Row
    from lexlip.search.engines import EngineName
    from lexlip.sparse.quantize import Scheme


DOCUMENTS = {"lexlip": "all", "ce": "pairs"}  # what a validation keeps of a photo, by kind; others: a vector


@click.group()
def table() -> None:
    """Print a table for your own models and photos: stages, or one of a paper.

    1, 2 and 3 are those of the LexLIP paper, the others those of the papers of the stages to compare with.
    """


def models_and_options(command: Callable[..., None]) -> Callable[..., None]:
    """What tables of models take."""
    for option in (
        options.json_option,
        options.markdown_option,
        options.workers_option,
        options.quantization_option,
        engine_option,
        click.option(
            "--topk",
            "topks",
            type=options.TopK(),
            multiple=True,
            metavar="K",
            help="Words that a document keeps, or all; once for each row of a model.  [default: all and 32]",
        ),
        options.split_option,
        options.images_option,
        click.option(
            "--source", metavar="SOURCE", help="Photos with captions to measure on, as for evaluate."
        ),
        click.argument("models", nargs=-1, required=True, metavar="MODEL..."),
    ):
        command = option(command)
    return command


@table.command("1")
@models_and_options
def table1(**arguments: Any) -> None:
    """Compare models.

    MODEL is a run's folder (its best checkpoint), a checkpoint, a packaged name, or a CLIP by folder or hub
    name. With --source all are measured on the same photos, without it the validation results of the runs
    are shown. --engine is for the models that it fits, the others have their own.
    """
    _table_of_models(1, **arguments)


@table.command("3")
@models_and_options
def table3(**arguments: Any) -> None:
    """Compare ablations.

    MODEL is a run's folder (its best checkpoint) or one of its checkpoints. The table says what each run's
    config, and those of the runs it started from, switch off or add. With --source all are measured on the
    same photos, without it the validation results of the runs are shown. --engine is for the models that it
    fits, the others have their own.
    """
    _table_of_models(3, **arguments)


for command in (table2, *commands()):
    table.add_command(command)


def _table_of_models(
    number: int,
    models: tuple[str, ...],
    source: str | None,
    images: str | None,
    split: str | None,
    topks: tuple[str | int, ...],
    engine: EngineName | None,
    quantization: Scheme,
    workers: int,
    markdown: bool,
    as_json: bool,
) -> None:
    if source is None and (images or split or topks):
        raise click.UsageError("--images, --split and --topk need --source.")
    options.one_format(markdown, as_json)

    from lexlip.evaluation.ablations import difference
    from lexlip.evaluation.runs import lineage, run_of
    from lexlip.evaluation.tables import PAPER, as_markdown, as_text, cells

    methods = [str(difference(lineage(run_of(model)))) if number == 3 else None for model in models]
    if source is None:
        rows, measured = _validated(models, methods)
    else:
        photos = open_captioned(source, images, split)
        engines, rows = _measured(
            models,
            methods,
            photos,
            topks or ("all", 32),
            engine=engine,
            scheme=quantization,
            workers=workers,
            progress=not as_json,
        )
        many = "s" if len(engines) > 1 else ""
        of_split = f" ({split})" if split else ""
        measured = (
            f"Measured on {source}{of_split}: {rows[0].report.images} images,"
            f" {rows[0].report.captions} captions, one pool, {' and '.join(engines)} engine{many}."
        )
    if as_json:
        plain = [row.to_dict() for row in rows]
        click.echo(json.dumps({"table": number, "rows": plain, "notes": [measured, PAPER[number]]}))
        return
    lines = cells(rows)
    click.echo(as_markdown(lines) if markdown else as_text(lines))
    click.echo(f"\n{measured}\n{PAPER[number]}")


def _measured(
    models: Sequence[str],
    methods: Sequence[str | None],
    photos: Source,
    topks: Sequence[str | int],
    **options: Any,
) -> tuple[list[str], list[Row]]:
    """The engines in use, and the rows of all models, each of which is encoded once."""
    from lexlip.cli.index import show_skipped
    from lexlip.evaluation.first_stages import Settings, measure_first_stages
    from lexlip.evaluation.tables import Row

    kept = [None if isinstance(topk, str) else topk for topk in topks]
    measured = list(measure_first_stages(models, photos, Settings(topks=kept, **options)))
    show_skipped(measured[0].report.skipped)  # the others skip the same photos
    method_of = dict(zip(models, methods, strict=True))
    rows = [Row(stage.name, stage.documents, stage.report, method_of[stage.name]) for stage in measured]
    return list(dict.fromkeys(stage.engine for stage in measured)), rows


def _validated(models: Sequence[str], methods: Sequence[str | None]) -> tuple[list[Row], str]:
    """The rows of runs as their own validations have them, and on which photos those were."""
    from lexlip.evaluation.runs import best_validation, read_config
    from lexlip.evaluation.tables import Row

    rows, photos = [], []
    for model, method in zip(models, methods, strict=True):
        run = Path(model)
        report, config = best_validation(run), read_config(run)
        rows.append(Row(model, DOCUMENTS.get(config.model.kind, "dense"), report, method))
        sources = [f"{val.path} ({val.split})" if val.split else val.path for val in config.data.val]
        photos.append(f"{', '.join(sources)} ({report.images} images, {report.captions} captions)")
    how = "by brute force, at each run's best checkpoint"
    if len(set(photos)) == 1:
        return rows, f"Validation on {photos[0]}, {how}."
    each = "; ".join(f"{model}: {place}" for model, place in zip(models, photos, strict=True))
    return rows, f"Validation {how}, but on different photos: {each}."
