"""The command `lexlip doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lexlip.cli import options
from lexlip.errors import EXTRAS, FixableError
from lexlip.words.plain_text import counted

Check = Callable[[], str | list[str]]
"""Returns what is well, or the sentences about what is not."""

SHOWN = 10  # damaged photos named on the screen


@click.command()
@options.index_option
@options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of the model.")
@click.option(
    "--verify",
    is_flag=True,
    help="Also compare every file of the index, and of the model that made it, with its checksum.",
)
@options.json_option
def doctor(index_folder: str, model: str, verify: bool, as_json: bool) -> None:
    """Say what is found, what is missing or damaged, and how to fix it; exit with 1 if anything is."""
    damage: dict[str, Any] = {}
    checks: list[tuple[str, Check]] = [
        ("python", _python),
        ("torch", _torch),
        ("java", _java),
        ("lucene", _lucene),
        ("model", lambda: _model(model)),
        ("index", lambda: _index(index_folder)),
    ]
    if verify and Path(index_folder).exists():
        checks += [
            ("files", lambda: _files(index_folder, damage, progress=not as_json)),
            ("photos", lambda: _photos(damage)),
            ("encoder", lambda: _encoder(index_folder)),
        ]
    rows = [row for name, check in checks for row in _findings(name, check, show=not as_json)]
    well = all(row["ok"] for row in rows)
    if as_json:
        click.echo(json.dumps({"ok": well, "checks": rows, **damage}))
    if not well:
        raise click.exceptions.Exit(1)


def _findings(name: str, check: Check, show: bool) -> list[dict[str, Any]]:
    """Run a check, show what it has found, and return it."""
    try:
        said = check()
    except (ImportError, OSError, FixableError) as error:
        said = [str(error)]
    ok = isinstance(said, str)
    texts = [said] if isinstance(said, str) else said
    for text in texts if show else ():
        click.echo(f"  {'ok' if ok else 'failed':6s}  {name:8s} {text}")
    return [{"name": name, "ok": ok, "text": text} for text in texts]


def _python() -> str:
    import platform

    return f"{platform.python_version()} ({platform.machine()})"


def _torch() -> str:
    from lexlip.machine.device import has_torch, pick_device

    if not has_torch():
        import onnxruntime

        return f"none: ONNX Runtime {onnxruntime.__version__} encodes photos; {EXTRAS['torch']} to train"
    device = pick_device("auto")  # before torch is loaded
    import timm
    import torch
    import transformers

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
    from lexlip.machine.device import has_torch
    from lexlip.models.load import load_model
    from lexlip.models.model_folder import check_model
    from lexlip.queries.photo_encoder import open_encoder

    check_model(name)
    model: Any = load_model(name) if has_torch() else open_encoder(name)
    numbers = sum(one.numel() for one in model.parameters()) if has_torch() else model.numbers
    size = numbers / 1e6
    entries = "dimensions" if model.vocabulary is None else "words"
    return f"{model.identity}, {model.dimensions} {entries}, {size:.1f}M parameters"


def _index(folder: str) -> str:
    from contextlib import closing

    from anserini_bridge import IndexNotFound
    from lexlip.search.stages.index_model import open_index

    try:
        with closing(open_index(folder)) as stage:
            photos = counted(stage.metadata.documents, "photo")
            return f"{folder}: {photos}, made with {stage.metadata.encoder}"
    except IndexNotFound:
        if Path(folder).exists():
            raise
        return f"none at {folder} yet: make one with `lexlip index FOLDER`"


def _files(index: str, damage: dict[str, Any], progress: bool) -> str | list[str]:
    """Look for damage; what is found goes into `damage`, for programs."""
    from lexlip.indexing.damage import look_for_damage

    found = look_for_damage(index, progress)
    damage["damaged_files"] = [
        {"file": str(file.file), "reason": file.reason, "segment": file.segment} for file in found.files
    ]
    damage["without_checksum"] = found.unknown
    damage["damaged_photos"] = found.photos()
    if found.files:
        return [*map(str, found.files), found.way_out()]
    without = f"; without a checksum: {', '.join(found.unknown)}" if found.unknown else ""
    return f"{found.megabytes:.2f} MB are as they were written{without}"


def _photos(damage: dict[str, Any]) -> str | list[str]:
    if damage and not damage["damaged_files"]:
        return "none is damaged"
    photos = damage.get("damaged_photos")
    if photos is None:
        return ["which are damaged cannot be told"]
    if not photos:
        return "none is damaged"
    more = f" … and {len(photos) - SHOWN} more (--json lists all)" if len(photos) > SHOWN else ""
    return [f"{len(photos)} {'is' if len(photos) == 1 else 'are'} damaged: {', '.join(photos[:SHOWN])}{more}"]


def _encoder(index: str) -> str:
    from anserini_bridge import read_header
    from lexlip.models.model_folder import check_model
    from lexlip.search.stages.index_model import check_encoder

    header = read_header(Path(index))
    name = check_encoder(Path(index), header, None)
    unknown = check_model(name)
    return f"{header.encoder} at {name}" + (f"; without a checksum: {', '.join(unknown)}" if unknown else "")
