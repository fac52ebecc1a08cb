"""The command `lexlip bench train`."""

from __future__ import annotations

import json
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible


@click.command()
@click.option(
    "--size",
    type=click.Choice(["mini", "base"]),
    default="mini",
    show_default=True,
    help="Encoders of the packaged model's size, or ViT-B/16 and BERT-base; with random weights.",
)
@click.option("--batch", type=click.IntRange(min=2), default=32, show_default=True, help="Photos per step.")
@click.option(
    "--captions", type=click.IntRange(min=1), default=2, show_default=True, help="Captions per photo."
)
@click.option(
    "--terms",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Number of words of a vector.",
)
@click.option(
    "--precision",
    type=click.Choice(["auto", "bf16", "fp32"]),
    default="auto",
    show_default=True,
    help="Precision of the step; auto is bf16 if the device supports it.",
)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1; auto is a GPU if any.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads.  [default: torch's]")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Rounds, in each of which every kind of step runs; times are medians.",
)
@click.option(
    "--compile", "compiled", is_flag=True, help="One more row: with encoders compiled by torch.compile."
)
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

    A step is forward and backward of both encoders with the contrastive loss. It is measured with the
    encoders alone (averaged states), with a lexicon head that follows its equation to the letter, and with
    the lean head that training uses. Memory is what a step needs beyond the model.
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
