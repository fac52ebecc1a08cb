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
    help="Encoders of the packaged model's size, or ViT-B/16 and BERT-base; with random weights.",
)
@options.count_option("--batch", default=32, help="Photos per step.", least=2)
@options.count_option("--captions", default=2, help="Captions per photo.")
@options.count_option("--terms", default=128, help="Number of words of a vector.")
@click.option(
    "--precision",
    type=click.Choice(["auto", "bf16", "fp16", "fp32"]),
    default="auto",
    help="Precision of the step; auto is bf16 if the device supports it.",
)
@options.device_option
@options.count_option("--threads", help="CPU threads.  [default: torch's]")
@options.count_option(
    "--rounds", default=5, help="Rounds, in each of which every kind of step runs; times are medians."
)
@click.option(
    "--compile", "compiled", is_flag=True, help="One more row: with encoders compiled by torch.compile."
)
@click.option(
    "--source",
    metavar="SOURCE",
    help="Also measure how many photos of SOURCE a core decodes, and how many cores the step needs.",
)
@click.option(
    "--config",
    metavar="CONFIG",
    help="With --source: augment photos as this config says.  [default: RandAugment, two operations of"
    " magnitude 9]",
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
    source: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Measure a training step beside one of the bare encoders.

    A step is forward and backward of both encoders with the contrastive loss. It is measured with the
    encoders alone (averaged states), with a lexicon head that follows its equation to the letter, and with
    the lean head that training uses. Memory is what a step needs beyond the model.

    With --source, photos are read, decoded and augmented at 224 and 384 pixels as workers of training do,
    and compared with what the lean step eats.
    """
    if config is not None and source is None:
        raise click.UsageError("--config needs --source")
    import torch

    from lexlip.bench.training_step import SIZES, StepSettings, measure

    settings = StepSettings(
        SIZES[size], batch, captions, terms, precision, device, threads or torch.get_num_threads()
    )
    with interruptible("nothing was measured"):
        decoding = None if source is None else _decoding(source, config, progress=not as_json)
        report = measure(settings, rounds, compiled, progress=not as_json)
    report["conditions"] = {"size": size, **report["conditions"]}
    if decoding is not None:
        from lexlip.bench.decoding import cores_for

        eaten, rates = report["variants"]["lean"]["samples_per_s"], decoding["photos_per_s_and_core"]
        decoding["cores"] = {pixels: cores_for(eaten, rate) for pixels, rate in rates.items()}
        report["decoding"] = decoding
    if as_json:
        click.echo(json.dumps(report))
        return
    show(report["conditions"], report["variants"])
    if decoding is not None:
        show_decoding(decoding, report["conditions"])


def show(conditions: dict[str, Any], variants: dict[str, dict[str, float]]) -> None:
    """Print the conditions on a line and the variants as a table."""
    c = conditions
    click.echo(f"{c['size']}, {c['batch']} photos x {c['captions']} captions, V = {c['vocabulary']}")
    click.echo(f"{c['terms_image']:.0f} words an image, {c['terms_text']:.0f} a text")
    click.echo(f"{c['precision']} on {c['device']}, threads: {c['threads']}, rounds: {c['rounds']}")
    click.echo(f"{'':10}{'step ms':>10}{'x encoders':>12}{'photos/s':>10}{'peak MB':>10}")
    for name, row in variants.items():
        click.echo(
            f"{name:10}{row['step_ms']:10.1f}{row['ratio']:12.3f}"
            f"{row['samples_per_s']:10.1f}{row['peak_mb']:10.1f}"
        )


def _decoding(source: str, config: str | None, progress: bool) -> dict[str, Any]:
    """Measure what a core decodes, with a config's augmentation."""
    from lexlip.bench.decoding import measure_decoding
    from lexlip.config import DataConfig, ImageEncoderConfig
    from lexlip.config_files import load_config
    from lexlip.data import open_source

    data, image = DataConfig(randaugment=(2, 9)), ImageEncoderConfig()
    if config is not None:
        loaded = load_config(config, ["data.train=[any]", "data.val=[any]"])  # it may leave them open
        data, image = loaded.data, loaded.model.image
    return measure_decoding(open_source(source), data, image, progress=progress)


def show_decoding(decoding: dict[str, Any], conditions: dict[str, Any]) -> None:
    """Print what a core decodes, and how many cores the lean step needs."""
    left = f", {decoding['unreadable']} more cannot be read" if decoding["unreadable"] else ""
    click.echo(f"\n{decoding['photos']} photos decoded and augmented{left}")
    for pixels, rate in decoding["photos_per_s_and_core"].items():
        cores = decoding["cores"][pixels]
        click.echo(
            f"at {pixels} pixels a core gives {rate:.0f} photos/s: a step of {conditions['batch']} photos"
            f" needs {cores} core{'s' * (cores > 1)}"
        )
    click.echo(f"(the lean step above, of {conditions['pixels']} pixels)")
