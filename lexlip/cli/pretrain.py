"""The command `lexlip pretrain`."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.machine.resources import of_torchrun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lexlip.config import Config, SourceConfig


@click.command()
@click.argument("config", required=False)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--resume",
    is_flag=True,
    help="Continue from the run's last checkpoint; under torchrun, begin if there is none.",
)
@click.option(
    "--dry-run", is_flag=True, help="Train nothing: show steps, parameters, memory, and what is missing."
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Train nothing: fit a new model's heads and encode what a teacher needs, for a later run.",
)
@click.option(
    "--processes",
    type=options.Integer(1),
    help="With --dry-run: how many would train together (default: those of torchrun, or 1).",
)
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def pretrain(
    config: str | None,
    overrides: tuple[str, ...],
    resume: bool,
    dry_run: bool,
    prepare: bool,
    processes: int | None,
    as_json: bool,
) -> None:
    """Train a model.

    CONFIG is a YAML file: one of your own, or configs/own.yaml and others that come along. KEY=VALUE changes
    one of its entries, as in optim.lr=1e-4. Without a CONFIG, a small LexLIP learns from drawn scenes in
    three phases, in a few minutes.

    With several processes: torchrun --nproc-per-node=N -m lexlip pretrain …
    """
    from lexlip.config_files import DEFAULT_CONFIG, load_phases

    if config is not None and "=" in config:
        overrides, config = (config, *overrides), None
    phases = load_phases(config or DEFAULT_CONFIG, overrides)
    if prepare and (dry_run or resume):
        raise click.UsageError("--prepare goes without --dry-run and --resume")
    if dry_run:
        _plan(phases, processes or of_torchrun("WORLD_SIZE", 1), resume, as_json)
        return
    if processes or as_json:
        raise click.UsageError("--processes and --json go with --dry-run")
    if prepare:
        from lexlip.training.loop import prepare as make_ready

        with interruptible("start again"):
            click.echo(f"prepared: {make_ready(phases)}; the same command without --prepare trains")
        return
    from lexlip.training.run_folder import way_on

    again = partial(way_on, phases[-1].folder)
    with interruptible(again):  # torchrun terminates the others if one fails
        from lexlip.training.loop import pretrain as train

        run = train(phases, resume)
    if of_torchrun("RANK") == 0:  # of those that torchrun started
        click.echo(f"best model: {run / 'best'}; measure it with:")
        for source in phases[-1].data.val:
            click.echo(_evaluate_line(source, phases[-1].model.kind, str(run / "best")))


def _evaluate_line(source: SourceConfig, kind: str, model: str) -> str:
    """Return the line that measures a run's model on its validation photos, needing what trained it alone."""
    from lexlip.registry import MODELS

    line = ["lexlip", "evaluate", source.path, "--model", model]
    given = {"--images": source.images, "--split": source.split, "--regions": source.regions}
    for option, value in given.items():
        line += [option, value] if value is not None else []
    if MODELS[kind].vectors and not MODELS[kind].words:
        line += ["--engine", "exact"]  # others search dense vectors with Faiss
    return shlex.join(line)


def _plan(phases: Sequence[Config], processes: int, resume: bool, as_json: bool) -> None:
    """Print what a run would do, and all that it lacks."""
    from lexlip.errors import ConfigError
    from lexlip.training.plan import plan_phases

    found = plan_phases(phases, processes, resume)
    missing = list(dict.fromkeys(what for plan in found for what in plan.missing))
    if of_torchrun("RANK") == 0:
        if as_json:
            report = found[-1].to_dict()
            if len(found) > 1:
                report["phases"] = {str(plan.config.phase): plan.to_dict() for plan in found}
                report["missing"] = missing
            click.echo(json.dumps(report, indent=2))
        else:
            lines = "\n\n".join("\n".join(plan.lines()) for plan in found)
            click.echo("\n".join([lines, *(f"missing    {what}" for what in missing)]))
    if missing:
        number = len(missing)
        what = "one thing is" if number == 1 else f"{number} things are"
        raise ConfigError(f"the run cannot start: {what} missing, see above")
