"""The command `lexlip bench encode`."""

from __future__ import annotations

import json
from typing import Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible

NAMES = {"index": "lexlip index", "plain": "plain, as with open_clip"}


@click.command()
@click.argument("source")
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@options.count_option(
    "--photos", default=500, metavar="N", help="Number of photos to encode, evenly spread over SOURCE."
)
@options.count_option(
    "--rounds", default=3, help="Rounds, in each of which both loops run; figures are medians."
)
@options.images_option
@options.split_option
@options.workers_option
@options.device_option
@options.json_option
def encode(
    source: str,
    model: str,
    photos: int,
    rounds: int,
    images: str | None,
    split: str | None,
    workers: int,
    device: str,
    as_json: bool,
) -> None:
    """Measure photos per second, with decoding and resizing, beside a plain loop.

    The loop of `lexlip index` and one that users of open_clip write (its evaluation transform, a DataLoader,
    the model in evaluation mode, in batches of 32) encode the same photos of SOURCE with the same model.
    Workers are threads in the first loop and processes in the second.
    """
    from lexlip.data import open_source
    from lexlip.models.model_folder import model_folder

    with interruptible("nothing was measured"):
        folder = str(model_folder(model))  # fails before the seconds that loading torch takes
        source_photos = open_source(source, images, split)

        from lexlip.bench.encoding import measure_encoding

        report = measure_encoding(
            folder, source_photos, photos, workers, rounds, device, progress=not as_json
        )
    report["conditions"]["model"] = model
    click.echo(json.dumps(report)) if as_json else show(report)


def show(report: dict[str, Any]) -> None:
    """Print photos per second as a table, with the ratio of both loops."""
    c = report["conditions"]
    click.echo(
        f"{c['photos']:,} photos of {c['photo_width']} x {c['photo_height']} pixels ({c['photo_kb']:g} kB)"
        + (f", {c['unreadable']:,} more cannot be read" if c["unreadable"] else "")
    )
    click.echo(
        f"{c['model']}: {c['encoder']} at {c['pixels']} pixels on {c['device']}, batches of {c['batch']}"
    )
    click.echo(
        f"{c['cpu']}, {c['cores']} cores, threads: {c['threads']}, workers: {c['workers']},"
        f" rounds: {c['rounds']}, torch {c['torch']}"
    )
    click.echo(f"{'':26}{'photos/s':>10}{'least':>10}{'most':>10}{'cores busy':>12}")
    for loop, row in report["loops"].items():
        click.echo(f"{NAMES[loop]:26}{_cells(row['photos_per_s'], '.1f')}{row['busy']:12.0%}")
    click.echo(f"{'ratio':26}{_cells(report['ratio'], '.2f')}")


def _cells(spread: dict[str, float], form: str) -> str:
    return "".join(f"{value:10{form}}" for value in spread.values())
