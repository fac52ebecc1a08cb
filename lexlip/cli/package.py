"""The command `lexlip package`."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible


@click.command()
@click.argument("run")
@click.argument("folder")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@options.device_option
@options.json_option
def package(run: str, folder: str, sources: tuple[str, ...], device: str, as_json: bool) -> None:
    """Make of a trained model one to use: small, balanced, without torch.

    RUN is a training run, whose best checkpoint is taken, or a model's folder; FOLDER is the new model's. Its
    weights are int8. Captioned photos that it was trained on balance its documents, so that no photo fits
    every sentence: those of the run, with what balances the model that it started from, or those of each
    SOURCE, as for `lexlip index`. A convolutional image encoder such as mini's needs no torch then.

    \b
        lexlip package runs/own own
        lexlip index ~/Pictures --model own
    """  # noqa: D301 (click's mark for lines that are not wrapped)
    from lexlip.training.packaging import package as make_package

    started = time.perf_counter()
    with interruptible("nothing was changed; run the same command again"):
        made = make_package(run, Path(folder), sources, device)
    done = {"model": folder, **asdict(made), "seconds": time.perf_counter() - started}
    if as_json:
        click.echo(json.dumps(done))
        return
    click.echo(f"{folder}: {made.words:,} words, {made.megabytes:.1f} MB, {done['seconds']:.1f} s")
    if made.captions:
        click.echo(f"documents are balanced by {made.captions:,} captions and {made.photos:,} photos")
    elif made.metric == "dot":
        click.echo("documents keep their lengths, as the model compares by dot product")
    else:
        click.echo("note: documents are not balanced: name photos with captions as SOURCE", err=True)
    if made.needs_torch:
        click.echo("photos need torch, as this image encoder has no graph for ONNX Runtime")
    else:
        click.echo("photos and sentences need no torch")
    click.echo(f"lexlip index PHOTOS --model {folder}")
