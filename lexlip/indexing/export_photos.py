"""Writes photos as files for another search engine, without leaving an index."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from lexlip.errors import ConfigError, writing
from lexlip.indexing import api
from lexlip.models.model_folder import kind_of
from lexlip.other_engines.engine_contract import other_engine
from lexlip.other_engines.export import NAME, Exported, check_folder, export
from lexlip.registry import BM25, MODELS


def export_photos(
    source: api.Names,
    engine: str,
    output: str | Path,
    model: str | Path = "mini",
    *,
    progress: bool = False,
    name: str = NAME,
    **how: Any,
) -> Exported:
    """Index photos in a hidden folder beside the export, export them, and delete the index.

    An interrupted run leaves that folder, so that the same call goes on where it was.

    Args:
        source, model: see `lexlip.indexing.api.index`; the model is one of words.
        engine, output, name: see `lexlip.other_engines.export.export`.
        progress: show progress bars.
        how: further arguments of `lexlip.indexing.api.index`.

    Raises:
        ConfigError: the model is not one of words, or the engine takes no such name.
        FixableError: see these two.
    """
    other_engine(engine).check_name(name)
    kind = kind_of(model)
    if kind == BM25 or kind not in MODELS or not MODELS[kind].words:
        raise ConfigError(f"only words are exported, and '{model}' is not a model of words")
    output = Path(output)
    check_folder(output)
    folder = output.absolute().with_name(f".{output.absolute().name}.indexing")
    api.index(source, folder, model, progress=progress, **how)
    done = export(folder, engine, output, progress, name)
    with writing(str(folder)):
        shutil.rmtree(folder)
    return done
