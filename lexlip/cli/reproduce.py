"""The command `lexlip reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible

if TYPE_CHECKING:
    from lexlip.bench.reproduction import MeasuredRow, Row

TABLES = ("table-1", "table-3", "zero-shot", "scenes", "photos")
OWN = ("preset", "seed", "name", "out", "init")  # keys that each run has its own value of


@click.command()
@click.argument("table", type=click.Choice(TABLES))
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--dry-run", is_flag=True, help="Train nothing: list the runs, and what they need and lack.")
@click.option("--resume", is_flag=True, help="Go on with a run that was interrupted.")
@click.option("--seeds", type=options.Integer(1), default=1, help="Runs of each row, with seeds 0, 1 …")
@click.option(
    "--preset",
    type=click.Choice(["fixed", "faithful", "paper"]),
    help="As docs/papers.md says.  [default: paper; fixed for scenes; none for photos]",
    show_default=False,
)
@click.option("--row", "only", multiple=True, metavar="NAME", help="Only this row; may be repeated.")
@click.option("--source", "photos", metavar="SOURCE", help="Measure on these photos instead of the paper's.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/reproduce"),
    metavar="FOLDER",
    help="Where the runs are.",
)
@click.option(
    "--processes",
    type=options.Integer(1),
    default=1,
    help="That train a run together, one a GPU, as torchrun starts them.",
)
@options.topk_option(all_words=True, default="all")
@options.workers_option
@options.device_option
@options.json_option
def reproduce(
    table: str,
    changes: tuple[str, ...],
    dry_run: bool,
    resume: bool,
    seeds: int,
    preset: str | None,
    only: tuple[str, ...],
    photos: str | None,
    out: Path,
    processes: int,
    topk: int | None,
    workers: int,
    device: str,
    as_json: bool,
) -> None:
    """Train what a table of the paper needs, and print it.

    Runs that are finished stay as they are; the others are trained one after another by `lexlip pretrain`.
    Then each row is measured as `lexlip evaluate --topk all --engine exact` does: recalls, and with several
    --seeds their mean and standard deviation. KEY=VALUE changes the config of every run. "scenes" needs no
    photos: it draws them.

    \b
        lexlip reproduce table-1 --dry-run
        lexlip reproduce table-3 --seeds 3 --processes 8
    """  # noqa: D301 (click's mark for lines that are not wrapped)
    from lexlip.bench.reproduction import declared, measure_rows, rows_of, to_train
    from lexlip.cli.evaluate import open_captioned
    from lexlip.errors import ConfigError
    from lexlip.registry import MODELS

    definition = declared().tables[table]
    for change in changes:
        if "=" not in change:
            raise click.UsageError(f"'{change}' is not of the form KEY=VALUE, such as optim.lr=1e-4")
        if change.partition("=")[0] in OWN:
            raise click.UsageError(f"'{change}' is not for all runs: give --preset, --seeds or --out")
    names = [row.name for row in definition.rows]
    for name in only:
        if name not in names:
            raise click.UsageError(f"{table} has no row '{name}'; it has {', '.join(dict.fromkeys(names))}")
    preset = preset or definition.preset
    title = definition.title + (f"; preset {preset}" if preset else "")
    rows = rows_of(definition, preset, seeds, out, changes, photos)
    rows = [row for row in rows if not only or row.name in only]
    for row in rows if topk is not None else ():
        if any(not MODELS[run.phases[-1].model.kind].words for run in row.runs):
            other = "leave out --topk, or give other rows by --row"
            raise click.UsageError(f"'{row.name}' has no words: {other}")
    if dry_run:
        _show_plan(title, rows, processes, as_json)
        return
    runs = to_train(rows)
    begun = [run for run in runs if run.state == "begun"]
    if begun and not resume:
        raise ConfigError(f"the run {begun[0].folder} was interrupted: go on with --resume")
    for row in rows:
        open_captioned(row.photos, None, None)
    for run in runs:
        if missing := run.missing(processes):
            raise ConfigError(f"the run {run.folder} cannot start: {missing[0]}; --dry-run shows all")
    with interruptible("go on with the same command and --resume"):
        for run in runs:
            click.echo(run.line, err=True)
            run.train(run.state == "begun", processes)
        measured = list(measure_rows(rows, workers, device, topk))
    if as_json:
        click.echo(
            json.dumps(
                {"table": table, "preset": preset, "topk": topk, "rows": [row.to_dict() for row in measured]}
            )
        )
        return
    click.echo(f"{title}\n")
    click.echo(_as_text(measured))


def _show_plan(title: str, rows: list[Row], processes: int, as_json: bool) -> None:
    """Print the runs of a table, and what those lack that are to be trained."""
    from lexlip.bench.reproduction import runs_of, to_train
    from lexlip.cli.evaluate import open_captioned
    from lexlip.errors import LexLIPError

    runs, needed = runs_of(rows), to_train(rows)
    states = {
        run.folder: run.state if run in needed or run.state == "finished" else "not needed" for run in runs
    }
    lacking = {run.folder: run.missing(processes) if run in needed else [] for run in runs}
    if as_json:
        plans = [
            {
                "run": str(run.folder),
                "command": run.line,
                "after": run.after and str(run.after.folder),
                "train": run.photos("train"),
                "val": run.photos("val"),
                "gpu_hours": run.gpu_hours,
                "state": states[run.folder],
                "missing": lacking[run.folder],
            }
            for run in runs
        ]
        shown = [
            {"name": row.name, "photos": row.photos, "runs": [str(run.folder) for run in row.runs]}
            for row in rows
        ]
        click.echo(json.dumps({"runs": plans, "rows": shown}))
        return
    click.echo(f"{title}\n")
    for run in runs:
        hours = "" if run.gpu_hours is None else f", about {run.gpu_hours:.1f} hours of an A100 (computed)"
        click.echo(f"{run.folder}: {states[run.folder]}{hours}")
        click.echo(f"  {run.line}")
        learned, measured = (", ".join(run.photos(part)) or "nothing" for part in ("train", "val"))
        click.echo(f"  trains on {learned}; validates on {measured}")
    known = [run.gpu_hours for run in needed if run.gpu_hours is not None]
    partly = " as far as known" * (len(known) < len(needed))
    total = f", {sum(known):.0f} hours of an A100{partly}" if known else ""
    click.echo(f"\n{len(needed)} of {len(runs)} runs to train{total}")
    for row in rows:
        click.echo(f"{row.name}: {', '.join(str(run.folder) for run in row.runs)}, measured on {row.photos}")
    sentences = [what for found in lacking.values() for what in found]
    for photos in dict.fromkeys(row.photos for row in rows):
        try:
            open_captioned(photos, None, None)
        except LexLIPError as error:
            sentences.append(f"to measure on (--source): {error}")
    for what in dict.fromkeys(sentences):
        click.echo(f"missing: {what}")


def _as_text(measured: list[MeasuredRow]) -> str:
    """Return rows as aligned columns, the paper's figures below each."""
    from lexlip.bench.reproduction import RECALLS

    lines = [["", "photos", "seeds", *RECALLS]]
    for row in measured:
        spread: Any = row.deviations or [None] * len(RECALLS)
        figures = [
            f"{mean:.1f}" if one is None else f"{mean:.1f} ±{one:.1f}"
            for mean, one in zip(row.means, spread, strict=True)
        ]
        lines.append([row.row.name, row.row.photos, str(len(row.recalls)), *figures])
        if row.row.paper:
            lines.append(
                [f"{row.row.name}, paper", row.row.photos, "", *(f"{one:.1f}" for one in row.row.paper)]
            )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = (
        [cell.ljust(width) if number < 2 else cell.rjust(width) for number, (cell, width) in enumerate(cells)]
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    )
    return "\n".join("  ".join(cells).rstrip() for cells in shown)
