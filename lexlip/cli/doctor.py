"""The command `lexlip doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lexlip.cli import options
from lexlip.errors import FixableError


@click.command()
@options.index_option
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
def doctor(index_folder: str, model: str) -> None:
    """Say what is found, what is missing or damaged, and how to fix it; exit with 1 if anything is."""
    failed = False
    for name, check in _checks(index_folder, model):
        try:
            click.echo(f"  ok      {name:8s} {check()}")
        except (ImportError, OSError, FixableError) as error:
            failed = True
            click.echo(f"  failed  {name:8s} {error}")
    if failed:
        raise click.exceptions.Exit(1)


def _checks(index: str, model: str) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("python", _python),
        ("torch", _torch),
        ("java", _java),
        ("lucene", _lucene),
        ("model", lambda: _model(model)),
        ("index", lambda: _index(index)),
    ]


def _python() -> str:
    import platform

    return f"{platform.python_version()} ({platform.machine()})"


def _torch() -> str:
    import timm
    import torch
    import transformers

    from lexlip.device import pick_device

    device = pick_device("auto")
    what = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    others = f"timm {timm.__version__}, transformers {transformers.__version__}"
    return f"{torch.__version__} on {device} ({what}), {others}"


def _java() -> str:
    from anserini_bridge import find_java

    java = find_java()
    return f"{java.version} from {java.origin}: {java.path}"


def _lucene() -> str:
    from anserini_bridge import find_jar, lucene_version, start_jvm

    start_jvm()
    return f"{lucene_version()} in {find_jar()}"


def _model(name: str) -> str:
    from lexlip.models.load import load_model

    model: Any = load_model(name)
    size = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    entries = "dimensions" if model.vocabulary is None else "words"
    return f"{model.identity}, {model.dimensions} {entries}, {size:.1f}M parameters"


def _index(folder: str) -> str:
    from contextlib import closing
    from pathlib import Path

    from anserini_bridge import IndexNotFound
    from lexlip.search.open_index import open_index

    try:
        with closing(open_index(folder)) as stage:
            return f"{folder}: {stage.metadata.documents} photos, made with {stage.metadata.encoder}"
    except IndexNotFound:
        if Path(folder).exists():
            raise
        return f"none at {folder} yet: make one with 'lexlip index FOLDER'"
