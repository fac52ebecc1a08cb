"""The command `lexlip bench`."""

from __future__ import annotations

import json
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.bench_encode import encode
from lexlip.cli.bench_engine import engine, plot
from lexlip.cli.bench_latency import latency
from lexlip.cli.exit_codes import interruptible


@click.group()
def bench() -> None:
    """Measure speed and memory on this machine."""


bench.add_command(engine)
bench.add_command(plot)
bench.add_command(latency)
bench.add_command(encode)


@bench.command()
@click.option(
    "--size",
    type=click.Choice(["mini", "base"]),
    default="mini",
    show_default=True,
    help="The packaged model's towers, or ViT-B/16 and BERT-base; random weights.",
)
@click.option("--batch", type=click.IntRange(min=2), default=32, show_default=True, help="Photos of a step.")
@click.option(
    "--captions", type=click.IntRange(min=1), default=2, show_default=True, help="Captions of a photo."
)
@click.option(
    "--terms",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Words of a vector that are in use.",
)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, or the best there is.")
@click.option("--threads", type=click.IntRange(min=1), help="Of the CPU; default: as torch has it.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Steps of each kind, in turns; times are medians.",
)
@click.option("--compile", "compiled", is_flag=True, help="One more row: encoders through torch.compile.")
@options.json_option
def train(
    size: str,
    batch: int,
    captions: int,
    terms: int,
    precision: str,
    device: str,
    threads: int | None,
    rounds: int,
    compiled: bool,
    as_json: bool,
) -> None:
    """Measure a training step beside one of the bare encoders.

    A step is forward and backward of both towers and the contrastive loss: of the encoders alone
    (states averaged), with the lexicon head to the letter of its equation, and with the lean one that
    training uses. Memory is what a step adds to the model.
    """
    import torch

    from lexlip.bench.training_step import SIZES, StepSettings, measure

    settings = StepSettings(
        SIZES[size], batch, captions, terms, precision, device, threads or torch.get_num_threads()
    )
    with interruptible("nothing was measured"):
        report = measure(settings, rounds, compiled, progress=not as_json)
    report["conditions"] = {"size": size, **report["conditions"]}
    if as_json:
        click.echo(json.dumps(report))
        return
    show(report["conditions"], report["variants"])


def show(conditions: dict[str, Any], variants: dict[str, dict[str, float]]) -> None:
    """Print the conditions on a line and the variants as a table."""
    c = conditions
    click.echo(f"{c['size']}, {c['batch']} photos x {c['captions']} captions, V = {c['vocabulary']}")
    click.echo(f"{c['terms_image']:.0f} terms an image, {c['terms_text']:.0f} a text")
    click.echo(f"{c['precision']} on {c['device']}, threads: {c['threads']}, rounds: {c['rounds']}")
    click.echo(f"{'':10}{'step ms':>10}{'x encoders':>12}{'photos/s':>10}{'peak MB':>10}")
    for name, row in variants.items():
        click.echo(
            f"{name:10}{row['step_ms']:10.1f}{row['ratio']:12.3f}"
            f"{row['samples_per_s']:10.1f}{row['peak_mb']:10.1f}"
        )
